//! The constructor is in every binary that uses the crate, not only in the crate's own tests.

#![expect(clippy::disallowed_methods, reason = "stands for the runner under test")]

use std::process::Command;

use credlet_testkit::plugin::TestPlugin;

#[test]
fn linking_binary_becomes_plugin() {
    let plugin = TestPlugin::answering("from outside");
    let linked = Command::new(plugin.command()).env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&linked.stdout).contains("from outside"));
    let told = Command::new(std::env::current_exe().unwrap()).envs(plugin.env()).output().unwrap();
    assert_eq!(linked.stdout, told.stdout);
    assert_eq!(plugin.runs(), 2);
}
