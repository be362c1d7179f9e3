//! Cached output is served in the requested version.

use std::process::Child;
use std::time::Duration;

use credlet_testkit::plugin::{OutputStream, TestPlugin};

use crate::sandbox::{CacheSandbox, V1, runtime, wait_for_stderr};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn second_call_does_not_run_the_plugin() {
    let home = CacheSandbox::new();
    let token = home.watch.secret("token");
    let plugin = TestPlugin::answering(token.expose()).expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), token.expose());
    assert_eq!(home.token(&[], &plugin), token.expose());
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn concurrent_calls_run_the_plugin_once() {
    let home = CacheSandbox::new();
    let token = home.watch.secret("token");
    let plugin = TestPlugin::new().waits_at("gate").answers(token.expose()).expiring_in(HOUR);
    let calls: Vec<Child> = (0..20).map(|_| home.cache(&[], &plugin).spawn().unwrap()).collect();
    runtime().block_on(plugin.reached("gate"));
    // Two ticks of process start times, so that all calls start before the first one is served.
    std::thread::sleep(Duration::from_millis(20));
    plugin.open("gate");
    let tokens: Vec<_> = calls.into_iter().map(|call| home.ran(call.wait_with_output().unwrap()).token()).collect();
    assert!(tokens.iter().all(|served| served == token.expose()));
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn concurrent_clients_run_the_plugin_once() {
    let home = CacheSandbox::new();
    let token = home.watch.secret("token");
    let plugin = TestPlugin::new().waits_at("gate").answers(token.expose()).expiring_in(HOUR);
    // One shell per call, as each kubectl command is a process.
    let calls: Vec<Child> = (0..20).map(|_| in_a_shell(&home, &plugin).spawn().unwrap()).collect();
    runtime().block_on(plugin.reached("gate"));
    plugin.open("gate");
    for call in calls {
        assert_eq!(home.ran(call.wait_with_output().unwrap()).token(), token.expose());
    }
    assert_eq!(plugin.runs(), 1);
}

#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn in_a_shell(home: &CacheSandbox, plugin: &TestPlugin) -> std::process::Command {
    let call = home.cache(&[], plugin);
    let mut shell = std::process::Command::new("/bin/sh");
    // With a second command the shell does not exec, and stays the parent.
    shell.args(["-c", "\"$@\"; exit $?", "sh"]).arg(call.get_program()).args(call.get_args());
    shell.env_clear().env("HOME", home.dir()).env("KUBERNETES_EXEC_INFO", V1);
    shell.env("CREDLET_TEST_ACCOUNT_HOME", home.dir());
    shell.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    shell
}

#[test]
fn concurrent_keys_have_separate_entries() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    let calls: Vec<Child> =
        (0..20).map(|number| home.cache(&[], &plugin).arg(format!("--cluster={number}")).spawn().unwrap()).collect();
    for call in calls {
        assert_eq!(home.ran(call.wait_with_output().unwrap()).token(), "a-token");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (20, 20));
}

#[test]
fn killed_lock_holder_is_replaced() {
    let home = CacheSandbox::new();
    let plugin =
        TestPlugin::new().waits_at("gate").answers("late").expiring_in(HOUR).on_the_next_run().answers("a-token");
    let mut first = home.cache(&[], &plugin).spawn().unwrap();
    runtime().block_on(plugin.reached("gate"));
    let mut second = home.cache(&[], &plugin).spawn().unwrap();
    let stderr_text = wait_for_stderr(&mut second, "\n");
    assert!(stderr_text.contains(&format!("waiting for process {}", first.id())), "{stderr_text}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(home.ran(second.wait_with_output().unwrap()).token(), "a-token");
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn conversion_keeps_unknown_fields() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::new().prints(
        r#"{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","odd":{"b":1,"a":[1.50]},
        "status":{"token":"a-token","expirationTimestamp":"2099-01-01T00:00:00Z","more":12345678901234567890}}"#,
    );
    for _ in 0..2 {
        let ran = home.run(home.cache(&[], &plugin));
        assert_eq!(ran.json()["apiVersion"], "client.authentication.k8s.io/v1");
        assert!(ran.stdout.contains(r#""odd":{"b":1,"a":[1.50]}"#), "{}", ran.stdout);
        assert!(ran.stdout.contains(r#""more":12345678901234567890"#), "{}", ran.stdout);
    }
    assert_eq!(plugin.runs(), 1);
    // Another version is another key, and no rewriting is needed.
    let mut beta = home.cache(&[], &plugin);
    beta.env("KUBERNETES_EXEC_INFO", V1.replace("k8s.io/v1", "k8s.io/v1beta1"));
    assert_eq!(home.run(beta).json()["apiVersion"], "client.authentication.k8s.io/v1beta1");
}

#[test]
fn plugin_gets_args_env_and_request() {
    let home = CacheSandbox::new();
    let plugin =
        TestPlugin::new().reports_with_stdin().prints_to(OutputStream::Stderr, "a message\n").answers("a-token");
    let mut call = home.cache(&[], &plugin);
    call.args(["--flag", "two words"]).env("ODD", "value").stdin(std::process::Stdio::piped());
    let ran = home.run(call);
    assert_eq!(ran.stderr, "a message\n");
    let report = plugin.report();
    assert_eq!(report.exec_info.as_deref(), Some(V1));
    assert_eq!(report.args, ["--flag", "two words"]);
    assert_eq!(report.env["ODD"], "value");
    // Not interactive: standard input is not passed on.
    assert_eq!(report.stdin, Some(Vec::new()));
}

#[test]
fn default_ttl_applies_to_opaque_tokens() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token");
    assert_eq!(home.token(&["--default-ttl", "1h"], &plugin), "a-token");
    assert_eq!(home.token(&["--default-ttl", "1h"], &plugin), "a-token");
    assert_eq!(plugin.runs(), 1);
    assert_eq!(home.token(&["--no-store"], &plugin), "a-token");
    assert_eq!(home.token(&["--force-refresh"], &plugin), "a-token");
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn expiring_credential_is_not_cached() {
    for seconds in [0, 5, 9] {
        let home = CacheSandbox::new();
        let plugin = TestPlugin::answering("a-token").expiring_in(Duration::from_secs(seconds));
        assert_eq!(home.token(&[], &plugin), "a-token");
        assert_eq!(home.token(&[], &plugin), "a-token");
        assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
    }
}

#[test]
fn entry_is_refreshed_ahead_of_expiry() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("old").expiring_in(HOUR).on_the_next_run().answers("new").expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), "old");
    let entry = home.entry();
    crate::faults::rewrite(&entry, "ahead", |_| "1000".to_owned());
    assert_eq!(home.token(&[], &plugin), "old");
    runtime().block_on(plugin.has_run(2));
    while !String::from_utf8_lossy(&std::fs::read(&entry).unwrap_or_default()).contains("\"new\"") {
        std::thread::yield_now();
    }
    assert_eq!(home.token(&[], &plugin), "new");
    assert_eq!(plugin.runs(), 2);
}
