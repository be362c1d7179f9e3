//! The program of the test plugin, started by its path and by a link.

#![expect(clippy::disallowed_methods, reason = "stands for the runner under test")]

use std::process::Command;

use credlet_testkit::plugin::{self, TestPlugin};

#[test]
fn link_and_environment_select_the_same_script() {
    let plugin = TestPlugin::answering("from outside");
    let linked = Command::new(plugin.command()).env_clear().output().unwrap();
    assert!(String::from_utf8_lossy(&linked.stdout).contains("from outside"));
    let told = Command::new(plugin::program()).envs(plugin.env()).output().unwrap();
    assert_eq!(linked.stdout, told.stdout);
    assert_eq!(plugin.runs(), 2);
}

#[test]
fn program_without_a_script_fails() {
    let output = Command::new(plugin::program()).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(97));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no script"));
}
