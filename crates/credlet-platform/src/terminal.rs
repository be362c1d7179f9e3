//! Prompts for secrets on the controlling terminal, and the size of the terminal.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use zeroize::Zeroizing;

use crate::signals::{DeferredSignals, Interruption};

/// A special character with this code is switched off (`_POSIX_VDISABLE`).
const DISABLED: u8 = if cfg!(any(target_os = "linux", target_os = "android")) { 0 } else { 0xff };

/// Maximum length of a line in canonical mode.
const MAX_LINE_LEN: usize = 4096;

/// Error of [`read_secret_line`].
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The terminal is missing or was closed.
    #[error("failed to prompt on the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// End of file (Ctrl-D).
    #[error("the prompt was cancelled")]
    Cancelled,
    /// An empty line.
    #[error("the input is empty")]
    Empty,
    /// A signal that this process receives by [`TerminationSignal::listen`](crate::signals::TerminationSignal::listen). The
    /// caller should exit.
    #[error("the prompt was interrupted by signal {0}")]
    Interrupted(i32),
}

/// Shows `prompt` on the controlling terminal and returns the line that is typed, without echo.
///
/// Line editing and control keys work as usual: Ctrl-C and Ctrl-\ terminate the process with SIGINT and SIGQUIT; Ctrl-Z stops
/// its process group, and the prompt is repeated when it continues. The terminal's settings are restored before any of that, and before SIGTERM
/// and SIGHUP take effect. A line with control characters, one that is not UTF-8 and one of more than `max_len` bytes is
/// refused, and the prompt repeated. Input that was typed before the prompt is discarded.
///
/// Blocks the thread. `prompt` must not contain control characters.
///
/// # Errors
/// See [`PromptError`]. Does not return if a signal terminates the process.
pub fn read_secret_line(prompt: &str, max_len: usize) -> Result<Zeroizing<String>, PromptError> {
    let input = open(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let mut output = open(OFlags::WRONLY)?;
    let signals = DeferredSignals::defer()?;
    loop {
        let mut hidden = HiddenInput::new(&input)?;
        output.write_all(prompt.as_bytes())?;
        let outcome = read_line(&input, &signals, hidden.suspend, max_len);
        if matches!(outcome, Ok(ReadOutcome::Line(_))) {
            hidden.discard_rest();
        }
        drop(hidden);
        // The newline was not echoed.
        let _ = output.write_all(b"\n");
        let refused = match outcome? {
            ReadOutcome::Line(line) => match check(&line) {
                Ok("") => return Err(PromptError::Empty),
                Ok(text) => return Ok(Zeroizing::new(text.to_owned())),
                Err(reason) => reason,
            },
            ReadOutcome::TooLong => "the input is too long",
            ReadOutcome::Cancelled => return Err(PromptError::Cancelled),
            ReadOutcome::Suspended => match suspend(&signals)? {
                Some(Interruption::Terminated(signal)) => return Err(interrupted(signals, signal)),
                _ => continue,
            },
            ReadOutcome::Interrupted(Interruption::Continued) => continue,
            ReadOutcome::Interrupted(Interruption::Terminated(signal)) => return Err(interrupted(signals, signal)),
        };
        let _ = output.write_all(format!("{refused}, try again\n").as_bytes());
    }
}

fn interrupted(signals: DeferredSignals, signal: i32) -> PromptError {
    drop(signals);
    DeferredSignals::deliver(signal);
    PromptError::Interrupted(signal)
}

/// How long it may take until a stop, delivered to another thread, reaches this one.
const STOP_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Stops the process group, as the terminal would have done, and returns when it is continued. The
/// kernel ignores the stop if no shell could continue the group.
fn suspend(signals: &DeferredSignals) -> io::Result<Option<Interruption>> {
    // A signal from before the stop.
    if let Some(Interruption::Terminated(signal)) = signals.take() {
        return Ok(Some(Interruption::Terminated(signal)));
    }
    // Another thread may handle the signal while this one continues. Unblocking makes this thread check pending signals.
    with_blocked(Signal::SIGTSTP, || kill_current_process_group(rustix::process::Signal::TSTP))?;
    let mut fds = [PollFd::new(signals, PollFlags::IN)];
    match poll(&mut fds, Some(&STOP_DELAY)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(signals.take()),
        Err(error) => Err(error.into()),
    }
}

/// Runs `action` with the signal blocked in this thread.
fn with_blocked<T>(signal: Signal, action: impl FnOnce() -> T) -> T {
    let mut block = SigSet::empty();
    block.add(signal);
    let previous = block.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let done = action();
    if let Ok(previous) = previous {
        let _ = previous.thread_set_mask();
    }
    done
}

fn open(flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::open("/dev/tty", flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).map(File::from)?)
}

