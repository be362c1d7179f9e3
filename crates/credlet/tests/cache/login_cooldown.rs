//! Cooldown after failed logins.

use std::process::Child;

use credlet_testkit::plugin::{OutputStream, TestPlugin};

use crate::sandbox::{CacheSandbox, runtime, wait_for_stderr};

fn failing_at_a_gate() -> TestPlugin {
    TestPlugin::new().waits_at("gate").prints_to(OutputStream::Stderr, "nobody logged in\n").exits(7)
}

#[test]
fn waiting_processes_share_a_failed_login() {
    let home = CacheSandbox::new();
    let plugin = failing_at_a_gate();
    let first = home.cache(&[], &plugin).spawn().unwrap();
    runtime().block_on(plugin.reached("gate"));
    let mut waiting: Vec<Child> = (0..20).map(|_| home.cache(&[], &plugin).spawn().unwrap()).collect();
    for call in &mut waiting {
        wait_for_stderr(call, "waiting for process");
    }
    plugin.open("gate");
    assert_eq!(home.ran(first.wait_with_output().unwrap()).code, Some(7));
    for call in waiting {
        let ran = home.ran(call.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(7));
        assert!(ran.stderr.contains("nobody logged in"), "{}", ran.stderr);
    }
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn failed_login_starts_a_cooldown() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::failing(7, "nobody logged in\n").on_the_next_run().answers("a-token");
    let guarded = ["--storm-guard", "on"];
    assert_eq!(home.run(home.cache(&guarded, &plugin)).code, Some(7));
    let ran = home.run(home.cache(&guarded, &plugin));
    assert_eq!((ran.code, plugin.runs()), (Some(7), 1));
    assert!(
        ran.stderr.contains("failed, next attempt in ") && ran.stderr.contains("nobody logged in"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: log in from a terminal"), "{}", ran.stderr);
    // A forced refresh runs the plugin, and its success ends the cooldown.
    assert_eq!(home.token(&["--storm-guard", "on", "--force-refresh"], &plugin), "a-token");
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn non_interactive_plugin_has_no_cooldown() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::failing(7, "no network\n").on_the_next_run().answers("a-token");
    let ran = home.run(home.cache(&[], &plugin));
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(7), "", "no network\n"));
    assert_eq!(home.token(&[], &plugin), "a-token");
}
