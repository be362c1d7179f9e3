//! Leak check: a test that handles a secret fails if the secret appears in a log line, an error or another checked text.
//!
//! ```should_panic
//! use credlet_testkit::logs::LeakCheck;
//!
//! let watch = LeakCheck::new();
//! let token = watch.secret("token");
//! tracing::info!("logged in with {}", token.expose());
//! // The check is dropped here, and the test fails.
//! ```

mod collector;
mod forms;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use credlet_api::Secret;

use forms::Forms;

/// Checks everything that is logged in this process, at every level and with all fields, from its creation to its drop.
///
/// Dropping it fails the test if one of its secrets appeared, plain or encoded: base64, percent-encoding, hex, escaped, or as a
/// list of bytes. If the test is panicking already, the check does not panic.
///
/// Tests of one process share one log; secrets are unique to a check.
#[derive(Debug)]
#[must_use = "a watch that is dropped at once sees nothing"]
pub struct LeakCheck {
    first_line: usize,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    secrets: Vec<Forms>,
    /// Source and text.
    texts: Vec<(&'static str, String)>,
}

impl LeakCheck {
    /// Creates a check. The first one in a process installs the global tracing subscriber.
    pub fn new() -> Self {
        collector::install();
        Self { first_line: collector::len(), notes: Mutex::default() }
    }

    /// Returns a unique secret: valid as a bearer token in a header, and changed by percent-encoding. Half of it counts as a leak
    /// as well.
    pub fn secret(&self, label: &str) -> Secret {
        let random = |length| -> String { (0..length).map(|_| fastrand::alphanumeric()).collect() };
        let halves = [random(20), random(20)];
        let text = halves.join("+");
        self.notes().secrets.push(Forms::new(label, &[&text, &halves[0], &halves[1]]));
        Secret::new(text)
    }

    /// Adds a secret that was created elsewhere, for example a private key. In a text of several lines, one line of at least 24
    /// characters counts as a leak.
    pub fn adopt(&self, label: &str, secret: &str) {
        assert!(secret.len() >= 8, "{label:?} is so short that it may well appear by chance");
        let lines = secret.lines().map(str::trim).filter(|line| line.len() >= 24 && !line.starts_with("-----"));
        let parts: Vec<&str> = [secret.trim()].into_iter().chain(lines).collect();
        self.notes().secrets.push(Forms::new(label, &parts));
    }

    /// Checks an error: `Display`, `Debug` and all sources.
    pub fn error(&self, error: &(dyn Error + 'static)) {
        let mut notes = self.notes();
        let mut cause = Some(error);
        while let Some(error) = cause {
            notes.texts.push(("Display of an error", format!("{error}\n{error:#}")));
            notes.texts.push(("Debug of an error", format!("{error:?}\n{error:#?}")));
            cause = error.source();
        }
    }

    /// Checks another text, such as the stderr of a command.
    pub fn text(&self, text: impl AsRef<str>) {
        self.notes().texts.push(("a text", text.as_ref().to_owned()));
    }

    /// Returns the lines logged since the creation of this check, including those of other tests in the process.
    pub fn lines(&self) -> Vec<String> {
        collector::since(self.first_line)
    }

    /// Returns the leaks so far, each with the label of the secret and with the secret masked.
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

impl Default for LeakCheck {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for LeakCheck {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let leaks = self.leaks();
        assert!(leaks.is_empty(), "secrets were seen:\n{}", leaks.join("\n"));
    }
}
