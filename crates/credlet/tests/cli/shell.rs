//! Exit and signal handling of `credlet run` and `credlet shell`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use credlet_testkit::pty::Pty;
use rustix::process::{Pid, Signal, kill_process};

use super::support::{CREDLET, CliSandbox};

/// Returns the remaining files of proxies of `credlet run`.
fn left(home: &CliSandbox) -> Vec<String> {
    let all = fs::read_dir(home.path("credlet")).unwrap().map(|entry| entry.unwrap().file_name());
    all.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("process-")).collect()
}

/// Starts a command and waits until it prints that it is ready.
fn ready(mut command: std::process::Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, said)
}

fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn shell_has_a_temporary_kubeconfig() {
    let home = CliSandbox::with_user("{token: t}");
    let script = format!("echo $CREDLET_SHELL; {CREDLET} get /readyz; test -s $KUBECONFIG && exit 7");
    let output = home.run(&["shell", "/bin/sh", "--", "-c", &script]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(7), "blue\nok"), "{output:?}");
    assert_eq!(left(&home), [] as [&str; 0]);

    // SHELL selects the shell.
    fs::write(home.path("my shell"), format!("#!/bin/sh\n{CREDLET} get /version\n")).unwrap();
    fs::set_permissions(home.path("my shell"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = home.command(&["shell"]);
    command.env("SHELL", home.path("my shell"));
    assert!(home.finish(command).data().contains("gitVersion"));

    let mut command = home.command(&["shell", "--read-only"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(format!("{CREDLET} request -X DELETE /api/v1/namespaces/a").as_bytes())
        .unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(output.contains("--read-only (set by the arguments of `credlet shell`)"), "{output}");
    assert!(home.run(&["shell", "no-such-shell"]).stderr.contains("no-such-shell"));
}

#[test]
fn shell_has_job_control() {
    let home = CliSandbox::with_user("{token: t}");
    let (dir, env) = (home.dir().to_str().unwrap().to_owned(), home.env());
    let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let env = env.chain([("XDG_RUNTIME_DIR", dir.as_str()), ("SHELL", "/bin/sh"), ("PS1", "> ")]);
    let mut pty = Pty::spawn(CREDLET, ["shell"], env);
    let soon = std::time::Duration::from_secs(60);
    pty.send(b"set -m; echo $CREDLET_SHELL is ready\n");
    pty.read_until("blue is ready", soon);
    pty.send(format!("{CREDLET} get /readyz; echo; echo went $?\n").as_bytes());
    pty.read_until("ok", soon);
    pty.read_until("went 0", soon);
    pty.send(b"exit 5\n");
    assert_eq!(pty.wait().code(), Some(5), "{}", pty.screen());
    assert_eq!(left(&home), [] as [&str; 0]);
}

#[test]
fn closing_the_terminal_hangs_up_the_command() {
    credlet_testkit::signals::heed_terminals();
    let home = CliSandbox::with_user("{token: t}");
    for verb in [&["run", "--", "/bin/sh", "-c"][..], &["shell", "/bin/sh", "--", "-c"]] {
        let of = |script| home.command(&verb.iter().copied().chain([script]).collect::<Vec<_>>());
        let (mut child, _said) = ready(of("echo ready; exec /bin/sleep 1000"));
        assert_eq!(left(&home).len(), 1);
        send_signal(&child, Signal::HUP);
        assert_eq!(child.wait().unwrap().signal(), Some(1), "{verb:?}");
        assert_eq!(left(&home), [] as [&str; 0], "{verb:?}");

        let (mut child, mut said) =
            ready(of("trap 'echo hung up; exit 3' HUP; echo ready; while :; do /bin/sleep 0.1; done"));
        send_signal(&child, Signal::HUP);
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(3), "hung up\n"), "{verb:?}");
        assert_eq!(left(&home), [] as [&str; 0], "{verb:?}");
    }
}

#[test]
fn ignored_hangup_stays_ignored() {
    let home = CliSandbox::with_user("{token: t}");
    let script = format!("trap '' HUP; exec {CREDLET} run -- /bin/sh -c 'echo ready; read word; echo went on'");
    let mut command = home.command(&[]);
    #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &script]).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    drop(std::mem::replace(&mut command, shell));
    let (mut child, mut said) = ready(command);
    send_signal(&child, Signal::HUP);
    child.stdin.take().unwrap().write_all(b"word\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(0), "went on\n"));
    assert_eq!(left(&home), [] as [&str; 0]);
}

#[test]
fn interrupt_reaches_only_the_command() {
    let home = CliSandbox::with_user("{token: t}");
    let env = home.env();
    let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let dir = home.dir().to_str().unwrap().to_owned();
    let mut pty = Pty::spawn(
        CREDLET,
        ["run", "--", "/bin/sh", "-c", "echo ready; exec /bin/sleep 1000"],
        env.chain([("XDG_RUNTIME_DIR", dir.as_str())]),
    );
    pty.read_until("ready", std::time::Duration::from_secs(60));
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(2), "{}", pty.screen());
    assert_eq!(left(&home), [] as [&str; 0]);
}

#[test]
fn proxy_serves_until_the_command_exits() {
    let home = CliSandbox::with_user("{token: t}");
    let script = |signal: &str| {
        format!("trap '{CREDLET} get /readyz; exit 9' {signal}; echo ready; while :; do /bin/sleep 0.1; done")
    };
    let (env, dir) = (home.env(), home.dir().to_str().unwrap().to_owned());
    let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut pty = Pty::spawn(
        CREDLET,
        ["run", "--", "/bin/sh", "-c", &script("INT")],
        env.chain([("XDG_RUNTIME_DIR", dir.as_str())]),
    );
    pty.read_until("ready", std::time::Duration::from_secs(60));
    pty.send(b"\x03");
    assert_eq!(pty.wait().code(), Some(9), "{}", pty.screen());
    assert!(pty.screen().contains("ok"), "{}", pty.screen());

    let (mut child, mut said) = ready(home.command(&["run", "--", "/bin/sh", "-c", &script("TERM")]));
    send_signal(&child, Signal::TERM);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(9), "ok"));
    assert_eq!(left(&home), [] as [&str; 0]);
}

#[test]
fn sigterm_is_forwarded_and_leaves_nothing() {
    let home = CliSandbox::with_user("{token: t}");
    let (mut child, _said) = ready(home.command(&["run", "--", "/bin/sh", "-c", "echo ready; exec /bin/sleep 1000"]));
    send_signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_eq!(left(&home), [] as [&str; 0]);
}
