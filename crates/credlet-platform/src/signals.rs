//! Termination signals: SIGINT, SIGQUIT, SIGTERM and SIGHUP.
//!
//! A prompt handles them to restore the terminal first ([`terminal`](crate::terminal)). A handler cannot be removed without
//! unsafe code, so outside of a prompt it emulates the default action, unless [`TerminationSignal::listen`]
//! was called for that signal: then only the stream receives it.

use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use signal_hook::{flag, low_level};
use tokio::signal::unix::{self, SignalKind};

const SIGNALS: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];

/// Whether the handler emulates the default action, for each of [`SIGNALS`].
static DEFAULT_ACTION: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];

/// Whether a stream receives the signal, for each of [`SIGNALS`].
static HAS_STREAM: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];

/// The last of [`SIGNALS`] that was received, or 0.
static LAST_SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Whether this process was continued after a stop.
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// Read end of the pipe that handlers write to; `None` before the first prompt. Locked during a prompt.
static WAKE_PIPE: Mutex<Option<UnixStream>> = Mutex::new(None);

/// Returns a stream of signals of this kind, like [`tokio::signal::unix::signal`]. They no longer terminate this process.
///
/// Use this instead of tokio's function, after which the handler of an earlier prompt would still terminate the process.
///
/// # Errors
/// Fails if the handler cannot be installed.
#[expect(clippy::disallowed_methods, reason = "this module registers handlers")]
pub(crate) fn signal(kind: SignalKind) -> io::Result<unix::Signal> {
    if let Some(at) = SIGNALS.iter().position(|signal| signal.as_raw() == kind.as_raw_value()) {
        HAS_STREAM[at].store(true, Ordering::SeqCst);
        DEFAULT_ACTION[at].store(false, Ordering::SeqCst);
    }
    unix::signal(kind)
}

/// Whether this signal is ignored, for example because of `nohup`. Returns `false` on Linux if `/proc` is not mounted, and on
/// systems other than Linux and macOS.
pub fn is_ignored(signal: i32) -> bool {
    #[cfg(target_os = "macos")]
    return crate::macos::is_signal_ignored(signal);
    #[cfg(not(target_os = "macos"))]
    {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
        (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
    }
}

/// Why a wait was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// A termination signal.
    Terminated(i32),
    /// The process was stopped and continued.
    Continued,
}

/// Defers termination signals while it exists.
pub(crate) struct DeferredSignals {
    wake_pipe: MutexGuard<'static, Option<UnixStream>>,
}

impl DeferredSignals {
    /// Starts to defer signals. Waits until another prompt of this process has finished.
    pub(crate) fn defer() -> io::Result<Self> {
        let mut wake_pipe = WAKE_PIPE.lock().unwrap_or_else(PoisonError::into_inner);
        // A signal that a stream received before this prompt.
        LAST_SIGNAL.store(0, Ordering::SeqCst);
        DEFAULT_ACTION.iter().for_each(|action| action.store(false, Ordering::SeqCst));
        if wake_pipe.is_none() {
            *wake_pipe = Some(register()?);
        }
        Ok(Self { wake_pipe })
    }

    /// Returns the signal that was received since the last call.
    pub(crate) fn take(&self) -> Option<Interruption> {
        if let Some(mut pipe) = self.wake_pipe.as_ref() {
            // Non-blocking; fails only when the pipe is empty.
            while pipe.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
        }
        match LAST_SIGNAL.swap(0, Ordering::SeqCst) {
            0 => CONTINUED.swap(false, Ordering::SeqCst).then_some(Interruption::Continued),
            signal => i32::try_from(signal).ok().map(Interruption::Terminated),
        }
    }

    /// Performs the default action of a deferred signal. Returns if a stream receives it; the stream's owner must then
    /// terminate the process.
    pub(crate) fn deliver(signal: i32) {
        let at = SIGNALS.iter().position(|known| known.as_raw() == signal);
        if at.is_some_and(|at| !HAS_STREAM[at].load(Ordering::SeqCst)) {
            let _ = low_level::emulate_default_handler(signal);
        }
    }
}

/// Readable when a signal was received.
impl AsFd for DeferredSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.wake_pipe.as_ref() {
            Some(pipe) => pipe.as_fd(),
            // Not reached: `defer` sets it.
            None => rustix::stdio::stdin(),
        }
    }
}

impl Drop for DeferredSignals {
    fn drop(&mut self) {
        for (action, has_stream) in DEFAULT_ACTION.iter().zip(&HAS_STREAM) {
            action.store(!has_stream.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        // A signal since the last `take`.
        if let Some(Interruption::Terminated(signal)) = self.take() {
            Self::deliver(signal);
        }
    }
}

fn register() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for (signal, action) in SIGNALS.iter().map(|signal| signal.as_raw()).zip(&DEFAULT_ACTION) {
        // Ignored signals stay ignored, for this process and its children.
        if !is_ignored(signal) {
            flag::register_conditional_default(signal, action)?;
            flag::register_usize(signal, &LAST_SIGNAL, usize::try_from(signal).unwrap_or_default())?;
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
    }
    flag::register(Signal::CONT.as_raw(), &CONTINUED)?;
    low_level::pipe::register(Signal::CONT.as_raw(), writer)?;
    Ok(reader)
}

/// A request to terminate this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminationSignal {
    /// SIGINT, which the terminal sends for Ctrl-C.
    Interrupt,
    /// SIGQUIT, which the terminal sends for Ctrl-\.
    Quit,
    /// SIGTERM, which `kill` and service managers send.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
}

impl TerminationSignal {
    /// Returns the number for [`is_ignored`] and [`process::exit_by_signal`](crate::process::exit_by_signal).
    pub fn number(self) -> i32 {
        let signal = match self {
            Self::Interrupt => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Terminate => Signal::TERM,
            Self::Hangup => Signal::HUP,
        };
        signal.as_raw()
    }

    /// Starts to receive this signal, which then no longer terminates this process. Needs a tokio runtime.
    ///
    /// # Errors
    /// Fails if the handler cannot be installed.
    pub fn listen(self) -> io::Result<SignalStream> {
        signal(SignalKind::from_raw(self.number())).map(SignalStream)
    }
}

/// Receives a [`TerminationSignal`]. The signal does not terminate this process after this is dropped either.
#[derive(Debug)]
pub struct SignalStream(unix::Signal);

impl SignalStream {
    /// Waits until the signal is received. Cancel safe.
    pub async fn recv(&mut self) {
        if self.0.recv().await.is_none() {
            // The runtime is shutting down.
            std::future::pending().await
        }
    }
}

/// Whether the terminal sends this signal for a key: Ctrl-C or Ctrl-\.
pub fn is_sent_by_terminal(signal: i32) -> bool {
    [TerminationSignal::Interrupt, TerminationSignal::Quit].iter().any(|typed| typed.number() == signal)
}
