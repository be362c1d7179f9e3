//! `credlet run` and `credlet shell`, to whatever end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use credlet_testkit::pty::Pty;
use rustix::process::{Pid, Signal, kill_process};

use super::support::{CREDLET, Home};

/// What is there of proxies that were one command's own.
fn left(home: &Home) -> Vec<String> {
    let all = fs::read_dir(home.path("credlet")).unwrap().map(|entry| entry.unwrap().file_name());
    all.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("process-")).collect()
}

/// Starts a command that says when it is ready.
fn ready(mut command: std::process::Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, said)
}

fn tell(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_shell_is_the_users_own_or_another_and_has_a_kubeconfig_that_goes_with_it() {
    let home = Home::of("{token: t}");
    let script = format!("echo $CREDLET_SHELL; {CREDLET} get /readyz; test -s $KUBECONFIG && exit 7");
    let ran = home.run(&["shell", "/bin/sh", "--", "-c", &script]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), "blue\nok"), "{ran:?}");
    assert_eq!(left(&home), [] as [&str; 0]);

    // Which is the user's own is for the environment to say.
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
    let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(told.contains("--read-only (set by the arguments of `credlet shell`)"), "{told}");
    assert!(home.run(&["shell", "no-such-shell"]).stderr.contains("no-such-shell"));
}

#[test]
fn a_shell_has_the_terminal_and_its_jobs() {
    let home = Home::of("{token: t}");
    let (dir, env) = (home.dir.path().to_str().unwrap().to_owned(), home.env());
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
fn when_the_terminal_is_closed_the_command_is_told_and_nothing_is_left() {
    credlet_testkit::signals::heed_terminals();
    let home = Home::of("{token: t}");
    for verb in [&["run", "--", "/bin/sh", "-c"][..], &["shell", "/bin/sh", "--", "-c"]] {
        let of = |script| home.command(&verb.iter().copied().chain([script]).collect::<Vec<_>>());
        let (mut child, _said) = ready(of("echo ready; exec /bin/sleep 1000"));
        assert_eq!(left(&home).len(), 1);
        tell(&child, Signal::HUP);
        assert_eq!(child.wait().unwrap().signal(), Some(1), "{verb:?}");
        assert_eq!(left(&home), [] as [&str; 0], "{verb:?}");

        let (mut child, mut said) =
            ready(of("trap 'echo hung up; exit 3' HUP; echo ready; while :; do /bin/sleep 0.1; done"));
        tell(&child, Signal::HUP);
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(3), "hung up\n"), "{verb:?}");
        assert_eq!(left(&home), [] as [&str; 0], "{verb:?}");
    }
}

#[test]
fn whoever_had_hang_ups_ignored_goes_on_without_a_terminal() {
    let home = Home::of("{token: t}");
    let script = format!("trap '' HUP; exec {CREDLET} run -- /bin/sh -c 'echo ready; read word; echo went on'");
    let mut command = home.command(&[]);
    #[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &script]).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    drop(std::mem::replace(&mut command, shell));
    let (mut child, mut said) = ready(command);
    tell(&child, Signal::HUP);
    child.stdin.take().unwrap().write_all(b"word\n").unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(0), "went on\n"));
    assert_eq!(left(&home), [] as [&str; 0]);
}

#[test]
fn an_interrupt_is_for_the_command() {
    let home = Home::of("{token: t}");
    let env = home.env();
    let env = env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let dir = home.dir.path().to_str().unwrap().to_owned();
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
fn a_command_that_cleans_up_after_itself_has_its_proxy_for_as_long_as_that_takes() {
    let home = Home::of("{token: t}");
    let script = |signal: &str| {
        format!("trap '{CREDLET} get /readyz; exit 9' {signal}; echo ready; while :; do /bin/sleep 0.1; done")
    };
    let (env, dir) = (home.env(), home.dir.path().to_str().unwrap().to_owned());
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
    tell(&child, Signal::TERM);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(9), "ok"));
    assert_eq!(left(&home), [] as [&str; 0]);
}

#[test]
fn told_to_end_the_command_is_told_and_nothing_is_left() {
    let home = Home::of("{token: t}");
    let (mut child, _said) = ready(home.command(&["run", "--", "/bin/sh", "-c", "echo ready; exec /bin/sleep 1000"]));
    tell(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_eq!(left(&home), [] as [&str; 0]);
}
