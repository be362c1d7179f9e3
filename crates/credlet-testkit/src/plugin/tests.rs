use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::{Value, json};

use super::*;

fn start(plugin: &Plugin) -> Child {
    Command::new(plugin.command())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the plugin to start")
}

fn run(plugin: &Plugin) -> Output {
    start(plugin).wait_with_output().unwrap()
}

fn answer(plugin: &Plugin) -> Value {
    let output = run(plugin);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_answer_is_an_exec_credential() {
    let plugin = Plugin::answering("t").certificate("cert", "key").expiring_at("tomorrow");
    assert_eq!(
        answer(&plugin),
        json!({
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {
                "token": "t",
                "clientCertificateData": "cert",
                "clientKeyData": "key",
                "expirationTimestamp": "tomorrow",
            },
        })
    );
    let plugin = Plugin::new().answers_with_certificate("cert", "key");
    assert_eq!(answer(&plugin)["status"], json!({ "clientCertificateData": "cert", "clientKeyData": "key" }));
}

#[test]
fn the_asked_version_is_echoed_unless_another_is_given() {
    let plugin = Plugin::answering("t");
    let asked = r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{}}"#;
    let output = Command::new(plugin.command()).env("KUBERNETES_EXEC_INFO", asked).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["apiVersion"], "client.authentication.k8s.io/v1beta1");
    assert_eq!(answer(&Plugin::answering("t").api_version("v0"))["apiVersion"], "v0");
}

#[test]
fn an_expiry_counts_from_the_run() {
    let expiry = |plugin: Plugin| -> jiff::Timestamp {
        answer(&plugin)["status"]["expirationTimestamp"].as_str().unwrap().parse().unwrap()
    };
    let now = jiff::Timestamp::now();
    let minute = jiff::SignedDuration::from_secs(60);
    let later = expiry(Plugin::answering("t").expiring_in(Duration::from_secs(60))).duration_since(now);
    assert!(minute <= later && later < minute * 2, "{later}");
    let earlier = now.duration_since(expiry(Plugin::answering("t").expired_since(Duration::from_secs(60))));
    assert!(jiff::SignedDuration::ZERO < earlier && earlier <= minute, "{earlier}");
}

#[test]
fn the_environment_makes_the_test_binary_itself_the_plugin() {
    let plugin = Plugin::answering("t");
    let output = Command::new(this_binary()).envs(plugin.env()).args(plugin.args()).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["status"]["token"], "t");
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn an_installed_plugin_needs_no_environment_at_all() {
    let plugin = Plugin::answering("t");
    let elsewhere = tempfile::tempdir().unwrap();
    let program = plugin.install(elsewhere.path(), "kubectl-login");
    assert!(Command::new(&program).env_clear().output().unwrap().status.success());
    assert!(Command::new("kubectl-login").env("PATH", elsewhere.path()).output().unwrap().status.success());
    assert!(Command::new("./kubectl-login").current_dir(elsewhere.path()).output().unwrap().status.success());
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn each_run_does_its_own_part_and_the_last_part_repeats() {
    let plugin = Plugin::failing(3, "no\n").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let first = run(&plugin);
    assert_eq!((first.status.code(), &*first.stderr, &*first.stdout), (Some(3), &b"no\n"[..], &b""[..]));
    assert_eq!(answer(&plugin)["status"]["token"], "two");
    assert_eq!(answer(&plugin)["status"]["token"], "three");
    assert_eq!(answer(&plugin)["status"]["token"], "three");
    assert_eq!(plugin.runs(), 4);
}

#[test]
fn a_plugin_can_be_told_otherwise_later() {
    let mut plugin = Plugin::answering("one");
    assert_eq!(answer(&plugin)["status"]["token"], "one");
    plugin.from_now_on(Plugin::answering("two").on_the_next_run().answers("three"));
    assert_eq!(answer(&plugin)["status"]["token"], "two");
    assert_eq!(answer(&plugin)["status"]["token"], "three");
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn runs_at_the_same_moment_are_all_counted_and_numbered() {
    let plugin = (2..=12).fold(Plugin::new().prints("1"), |plugin, n| plugin.on_the_next_run().prints(n.to_string()));
    let children: Vec<Child> = (0..12).map(|_| start(&plugin)).collect();
    let mut pids: Vec<u32> = children.iter().map(Child::id).collect();
    let mut numbers: Vec<u32> = children
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=12).collect::<Vec<_>>());
    let mut counted = plugin.pids();
    counted.sort_unstable();
    pids.sort_unstable();
    assert_eq!(counted, pids);
}

#[test]
fn a_flood_has_the_asked_size() {
    assert_eq!(run(&Plugin::new().floods(Stream::Stdout, 1_000_001)).stdout.len(), 1_000_001);
    assert_eq!(run(&Plugin::new().floods(Stream::Stderr, 70_000)).stderr.len(), 70_000);
}

