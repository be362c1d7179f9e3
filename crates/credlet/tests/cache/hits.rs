//! What is kept is served, and in the form that was asked for.

use std::process::Child;
use std::time::Duration;

use credlet_testkit::plugin::{Plugin, Stream};

use crate::stand::{Home, V1, has_said, runtime};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_second_call_is_served_without_the_plugin() {
    let home = Home::new();
    let token = home.watch.secret("token");
    let plugin = Plugin::answering(token.expose()).expiring_in(HOUR);
    assert_eq!(home.token(&[], &plugin), token.expose());
    assert_eq!(home.token(&[], &plugin), token.expose());
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn twenty_cold_calls_at_once_run_the_plugin_once() {
    let home = Home::new();
    let token = home.watch.secret("token");
    let plugin = Plugin::new().waits_at("gate").answers(token.expose()).expiring_in(HOUR);
    let calls: Vec<Child> = (0..20).map(|_| home.cache(&[], &plugin).spawn().unwrap()).collect();
    runtime().block_on(plugin.reached("gate"));
    // Two ticks of the kernel's clock, by which it tells who began before the first was served.
    std::thread::sleep(Duration::from_millis(20));
    plugin.open("gate");
    let tokens: Vec<_> = calls.into_iter().map(|call| home.ran(call.wait_with_output().unwrap()).token()).collect();
    assert!(tokens.iter().all(|served| served == token.expose()));
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn twenty_clients_at_once_run_the_plugin_once() {
    let home = Home::new();
    let token = home.watch.secret("token");
    let plugin = Plugin::new().waits_at("gate").answers(token.expose()).expiring_in(HOUR);
    // A shell for each of them, as kubectl is a process for each command.
    let calls: Vec<Child> = (0..20).map(|_| in_a_shell(&home, &plugin).spawn().unwrap()).collect();
    runtime().block_on(plugin.reached("gate"));
    plugin.open("gate");
    for call in calls {
        assert_eq!(home.ran(call.wait_with_output().unwrap()).token(), token.expose());
    }
    assert_eq!(plugin.runs(), 1);
}

#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn in_a_shell(home: &Home, plugin: &Plugin) -> std::process::Command {
    let call = home.cache(&[], plugin);
    let mut shell = std::process::Command::new("/bin/sh");
    // With something to do after it, the shell stays and is the parent.
    shell.args(["-c", "\"$@\"; exit $?", "sh"]).arg(call.get_program()).args(call.get_args());
    shell.env_clear().env("HOME", home.path()).env("KUBERNETES_EXEC_INFO", V1);
    shell.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    shell
}

#[test]
fn twenty_keys_at_once_make_twenty_entries() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR);
    let calls: Vec<Child> =
        (0..20).map(|number| home.cache(&[], &plugin).arg(format!("--cluster={number}")).spawn().unwrap()).collect();
    for call in calls {
        assert_eq!(home.ran(call.wait_with_output().unwrap()).token(), "a-token");
    }
    assert_eq!((plugin.runs(), home.keys().len()), (20, 20));
}

#[test]
fn the_next_one_goes_on_when_the_holder_of_the_lock_is_killed() {
    let home = Home::new();
    let plugin = Plugin::new().waits_at("gate").answers("late").expiring_in(HOUR).on_the_next_run().answers("a-token");
    let mut first = home.cache(&[], &plugin).spawn().unwrap();
    runtime().block_on(plugin.reached("gate"));
    let mut second = home.cache(&[], &plugin).spawn().unwrap();
    let said = has_said(&mut second, "\n");
    assert!(said.contains(&format!("waiting for process {}", first.id())), "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(home.ran(second.wait_with_output().unwrap()).token(), "a-token");
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn an_answer_is_in_the_version_asked_for_and_keeps_what_nobody_knows() {
    let home = Home::new();
    let plugin = Plugin::new().prints(
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
fn the_plugin_gets_what_the_cache_was_given() {
    let home = Home::new();
    let plugin = Plugin::new().reports_with_stdin().prints_to(Stream::Stderr, "a word to you\n").answers("a-token");
    let mut call = home.cache(&[], &plugin);
    call.args(["--flag", "two words"]).env("ODD", "value").stdin(std::process::Stdio::piped());
    let ran = home.run(call);
    assert_eq!(ran.stderr, "a word to you\n");
    let report = plugin.report();
    assert_eq!(report.exec_info.as_deref(), Some(V1));
    assert_eq!(report.args, ["--flag", "two words"]);
    assert_eq!(report.env["ODD"], "value");
    // Not interactive: nothing on standard input is for it.
    assert_eq!(report.stdin, Some(Vec::new()));
}

#[test]
fn what_says_nothing_of_its_end_is_kept_for_as_long_as_told() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token");
    assert_eq!(home.token(&["--default-ttl", "1h"], &plugin), "a-token");
    assert_eq!(home.token(&["--default-ttl", "1h"], &plugin), "a-token");
    assert_eq!(plugin.runs(), 1);
    assert_eq!(home.token(&["--no-store"], &plugin), "a-token");
    assert_eq!(home.token(&["--force-refresh"], &plugin), "a-token");
    assert_eq!(plugin.runs(), 3);
}

#[test]
fn what_is_over_or_soon_will_be_is_not_kept() {
    for seconds in [0, 5, 9] {
        let home = Home::new();
        let plugin = Plugin::answering("a-token").expiring_in(Duration::from_secs(seconds));
        assert_eq!(home.token(&[], &plugin), "a-token");
        assert_eq!(home.token(&[], &plugin), "a-token");
        assert_eq!((plugin.runs(), home.keys().len()), (2, 0));
    }
}

#[test]
fn an_entry_that_nears_its_end_is_renewed_behind_the_caller_s_back() {
    let home = Home::new();
    // Kept for so long that all of its life is its last fifth, but for some seconds.
    let plugin = Plugin::answering("old").expiring_in(HOUR).on_the_next_run().answers("new").expiring_in(HOUR);
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
