//! The output of a terminal so far, collected by a reader thread.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Screen {
    /// A marker written by the test to detect that all earlier output has been read.
    mark: Vec<u8>,
    shown: Mutex<Shown>,
    changed: Condvar,
}

#[derive(Debug)]
struct Shown {
    bytes: Vec<u8>,
    /// End of the last match of `read_until`.
    read: usize,
    ended: bool,
    /// Held open so that the terminal is not closed before the program has opened it.
    other_side: Option<OwnedFd>,
}

impl Screen {
    pub(super) fn of(mut master: File, other_side: OwnedFd) -> Arc<Self> {
        let mark = format!("\0end of screen {:016x}\0", fastrand::u64(..)).into_bytes();
        let shown = Shown { bytes: Vec::new(), read: 0, ended: false, other_side: Some(other_side) };
        let screen = Arc::new(Self { mark, shown: Mutex::new(shown), changed: Condvar::new() });
        let ours = Arc::clone(&screen);
        thread::spawn(move || {
            let mut block = [0; 4096];
            // When the last process has closed the other side, Linux returns EIO and other systems 0.
            while let Ok(length @ 1..) = master.read(&mut block) {
                let mut shown = ours.lock();
                shown.bytes.extend_from_slice(&block[..length]);
                if let Some(end) = position(&shown.bytes, &ours.mark) {
                    shown.bytes.truncate(end);
                    break;
                }
                drop(shown);
                ours.changed.notify_all();
            }
            ours.lock().ended = true;
            ours.changed.notify_all();
        });
        screen
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    pub(super) fn read_until(&self, text: &str, limit: Duration) -> String {
        let wanted = text.as_bytes();
        let end = |shown: &Shown| Some(shown.read + position(&shown.bytes[shown.read..], wanted)? + wanted.len());
        let (mut shown, _) = self
            .changed
            .wait_timeout_while(self.lock(), limit, |shown| end(shown).is_none() && !shown.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let Some(end) = end(&shown) else {
            let (why, screen) = (if shown.ended { "it ended" } else { "time is up" }, shown.bytes.clone());
            drop(shown);
            panic!("{text:?} is not on the screen and {why}; it shows:\n{}", String::from_utf8_lossy(&screen));
        };
        let found = String::from_utf8_lossy(&shown.bytes[shown.read..end]).into_owned();
        shown.read = end;
        found
    }

    /// Waits until all output written before this call has been read. A process may still hold the terminal open, so a marker is
    /// written and awaited instead of end of file.
    pub(super) fn end_behind_what_was_written(&self, mut other_side: File) {
        let written = other_side.write_all(&self.mark);
        drop(other_side);
        self.let_go_of_other_side();
        written.expect("the terminal to take the mark");
        let ended = self.changed.wait_while(self.lock(), |shown| !shown.ended);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }

    /// From here on the terminal is closed with its last process.
    pub(super) fn let_go_of_other_side(&self) {
        self.lock().other_side = None;
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}