/// Rejects control characters: they are typed by accident (a cursor key, Ctrl-V), and a wrong PIN uses up one of few attempts.
fn check(line: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "the input is not UTF-8")?;
    if text.chars().any(char::is_control) { Err("control characters are not accepted") } else { Ok(text) }
}

enum ReadOutcome {
    Line(Zeroizing<Vec<u8>>),
    TooLong,
    Cancelled,
    Suspended,
    Interrupted(Interruption),
}

/// Reads until the line ends. `suspend` is the character that stops the process group.
fn read_line(mut input: &File, signals: &DeferredSignals, suspend: u8, max_len: usize) -> io::Result<ReadOutcome> {
    // Neither buffer grows: freed memory would still contain the secret.
    let mut line = Zeroizing::new(Vec::with_capacity(max_len));
    let mut chunk = Zeroizing::new([0_u8; MAX_LINE_LEN]);
    let mut too_long = false;
    loop {
        let (input_fd, signals_fd) = (input.as_fd(), signals.as_fd());
        let mut fds =
            [PollFd::from_borrowed_fd(input_fd, PollFlags::IN), PollFd::from_borrowed_fd(signals_fd, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match signals.take() {
            // The terminal settings are unchanged: the input so far remains valid.
            Some(Interruption::Continued) if !tcgetattr(input)?.local_modes.contains(LocalModes::ECHO) => {}
            Some(interruption) => return Ok(ReadOutcome::Interrupted(interruption)),
            None => {}
        }
        let read = match input.read(&mut *chunk) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => continue,
            read => read?,
        };
        let (typed, last) = match chunk[..read].split_last() {
            // An incomplete line is discarded: a wrong PIN uses up an attempt.
            None => return Ok(ReadOutcome::Cancelled),
            Some((last, _)) if *last == suspend && suspend != DISABLED => return Ok(ReadOutcome::Suspended),
            Some((b'\n', typed)) => (typed, true),
            // Ctrl-D within a line flushes the input so far.
            Some(_) => (&chunk[..read], false),
        };
        too_long |= line.len() + typed.len() > max_len;
        if !too_long {
            line.extend_from_slice(typed);
        }
        if last {
            return Ok(if too_long { ReadOutcome::TooLong } else { ReadOutcome::Line(line) });
        }
    }
}

/// Disables echo until it is dropped.
struct HiddenInput<'a> {
    terminal: &'a File,
    before: Termios,
    restore: OptionalActions,
    /// The character that suspends. It ends a line here, so that the settings can be restored before the stop: a handler of
    /// SIGTSTP could stop this process, but not as a job of a shell is stopped.
    suspend: u8,
}

impl<'a> HiddenInput<'a> {
    /// In the background this stops the process (SIGTTOU), as any use of the terminal does, until it is in the foreground.
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        hidden.local_modes.insert(LocalModes::ICANON | LocalModes::ISIG);
        hidden.input_modes.remove(InputModes::IGNCR | InputModes::INLCR);
        hidden.input_modes.insert(InputModes::ICRNL);
        let suspend = hidden.special_codes[SpecialCodeIndex::VSUSP];
        if suspend != DISABLED {
            hidden.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
            hidden.special_codes[SpecialCodeIndex::VEOL] = suspend;
        }
        // Input that was typed ahead is not meant for this prompt.
        tcsetattr(terminal, OptionalActions::Flush, &hidden)?;
        Ok(Self { terminal, before, restore: OptionalActions::Now, suspend })
    }

    /// Discards input after the line, which may be the secret again and must not reach the next reader.
    fn discard_rest(&mut self) {
        self.restore = OptionalActions::Flush;
    }
}

impl Drop for HiddenInput<'_> {
    fn drop(&mut self) {
        // In the background, the terminal settings belong to the foreground job.
        if is_in_background(self.terminal) {
            return;
        }
        // Blocked, because the process may have moved to the background since the check. Fails if the terminal was closed.
        let _ = with_blocked(Signal::SIGTTOU, || tcsetattr(self.terminal, self.restore, &self.before));
    }
}

fn is_in_background(terminal: &File) -> bool {
    // Not `rustix::process::getpgrp`, which assumes a nonzero id: a group outside of this PID namespace has 0.
    let ours = Pid::from_raw(nix::unistd::getpgrp().as_raw());
    matches!((tcgetpgrp(terminal), ours), (Ok(foreground), Some(ours)) if foreground != ours)
}

/// Number of characters that a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Characters per line.
    pub columns: u16,
    /// Number of lines.
    pub rows: u16,
}

/// Returns the size of the terminal that standard output is connected to, or `None` if it is not a terminal.
pub fn window_size() -> Option<WindowSize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(WindowSize { columns: size.ws_col, rows: size.ws_row })
}
