use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use credlet_testkit::pty::Pty;

use crate::{Place, assert_no_secret};

const SOON: Duration = Duration::from_secs(60);

fn start(place: &Place, args: &[&str], envs: &[(&str, &str)]) -> Pty {
    let dir = place.path().to_str().unwrap();
    let envs =
        [("TMPDIR", dir), ("HOME", dir), ("TERM", "xterm"), ("NO_COLOR", "")].into_iter().chain(envs.iter().copied());
    Pty::spawn(env!("CARGO_BIN_EXE_credlet"), args.iter().copied(), envs)
}

/// What is left of a line without control sequences.
fn bare(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once("\u{1b}[") {
        text.push_str(before);
        rest = behind.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default();
    }
    (text + rest).replace('\r', "")
}

#[test]
fn a_terminal_shows_a_picture_that_is_drawn_over_itself() {
    let place = Place::new();
    let mut pty = start(&place, &["demo", "--rounds", "1"], &[]);
    pty.read_until("All of it held.", SOON);
    assert!(pty.wait().success(), "{}", pty.screen());
    let screen = pty.screen();
    assert!(screen.contains("\u{1b}[21A\r") && screen.contains("\u{1b}[32m ✓ "), "{screen}");
    assert!(screen.contains("certificate") && screen.contains("plugin runs"), "{screen}");
    // Hidden while it draws, and given back.
    assert!(screen.starts_with("\u{1b}[?25l") && screen.ends_with("\u{1b}[?25h"), "{screen}");
    for line in screen.split('\n') {
        let bare = bare(line);
        assert!(bare.chars().count() <= 80, "{bare}");
    }
    assert_no_secret(&screen);
    assert!(place.left_behind().is_empty());
}

#[test]
fn without_colours_if_somebody_wants_none() {
    let place = Place::new();
    let mut pty = start(&place, &["demo", "--rounds", "1"], &[("NO_COLOR", "1")]);
    pty.read_until("✓ building a client", SOON);
    pty.send(b"\x03");
    pty.wait();
    let screen = pty.screen();
    let codes: Vec<_> = screen.split("\u{1b}[").skip(1).collect();
    let colours = codes.iter().filter(|code| code.find(|c: char| c.is_ascii_alphabetic()) == code.find('m'));
    assert_eq!(colours.count(), 0, "{screen}");
}

#[test]
fn on_a_terminal_that_cannot_move_there_are_lines() {
    let place = Place::new();
    let mut pty = start(&place, &["demo", "--rounds", "1"], &[("TERM", "dumb")]);
    pty.read_until(" ✓ building a client", SOON);
    pty.send(b"\x03");
    pty.wait();
    assert!(!pty.screen().contains('\u{1b}'), "{}", pty.screen());
}

#[test]
fn control_c_ends_it_gives_the_cursor_back_and_leaves_nothing() {
    let place = Place::new();
    let mut pty = start(&place, &["demo"], &[]);
    pty.read_until("✓", SOON);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(2));
    let screen = pty.screen();
    let (_, after) = screen.rsplit_once("\u{1b}[?25l").unwrap();
    assert!(after.contains("\u{1b}[?25h"), "{after}");
    assert!(place.left_behind().is_empty());
}
