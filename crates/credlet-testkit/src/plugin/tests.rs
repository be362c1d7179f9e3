use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::{Value, json};

use super::*;

fn start(plugin: &TestPlugin) -> Child {
    Command::new(plugin.command())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the plugin to start")
}

fn run(plugin: &TestPlugin) -> Output {
    start(plugin).wait_with_output().unwrap()
}

fn answer(plugin: &TestPlugin) -> Value {
    let output = run(plugin);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn prints_exec_credential() {
    let plugin = TestPlugin::answering("t").certificate("cert", "key").expiring_at("tomorrow");
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
    let plugin = TestPlugin::new().answers_with_certificate("cert", "key");
    assert_eq!(answer(&plugin)["status"], json!({ "clientCertificateData": "cert", "clientKeyData": "key" }));
}

#[test]
fn echoes_requested_version() {
    let plugin = TestPlugin::answering("t");
    let asked = r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{}}"#;
    let output = Command::new(plugin.command()).env("KUBERNETES_EXEC_INFO", asked).output().unwrap();
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["apiVersion"], "client.authentication.k8s.io/v1beta1");
    assert_eq!(answer(&TestPlugin::answering("t").api_version("v0"))["apiVersion"], "v0");
}

#[test]
fn expiry_is_relative_to_run() {
    let expiry = |plugin: TestPlugin| -> jiff::Timestamp {
        answer(&plugin)["status"]["expirationTimestamp"].as_str().unwrap().parse().unwrap()
    };
    let now = jiff::Timestamp::now();
    let minute = jiff::SignedDuration::from_secs(60);
    let later = expiry(TestPlugin::answering("t").expiring_in(Duration::from_secs(60))).duration_since(now);
    assert!(minute <= later && later < minute * 2, "{later}");
    let earlier = now.duration_since(expiry(TestPlugin::answering("t").expired_since(Duration::from_secs(60))));
    assert!(jiff::SignedDuration::ZERO < earlier && earlier <= minute, "{earlier}");
}

#[test]
fn environment_selects_plugin() {
    let plugin = TestPlugin::answering("t");
    let output = Command::new(program()).envs(plugin.env()).args(plugin.args()).output().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["status"]["token"], "t");
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn installed_plugin_needs_no_environment() {
    let plugin = TestPlugin::answering("t");
    let elsewhere = tempfile::tempdir().unwrap();
    let program = plugin.install(elsewhere.path(), "kubectl-login");
    assert!(Command::new(&program).env_clear().output().unwrap().status.success());
    assert!(Command::new("kubectl-login").env("PATH", elsewhere.path()).output().unwrap().status.success());
    assert!(Command::new("./kubectl-login").current_dir(elsewhere.path()).output().unwrap().status.success());
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn last_script_part_repeats() {
    let plugin = TestPlugin::failing(3, "no\n").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let first = run(&plugin);
    assert_eq!((first.status.code(), &*first.stderr, &*first.stdout), (Some(3), &b"no\n"[..], &b""[..]));
    assert_eq!(answer(&plugin)["status"]["token"], "two");
    assert_eq!(answer(&plugin)["status"]["token"], "three");
    assert_eq!(answer(&plugin)["status"]["token"], "three");
    assert_eq!(plugin.runs(), 4);
}

#[test]
fn script_can_be_replaced() {
    let mut plugin = TestPlugin::answering("one");
    assert_eq!(answer(&plugin)["status"]["token"], "one");
    plugin.from_now_on(TestPlugin::answering("two").on_the_next_run().answers("three"));
    assert_eq!(answer(&plugin)["status"]["token"], "two");
    assert_eq!(answer(&plugin)["status"]["token"], "three");
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn concurrent_runs_are_counted() {
    let plugin =
        (2..=12).fold(TestPlugin::new().prints("1"), |plugin, n| plugin.on_the_next_run().prints(n.to_string()));
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
fn flood_has_requested_size() {
    assert_eq!(run(&TestPlugin::new().floods(OutputStream::Stdout, 1_000_001)).stdout.len(), 1_000_001);
    assert_eq!(run(&TestPlugin::new().floods(OutputStream::Stderr, 70_000)).stderr.len(), 70_000);
}

#[test]
fn endless_flood_stops_at_closed_pipe() {
    let plugin = TestPlugin::new().floods_endlessly(OutputStream::Stdout);
    let mut child = start(&plugin);
    child.stdout.take().unwrap().read_exact(&mut [0; 1_000_000]).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(13), "{status}");
}

#[test]
fn partial_output_then_closed_stdout() {
    let plugin =
        TestPlugin::new().prints(r#"{"apiVersion""#).closes(OutputStream::Stdout).waits_at("the end").prints("lost");
    let mut child = start(&plugin);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, r#"{"apiVersion""#);
    assert!(is_running(child.id()));
    plugin.open("the end");
    assert!(child.wait().unwrap().success());
}

#[test]
fn dies_by_signal() {
    assert_eq!(run(&TestPlugin::new().dies_by(9)).status.signal(), Some(9));
    assert_eq!(run(&TestPlugin::new().dies_by(11)).status.signal(), Some(11));
    assert_eq!(run(&TestPlugin::new().dies_by(15)).status.signal(), Some(15));
}

#[test]
fn ignores_sigterm() {
    let plugin = TestPlugin::new().ignores_termination().dies_by(15).exits(5);
    assert_eq!(run(&plugin).status.code(), Some(5));
}

#[tokio::test]
async fn gate_blocks_run_until_opened() {
    let plugin = TestPlugin::new().waits_at("gate").exits(4);
    let mut child = start(&plugin);
    plugin.has_run(1).await;
    plugin.reached("gate").await;
    assert_eq!(child.try_wait().unwrap(), None);
    plugin.open("gate");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn waits_for_file() {
    let place = tempfile::tempdir().unwrap();
    let plugin = TestPlugin::new().prints("ready").waits_for_file(place.path().join("go")).exits(6);
    let mut child = start(&plugin);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    fs::write(place.path().join("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn hanging_plugin_exits_with_test() {
    let plugin = TestPlugin::new().prints("ready").hangs();
    let mut child = start(&plugin);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    drop(plugin);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn grandchild_holds_pipes_open() {
    let plugin = TestPlugin::answering("t")
        .leaves_a_grandchild(&[OutputStream::Stdout, OutputStream::Stderr], Duration::from_secs(60));
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
fn daemon_leaves_process_group() {
    let plugin = TestPlugin::answering("t").leaves_a_daemon(&[OutputStream::Stderr], Duration::from_secs(60)).hangs();
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
fn report_has_args_and_environment() {
    let plugin = TestPlugin::new().reports_with_stdin();
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
fn reports_script_failure() {
    let output = Command::new(program()).env(SCRIPT_VARIABLE, "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(97));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot do as it is told"));
    let status: ExitStatus = run(&TestPlugin::new().asks_for_a_password("no terminal: ")).status;
    assert_eq!(status.code(), Some(97));
}
