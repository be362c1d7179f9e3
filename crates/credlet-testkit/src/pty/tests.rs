use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::plugin::{Plugin, Stream};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn the_program_leads_a_session_and_holds_its_terminal() {
    let plugin = Plugin::new().reports();
    let mut pty = Pty::spawn(plugin.command(), ["one", "two"], [("COLOUR", "blue")]);
    assert!(pty.wait().success(), "{}", pty.screen());
    let report = plugin.report();
    let pid = pty.pid().cast_signed();
    assert!(report.stdin_is_terminal && report.stdout_is_terminal && report.stderr_is_terminal);
    assert_eq!((report.pid, report.session, report.process_group), (pid, pid, pid));
    assert_eq!(report.foreground_group, Some(pid));
    assert_eq!(report.args, ["one", "two"]);
    assert_eq!(report.env["COLOUR"], "blue");
    assert!(!report.env.contains_key(enter::TERMINAL));
}

#[test]
fn a_password_is_read_without_echo_and_becomes_a_token() {
    let plugin = Plugin::new().asks_for_a_password("Password: ").answers("token-of-{password}").waits_at("the end");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.read_until("Password: ", SOON);
    assert!(!pty.echoes());
    pty.send(b"hunter2\n");
    pty.read_until(r#""token":"token-of-hunter2""#, SOON);
    assert!(pty.echoes());
    assert_eq!(pty.screen().matches("hunter2").count(), 1, "only in the answer: {}", pty.screen());
    plugin.open("the end");
    assert!(pty.wait().success());
}

#[test]
fn control_c_interrupts_the_program() {
    let plugin = Plugin::new().prints("ready").hangs();
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.read_until("ready", SOON);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(2));
}

#[test]
fn each_text_is_found_after_the_one_before() {
    let plugin = Plugin::new().prints("one two one three");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    assert_eq!(pty.read_until("one", SOON), "one");
    assert_eq!(pty.read_until("one", SOON), " two one");
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), "one two one three");
}

#[test]
fn a_text_that_never_comes_fails_the_test_with_the_screen() {
    let plugin = Plugin::new().prints("something else").exits(1);
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.wait();
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pty.read_until("a prompt", SOON)));
    let message = *failure.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("it ended") && message.contains("something else"), "{message}");
}

#[test]
fn nothing_printed_last_is_lost() {
    let plugin = Plugin::new().floods(Stream::Stdout, 100_000).prints("the last word");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    assert!(pty.wait().success());
    assert_eq!(pty.screen().len(), 100_000 + "the last word".len());
    assert!(pty.screen().ends_with("the last word"));
}

#[test]
fn a_process_left_behind_does_not_hold_the_terminal() {
    let plugin = Plugin::new()
        .leaves_a_daemon(&[Stream::Stdout, Stream::Stderr], Duration::from_secs(60))
        .leaves_a_grandchild(&[Stream::Stdout, Stream::Stderr], Duration::from_secs(60))
        .prints("done");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), "done");
}

#[test]
fn a_dropped_terminal_takes_the_program_along() {
    let plugin = Plugin::new().prints("ready").hangs();
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.read_until("ready", SOON);
    let pid = pty.pid();
    drop(pty);
    assert!(!crate::plugin::is_running(pid));
}

#[test]
fn a_program_that_is_not_there_is_reported() {
    let mut pty = Pty::spawn("/nonexistent", [], []);
    assert_eq!(pty.wait().code(), Some(127));
    assert!(pty.screen().contains("cannot run in the terminal"), "{}", pty.screen());
}

#[test]
fn a_test_can_run_itself_in_a_terminal() {
    if !inside() {
        let mut pty = Pty::rerun("pty::tests::a_test_can_run_itself_in_a_terminal", []);
        pty.read_until("inside: true", SOON);
        assert!(pty.wait().success(), "{}", pty.screen());
        return;
    }
    let terminal = std::io::stdin().is_terminal();
    std::io::stderr().write_all(format!("inside: {terminal}\n").as_bytes()).unwrap();
}
