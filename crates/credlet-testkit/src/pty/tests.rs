use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;

use super::*;
use crate::plugin::{OutputStream, TestPlugin};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn program_leads_its_session() {
    let plugin = TestPlugin::new().reports();
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
fn reads_password_without_echo() {
    let plugin = TestPlugin::new().asks_for_a_password("Password: ").answers("token-of-{password}").waits_at("the end");
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
fn ctrl_c_interrupts_program() {
    let plugin = TestPlugin::new().prints("ready").hangs();
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.read_until("ready", SOON);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(2));
}

#[test]
fn read_until_continues_after_match() {
    let plugin = TestPlugin::new().prints("one two one three");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    assert_eq!(pty.read_until("one", SOON), "one");
    assert_eq!(pty.read_until("one", SOON), " two one");
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), "one two one three");
}

#[test]
fn missing_text_fails_with_screen() {
    let plugin = TestPlugin::new().prints("something else").exits(1);
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.wait();
    let failure = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pty.read_until("a prompt", SOON)));
    let message = *failure.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("it ended") && message.contains("something else"), "{message}");
}

#[test]
fn last_output_is_not_lost() {
    let plugin = TestPlugin::new().floods(OutputStream::Stdout, 100_000).prints("the last word");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    assert!(pty.wait().success());
    assert_eq!(pty.screen().len(), 100_000 + "the last word".len());
    assert!(pty.screen().ends_with("the last word"));
}

#[test]
fn wait_ignores_background_children() {
    let plugin = TestPlugin::new()
        .leaves_a_daemon(&[OutputStream::Stdout, OutputStream::Stderr], Duration::from_secs(60))
        .leaves_a_grandchild(&[OutputStream::Stdout, OutputStream::Stderr], Duration::from_secs(60))
        .prints("done");
    let mut pty = Pty::spawn(plugin.command(), [], []);
    assert!(pty.wait().success());
    assert_eq!(pty.screen(), "done");
}

#[test]
fn dropping_pty_kills_program() {
    let plugin = TestPlugin::new().prints("ready").hangs();
    let mut pty = Pty::spawn(plugin.command(), [], []);
    pty.read_until("ready", SOON);
    let pid = pty.pid();
    drop(pty);
    assert!(!plugin::is_running(pid));
}

#[test]
fn missing_program_is_reported() {
    let mut pty = Pty::spawn("/nonexistent", [], []);
    assert_eq!(pty.wait().code(), Some(127));
    assert!(pty.screen().contains("cannot run in the terminal"), "{}", pty.screen());
}

#[test]
fn test_reruns_itself_in_terminal() {
    if !inside() {
        let mut pty = Pty::rerun("pty::tests::test_reruns_itself_in_terminal", []);
        pty.read_until("inside: true", SOON);
        assert!(pty.wait().success(), "{}", pty.screen());
        return;
    }
    let terminal = std::io::stdin().is_terminal();
    std::io::stderr().write_all(format!("inside: {terminal}\n").as_bytes()).unwrap();
}