#[test]
fn an_endless_flood_ends_when_nobody_reads() {
    let plugin = Plugin::new().floods_endlessly(Stream::Stdout);
    let mut child = start(&plugin);
    child.stdout.take().unwrap().read_exact(&mut [0; 1_000_000]).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(13), "{status}");
}

#[test]
fn half_an_answer_may_be_followed_by_a_closed_stdout() {
    let plugin = Plugin::new().prints(r#"{"apiVersion""#).closes(Stream::Stdout).waits_at("the end").prints("lost");
    let mut child = start(&plugin);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, r#"{"apiVersion""#);
    assert!(is_running(child.id()));
    plugin.open("the end");
    assert!(child.wait().unwrap().success());
}

#[test]
fn death_by_a_signal_is_real() {
    assert_eq!(run(&Plugin::new().dies_by(9)).status.signal(), Some(9));
    assert_eq!(run(&Plugin::new().dies_by(15)).status.signal(), Some(15));
}

#[test]
fn a_plugin_deaf_to_sigterm_goes_on() {
    let plugin = Plugin::new().ignores_termination().dies_by(15).exits(5);
    assert_eq!(run(&plugin).status.code(), Some(5));
}

#[tokio::test]
async fn a_gate_holds_a_run_until_the_test_opens_it() {
    let plugin = Plugin::new().waits_at("gate").exits(4);
    let mut child = start(&plugin);
    plugin.has_run(1).await;
    plugin.reached("gate").await;
    assert_eq!(child.try_wait().unwrap(), None);
    plugin.open("gate");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_file_that_appears_ends_the_wait() {
    let place = tempfile::tempdir().unwrap();
    let plugin = Plugin::new().prints("ready").waits_for_file(place.path().join("go")).exits(6);
    let mut child = start(&plugin);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    fs::write(place.path().join("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn a_hanging_plugin_ends_with_the_test() {
    let plugin = Plugin::new().prints("ready").hangs();
    let mut child = start(&plugin);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    drop(plugin);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_grandchild_holds_the_pipes_open_after_the_plugin_has_ended() {
    let plugin = Plugin::answering("t").leaves_a_grandchild(&[Stream::Stdout, Stream::Stderr], Duration::from_secs(60));
    let mut child = start(&plugin);
    assert!(child.wait().unwrap().success());
    let [grandchild] = plugin.grandchildren()[..] else { panic!("one grandchild") };
    assert!(is_running(grandchild));
    drop(plugin);
    // Ends only when the grandchild does: it keeps the other end, which is closed a moment before it is gone.
    child.stderr.take().unwrap().read_to_string(&mut String::new()).unwrap();
    while is_running(grandchild) {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_daemon_that_keeps_stderr_only_is_out_of_reach_of_the_group() {
    let plugin = Plugin::answering("t").leaves_a_daemon(&[Stream::Stderr], Duration::from_secs(60)).hangs();
    let mut child =
        Command::new(plugin.command()).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The answer is complete before the daemon starts; wait until it has.
    while plugin.grandchildren().is_empty() {
        thread::sleep(Duration::from_millis(1));
    }
    let group = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("ExecCredential"));
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let [daemon] = plugin.grandchildren()[..] else { panic!("one daemon") };
    assert!(is_running(daemon));
}

#[test]
fn a_report_tells_what_the_plugin_was_given() {
    let plugin = Plugin::new().reports_with_stdin();
    let cwd = tempfile::tempdir().unwrap();
    let mut child = Command::new(plugin.command())
        .args(["get-token", "--now"])
        .env_clear()
        .env("KUBERNETES_EXEC_INFO", "{}")
        .env("EMPTY", "")
        .current_dir(cwd.path())
        .process_group(0)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"\x00in\xff").unwrap();
    let pid = child.id().cast_signed();
    assert!(child.wait_with_output().unwrap().status.success());

    let report = plugin.report();
    assert_eq!(report, plugin.report_of(1));
    assert_eq!(report.exec_info.as_deref(), Some("{}"));
    assert_eq!(
        report.env.into_iter().collect::<Vec<_>>(),
        [("EMPTY".to_owned(), String::new()), ("KUBERNETES_EXEC_INFO".to_owned(), "{}".to_owned()),]
    );
    assert_eq!(report.args, ["get-token", "--now"]);
    assert_eq!(report.stdin.as_deref(), Some(&b"\x00in\xff"[..]));
    assert_eq!(report.cwd, cwd.path().canonicalize().unwrap());
    assert_eq!((report.pid, report.process_group), (pid, pid));
    assert_eq!(report.parent, Some(std::process::id().cast_signed()));
    assert!(!report.stdin_is_terminal && !report.stderr_is_terminal);
    assert_eq!(report.foreground_group, None);
    assert!(report.open_descriptors.starts_with(&[0, 1, 2]));
}

#[test]
fn a_plugin_that_cannot_do_as_told_says_so() {
    let output = Command::new(this_binary()).env(SCRIPT_VARIABLE, "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(97));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot do as it is told"));
    let status: ExitStatus = run(&Plugin::new().asks_for_a_password("no terminal: ")).status;
    assert_eq!(status.code(), Some(97));
}
