//! The log check: a test that handles a secret fails if the secret is seen where it must not be.
//!
//! ```should_panic
//! use credlet_testkit::logs::Watch;
//!
//! let watch = Watch::new();
//! let token = watch.secret("token");
//! tracing::info!("logged in with {}", token.expose());
//! // Here the watch is dropped, and the test fails.
//! ```

mod collector;
mod forms;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use credlet_api::Secret;

use forms::Forms;

/// Watches all that is logged in this process, at every level and with all fields, from its making to its drop.
///
/// Dropping it fails the test if one of its secrets was seen, plain or in a thin disguise: base64, percent-encoded,
/// hex, escaped, or as a list of bytes. A test that is failing already is left to fail for its own reason.
///
/// Tests of one process share one log, which is harmless since no two watches share a secret.
#[derive(Debug)]
#[must_use = "a watch that is dropped at once sees nothing"]
pub struct Watch {
    first_line: usize,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    secrets: Vec<Forms>,
    /// Where from, and what.
    texts: Vec<(&'static str, String)>,
}

impl Watch {
    /// Begins to watch. The first one in a process becomes its global tracing subscriber, so there can be no other.
    pub fn new() -> Self {
        collector::install();
        Self { first_line: collector::len(), notes: Mutex::default() }
    }

    /// A secret that nobody else has: safe as a bearer token in a header, and different when percent-encoded.
    /// A half of it counts as a leak as well.
    pub fn secret(&self, label: &str) -> Secret {
        let random = |length| -> String { (0..length).map(|_| fastrand::alphanumeric()).collect() };
        let halves = [random(20), random(20)];
        let text = halves.join("+");
        self.notes().secrets.push(Forms::new(label, &[&text, &halves[0], &halves[1]]));
        Secret::new(text)
    }

    /// Watches for a secret that was made elsewhere, a private key for example. Of a text of many lines, one line of 24
    /// or more characters counts as a leak.
    pub fn adopt(&self, label: &str, secret: &str) {
        assert!(secret.len() >= 8, "{label:?} is so short that it may well appear by chance");
        let lines = secret.lines().map(str::trim).filter(|line| line.len() >= 24 && !line.starts_with("-----"));
        let parts: Vec<&str> = [secret.trim()].into_iter().chain(lines).collect();
        self.notes().secrets.push(Forms::new(label, &parts));
    }

    /// Looks at an error in all the ways in which it may be shown, and at all its causes.
    pub fn error(&self, error: &(dyn Error + 'static)) {
        let mut notes = self.notes();
        let mut cause = Some(error);
        while let Some(error) = cause {
            notes.texts.push(("Display of an error", format!("{error}\n{error:#}")));
            notes.texts.push(("Debug of an error", format!("{error:?}\n{error:#?}")));
            cause = error.source();
        }
    }

    /// Looks at any other text, such as the stderr of a command.
    pub fn text(&self, text: impl AsRef<str>) {
        self.notes().texts.push(("a text", text.as_ref().to_owned()));
    }

    /// The lines logged since this watch began, those of other tests in the process among them.
    pub fn lines(&self) -> Vec<String> {
        collector::since(self.first_line)
    }

    /// What was seen until now, each with the label of the secret and with the secret masked.
    pub fn leaks(&self) -> Vec<String> {
        let lines = self.lines();
        let notes = self.notes();
        let logged = lines.iter().map(|line| ("the log", line));
        let noted = notes.texts.iter().map(|(origin, text)| (*origin, text));
        logged
            .chain(noted)
            .flat_map(|(origin, text)| notes.secrets.iter().filter_map(move |secret| secret.found_in(origin, text)))
            .collect()
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let leaks = self.leaks();
        assert!(leaks.is_empty(), "secrets were seen:\n{}", leaks.join("\n"));
    }
}
