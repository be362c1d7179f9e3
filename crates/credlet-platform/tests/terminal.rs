//! Prompts in a pseudo terminal: input, signals and terminal settings.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use credlet_platform::terminal::read_secret_line;
use credlet_platform::{Env as _, SystemEnv};
use credlet_testkit::pty::{self, Pty};
use rustix::process::{Pid, Signal, kill_process};

const SOON: Duration = Duration::from_secs(60);
const PROMPT: &str = "PIN of the card: ";

/// The program under test. It prompts and prints the result in hex, so that an echo would differ from it.
#[test]
fn prompts_inside() {
    if !pty::inside() {
        return;
    }
    let outcome = match read_secret_line(PROMPT, 16) {
        Ok(line) => format!("line {}", credlet_api::hex(line.as_bytes())),
        Err(error) => format!("error {error}"),
    };
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{outcome}").unwrap();
    if SystemEnv.var("AND_WAIT").is_some() {
        writeln!(stdout, "waiting").unwrap();
        // Until a signal ends the process.
        loop {
            std::thread::park();
        }
    }
}

fn prompt(envs: &[(&str, &str)]) -> Pty {
    let mut pty = Pty::rerun("prompts_inside", envs.iter().copied());
    pty.read_until(PROMPT, SOON);
    assert!(!pty.echoes());
    pty
}

fn line(text: &str) -> String {
    format!("line {}", credlet_api::hex(text.as_bytes()))
}

fn kill(pty: &Pty, signal: Signal) {
    kill_process(Pid::from_raw(pty.pid().cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn reads_a_line_without_echo() {
    let mut pty = prompt(&[]);
    pty.send(b"1234\r");
    pty.read_until(&line("1234"), SOON);
    assert!(pty.wait().success());
    assert!(pty.echoes(), "terminal restored");
    assert!(!pty.screen().contains("1234"), "{:?}", pty.screen());
}

#[test]
fn supports_line_editing() {
    let mut pty = prompt(&[]);
    pty.send(b"wrong\x1512x\x7f34\n");
    pty.read_until(&line("1234"), SOON);
    assert!(pty.wait().success());
}

#[test]
fn keys_raise_their_signal() {
    for (key, signal) in [(b"\x03", Signal::INT), (b"\x1c", Signal::QUIT)] {
        for typed in [&b""[..], b"12"] {
            let mut pty = prompt(&[]);
            pty.send(typed);
            pty.send(key);
            assert_eq!(pty.wait().signal(), Some(signal.as_raw()), "{:?}", pty.screen());
            assert!(pty.echoes(), "terminal restored");
            assert!(!pty.screen().contains("line "), "{:?}", pty.screen());
        }
    }
}

#[test]
fn external_signals_restore_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut pty = prompt(&[]);
        kill(&pty, signal);
        assert_eq!(pty.wait().signal(), Some(signal.as_raw()), "{:?}", pty.screen());
        assert!(pty.echoes(), "{signal:?}: terminal restored");
    }
}

#[test]
fn signals_terminate_after_a_prompt() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut pty = prompt(&[("AND_WAIT", "1")]);
        pty.send(b"1234\n");
        pty.read_until("waiting", SOON);
        kill(&pty, signal);
        assert_eq!(pty.wait().signal(), Some(signal.as_raw()), "{:?}", pty.screen());
    }
}

#[test]
fn end_of_file_cancels() {
    for typed in [&b"\x04"[..], b"12\x04\x04"] {
        let mut pty = prompt(&[]);
        pty.send(typed);
        pty.read_until("error the prompt was cancelled", SOON);
        assert!(pty.wait().success());
        assert!(pty.echoes());
    }
}

#[test]
fn empty_line_is_an_error() {
    let mut pty = prompt(&[]);
    pty.send(b"\n");
    pty.read_until("error the input is empty", SOON);
    assert!(pty.wait().success());
}

#[test]
fn rejects_control_characters() {
    // A cursor key, Ctrl-A; quoted with Ctrl-V: Ctrl-C, Ctrl-Z, Ctrl-U, Backspace; a bracketed paste; a C1 control.
    for typed in [
        "12\x1b[D3",
        "\x0112",
        "12\x16\x033",
        "12\x16\x1a3",
        "1\x16\x152",
        "1\x16\x7f",
        "\x1b[200~12\x1b[201~",
        "1\u{9b}2",
    ] {
        let mut pty = prompt(&[]);
        pty.send(format!("{typed}\n").as_bytes());
        pty.read_until("control characters are not accepted, try again", SOON);
        pty.read_until(PROMPT, SOON);
        pty.send(b"1234\n");
        pty.read_until(&line("1234"), SOON);
        assert!(pty.wait().success());
    }
}

