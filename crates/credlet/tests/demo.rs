//! The demo, as a new user runs it.

use std::process::{Command, Stdio};

#[expect(clippy::disallowed_methods, reason = "a test plays the person at the shell")]
fn credlet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_credlet"))
}

#[test]
fn the_demo_shows_that_all_of_it_holds() {
    let output = credlet().arg("demo").stdin(Stdio::null()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    assert!(stdout.ends_with("\nAll of it held.\n"), "{stdout}");
    assert!(stdout.contains("✓ 64 callers at once, cold"), "{stdout}");
    assert!(!stdout.contains('✗'), "{stdout}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    // Tokens are never shown.
    assert!(!stdout.contains("demo-1"), "{stdout}");
}

#[test]
fn without_a_verb_there_is_help_and_a_usage_error() {
    let output = credlet().output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage: credlet <COMMAND>"));
}

#[test]
fn the_version_is_a_line_on_standard_output() {
    let output = credlet().arg("--version").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), concat!("credlet ", env!("CARGO_PKG_VERSION"), "\n"));
}
