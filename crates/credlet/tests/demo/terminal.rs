use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use credlet_testkit::pty::Pty;

use crate::{DemoSandbox, assert_no_secret};

const TIMEOUT: Duration = Duration::from_secs(60);

fn start(sandbox: &DemoSandbox, args: &[&str], envs: &[(&str, &str)]) -> Pty {
    let dir = sandbox.path().to_str().unwrap();
    let envs =
        [("TMPDIR", dir), ("HOME", dir), ("TERM", "xterm"), ("NO_COLOR", "")].into_iter().chain(envs.iter().copied());
    Pty::spawn(env!("CARGO_BIN_EXE_credlet"), args.iter().copied(), envs)
}

/// Removes control sequences from a line.
fn strip_control_sequences(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once("\u{1b}[") {
        text.push_str(before);
        rest = behind.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default();
    }
    (text + rest).replace('\r', "")
}

#[test]
fn redraws_in_place() {
    let sandbox = DemoSandbox::new();
    let mut pty = start(&sandbox, &["demo", "--rounds", "1"], &[]);
    pty.read_until("All checks passed.", TIMEOUT);
    assert!(pty.wait().success(), "{}", pty.screen());
    let screen = pty.screen();
    assert!(screen.contains("\u{1b}[21A\r") && screen.contains("\u{1b}[32m ✓ "), "{screen}");
    assert!(screen.contains("certificate") && screen.contains("plugin runs"), "{screen}");
    // The cursor is hidden while drawing and shown at the end.
    assert!(screen.starts_with("\u{1b}[?25l") && screen.ends_with("\u{1b}[?25h"), "{screen}");
    for line in screen.split('\n') {
        let strip_control_sequences = strip_control_sequences(line);
        assert!(strip_control_sequences.chars().count() <= 80, "{strip_control_sequences}");
    }
    assert_no_secret(&screen);
    assert!(sandbox.leftovers().is_empty());
}

#[test]
fn respects_no_color() {
    let sandbox = DemoSandbox::new();
    let mut pty = start(&sandbox, &["demo", "--rounds", "1"], &[("NO_COLOR", "1")]);
    pty.read_until("✓ building a client", TIMEOUT);
    pty.send(b"\x03");
    pty.wait();
    let screen = pty.screen();
    let codes: Vec<_> = screen.split("\u{1b}[").skip(1).collect();
    let colours = codes.iter().filter(|code| code.find(|c: char| c.is_ascii_alphabetic()) == code.find('m'));
    assert_eq!(colours.count(), 0, "{screen}");
}

#[test]
fn prints_lines_on_a_dumb_terminal() {
    let sandbox = DemoSandbox::new();
    let mut pty = start(&sandbox, &["demo", "--rounds", "1"], &[("TERM", "dumb")]);
    pty.read_until(" ✓ building a client", TIMEOUT);
    pty.send(b"\x03");
    pty.wait();
    assert!(!pty.screen().contains('\u{1b}'), "{}", pty.screen());
}

#[test]
fn ctrl_c_restores_the_cursor() {
    let sandbox = DemoSandbox::new();
    let mut pty = start(&sandbox, &["demo"], &[]);
    pty.read_until("✓", TIMEOUT);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(2));
    let screen = pty.screen();
    let (_, after) = screen.rsplit_once("\u{1b}[?25l").unwrap();
    assert!(after.contains("\u{1b}[?25h"), "{after}");
    assert!(sandbox.leftovers().is_empty());
}
