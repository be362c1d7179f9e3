//! Logins that fail.

use std::process::Child;

use credlet_testkit::plugin::{Plugin, Stream};

use crate::stand::{Home, has_said, runtime};

fn failing_at_a_gate() -> Plugin {
    Plugin::new().waits_at("gate").prints_to(Stream::Stderr, "nobody logged in\n").exits(7)
}

#[test]
fn twenty_who_wait_for_a_login_that_fails_get_its_error_and_no_browser_of_their_own() {
    let home = Home::new();
    let plugin = failing_at_a_gate();
    let first = home.cache(&[], &plugin).spawn().unwrap();
    runtime().block_on(plugin.reached("gate"));
    let mut waiting: Vec<Child> = (0..20).map(|_| home.cache(&[], &plugin).spawn().unwrap()).collect();
    for call in &mut waiting {
        has_said(call, "waiting for process");
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
fn after_a_failed_login_nobody_is_asked_again_for_a_while() {
    let home = Home::new();
    let plugin = Plugin::failing(7, "nobody logged in\n").on_the_next_run().answers("a-token");
    let guarded = ["--storm-guard", "on"];
    assert_eq!(home.run(home.cache(&guarded, &plugin)).code, Some(7));
    let ran = home.run(home.cache(&guarded, &plugin));
    assert_eq!((ran.code, plugin.runs()), (Some(7), 1));
    assert!(ran.stderr.contains("is not asked again for") && ran.stderr.contains("nobody logged in"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: log in from a terminal"), "{}", ran.stderr);
    // Somebody who wants it gets it, and with that it is over.
    assert_eq!(home.token(&["--storm-guard", "on", "--force-refresh"], &plugin), "a-token");
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn a_plugin_that_is_no_login_is_asked_every_time_as_without_a_cache() {
    let home = Home::new();
    let plugin = Plugin::failing(7, "no network\n").on_the_next_run().answers("a-token");
    let ran = home.run(home.cache(&[], &plugin));
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(7), "", "no network\n"));
    assert_eq!(home.token(&[], &plugin), "a-token");
}