#[test]
fn rejects_long_and_non_utf8_lines() {
    let mut pty = prompt(&[]);
    pty.send(b"12345678901234567\n");
    pty.read_until("the input is too long, try again", SOON);
    pty.read_until(PROMPT, SOON);
    pty.send(b"12\xff\n");
    pty.read_until("the input is not UTF-8, try again", SOON);
    pty.read_until(PROMPT, SOON);
    pty.send("größe16bytes\n".as_bytes());
    pty.read_until(&line("größe16bytes"), SOON);
    assert!(pty.wait().success());
}

/// Without a shell that could continue the process nothing stops it.
#[test]
fn ctrl_z_without_job_control_repeats_the_prompt() {
    let mut pty = prompt(&[]);
    pty.send(b"12\x1a");
    pty.read_until(PROMPT, SOON);
    pty.send(b"1234\n");
    pty.read_until(&line("1234"), SOON);
    assert!(pty.wait().success());
}

/// The command line that runs the program under test in a shell.
fn command() -> String {
    let program = std::env::current_exe().unwrap();
    format!("CREDLET_TESTKIT_INSIDE_PTY=1 {} --exact prompts_inside --nocapture --test-threads=1", program.display())
}

#[test]
fn ctrl_z_suspends_and_fg_prompts_again() {
    let mut pty = Pty::spawn("/bin/sh", [], [("PS1", "")]);
    pty.send(format!("set -m; {}\n", command()).as_bytes());
    pty.read_until(PROMPT, SOON);
    assert!(!pty.echoes());
    pty.send(b"12\x1a");
    pty.read_until("Stopped", SOON);
    // From here on the shell reads.
    pty.send(b"echo status $? of the j''ob\n");
    let shown = pty.read_until("of the job", SOON);
    assert!(shown.contains(&format!("status {} ", 128 + Signal::TSTP.as_raw())), "{shown:?}");
    assert!(pty.echoes());
    pty.send(b"fg\n");
    pty.read_until(PROMPT, SOON);
    assert!(!pty.echoes());
    pty.send(b"1234\n");
    pty.read_until(&line("1234"), SOON);
    pty.send(b"exit 7\n");
    assert_eq!(pty.wait().code(), Some(7), "{:?}", pty.screen());
}

#[test]
fn ctrl_c_stops_a_shell_loop() {
    let script = format!("for i in 1 2 3; do {}; done", command());
    let mut pty = Pty::spawn("/bin/sh", ["-c", &script], []);
    pty.read_until(PROMPT, SOON);
    pty.send(b"\x03");
    assert_eq!(pty.wait().signal(), Some(Signal::INT.as_raw()), "{:?}", pty.screen());
    assert_eq!(pty.screen().matches(PROMPT).count(), 1, "{:?}", pty.screen());
}

/// Terminal settings and input are retained.
#[test]
fn external_stop_keeps_input() {
    let mut pty = prompt(&[]);
    pty.send(b"12");
    kill(&pty, Signal::STOP);
    kill(&pty, Signal::CONT);
    pty.send(b"34\n");
    pty.read_until(&line("1234"), SOON);
    assert!(pty.wait().success());
    assert_eq!(pty.screen().matches(PROMPT).count(), 1, "{:?}", pty.screen());
}

/// Some shells restore the settings of the terminal when their job stops.
#[test]
fn repeats_prompt_if_echo_is_on_after_stop() {
    let mut pty = Pty::spawn("/bin/sh", [], [("PS1", "")]);
    pty.send(format!("set -m; {}\n", command()).as_bytes());
    pty.read_until(PROMPT, SOON);
    let job = Pid::from_raw(pty.foreground_group().unwrap()).unwrap();
    kill_process(job, Signal::STOP).unwrap();
    pty.read_until("Stopped", SOON);
    pty.send(b"stty echo; echo se''t; fg\n");
    pty.read_until("set", SOON);
    pty.read_until(PROMPT, SOON);
    assert!(!pty.echoes());
    pty.send(b"1234\n");
    pty.read_until(&line("1234"), SOON);
    pty.send(b"exit 7\n");
    assert_eq!(pty.wait().code(), Some(7), "{:?}", pty.screen());
}
