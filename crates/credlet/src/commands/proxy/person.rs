//! A secret, asked for at the terminal: nothing of it is shown.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use credlet_api::Secret;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::error::CliError;

/// The longest PIN that PKCS#11 knows.
const LONGEST: usize = 255;

/// Asks, at the terminal that this process belongs to.
pub(super) fn ask(question: &str) -> Result<Secret, CliError> {
    let fail = |error: io::Error| CliError::usage(format!("nobody can be asked at the terminal: {error}"));
    let terminal = File::options().read(true).write(true).open("/dev/tty").map_err(fail)?;
    let quiet = Quiet::new(&terminal).map_err(fail)?;
    (&terminal).write_all(credlet_api::visible(question).as_bytes()).map_err(fail)?;
    let typed = typed(&terminal);
    drop(quiet);
    // The line's end was not shown either.
    let _ = (&terminal).write_all(b"\n");
    typed.map_err(fail)?.ok_or_else(|| CliError::usage("nothing was typed"))
}

/// The keys, one by one: without the terminal's own lines, so that Ctrl-C is a key as well, and the terminal can be put
/// right again before anything ends.
fn typed(mut terminal: &File) -> io::Result<Option<Secret>> {
    let mut text = Zeroizing::new(Vec::with_capacity(LONGEST));
    let mut key = Zeroizing::new([0_u8]);
    loop {
        if terminal.read(&mut *key)? == 0 {
            return Ok(None);
        }
        match key[0] {
            b'\r' | b'\n' => break,
            // Ctrl-C, Ctrl-D, Ctrl-\
            0x03 | 0x04 | 0x1c => return Ok(None),
            0x08 | 0x7f => drop(text.pop()),
            // Ctrl-U
            0x15 => text.clear(),
            byte if text.len() < LONGEST => text.push(byte),
            _ => {}
        }
    }
    let text = std::str::from_utf8(&text).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some(Secret::new(text)).filter(|secret| !secret.is_empty()))
}

/// A terminal that shows nothing, until this is dropped.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Quiet<'a> {
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        // What was typed ahead may be a PIN in the wrong place.
        tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // There is nobody to tell that the terminal has gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}
