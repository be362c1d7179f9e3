//! Removal of secrets from text that other programs wrote, before it becomes part of an error or a log line.
//!
//! One pass from left to right, in linear time: each lookahead is either consumed or bounded. [`name`] knows which
//! names hold secrets, [`shape`] what tokens look like, [`value`] where the value of a name ends, [`args`] command
//! lines.

mod args;
mod name;
mod shape;
#[cfg(test)]
mod tests;
mod value;

use crate::Secret;
pub use args::redact_args;
use name::SecretName;
pub use name::is_secret_name;

const REDACTED: &str = "[redacted]";

/// Minimum length of a known secret. Shorter values, such as "true", occur in ordinary messages.
const SHORTEST_KNOWN: usize = 6;

/// Longest part of a URL that is searched for user information, and longest title of a PEM block.
const LOOKAHEAD: usize = 256;

/// Returns `text` without the secrets in `known` and without anything that looks like a credential:
///
/// - values of names that hold secrets, as in `NAME=value`, `--name value`, `"name": "value"`, YAML, headers, URL queries,
///   XML elements and PKCS#11 URIs;
/// - what follows `Bearer` and `Basic`, and the user information of URLs;
/// - JSON web tokens, tokens with the prefixes that issuers give them, AWS key ids and the secret keys beside them;
/// - private keys in PEM.
///
/// Prose about tokens and passwords stays. This is a safety net: a plugin should not write secrets to its standard
/// error.
///
/// ```
/// use credlet_api::{Secret, redact};
///
/// let password = Secret::new("correct horse");
/// assert_eq!(redact("login with 'correct horse' failed", [&password]), "login with '[redacted]' failed");
/// assert_eq!(redact("sent Authorization: Bearer abc.def", []), "sent Authorization: Bearer [redacted]");
/// assert_eq!(redact("VAULT_TOKEN=abc is rejected: token expired", []), "VAULT_TOKEN=[redacted] is rejected: token expired");
/// ```
pub fn redact<'a>(text: &str, known: impl IntoIterator<Item = &'a Secret>) -> String {
    let mut known: Vec<&str> = known.into_iter().map(Secret::expose).collect();
    known.retain(|secret| secret.chars().count() >= SHORTEST_KNOWN);
    // Longer secrets first: a secret that contains another one must be removed as a whole.
    known.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut text = text.to_owned();
    for secret in known {
        if text.contains(secret) {
            text = text.replace(secret, REDACTED);
        }
    }
    RedactionScanner::new(&text).run()
}

/// Redacts a text in one pass.
struct RedactionScanner<'t> {
    text: &'t str,
    /// Everything before this position is in `clean`, or was redacted.
    at: usize,
    clean: String,
    /// With an AWS key id anywhere, runs that look like secret keys are taken for such.
    has_aws_key_id: bool,
    /// The word before the current one, if only a space is between them.
    previous: &'t str,
}

impl<'t> RedactionScanner<'t> {
    fn new(text: &'t str) -> Self {
        let has_aws_key_id = shape::has_aws_key_id(text);
        Self { text, at: 0, clean: String::with_capacity(text.len()), has_aws_key_id, previous: "" }
    }

    fn run(mut self) -> String {
        while let Some(first) = self.rest().chars().next() {
            if self.rest().starts_with("-----") && self.pem() {
                continue;
            }
            let length = shape::word_length(self.rest());
            count(length + 1);
            if length > 0 {
                self.word(length);
            } else if let Some(skipped) = percent_escape(self.rest()) {
                self.keep(skipped);
            } else {
                if first != ' ' {
                    self.previous = "";
                }
                self.keep(first.len_utf8());
            }
        }
        self.clean
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Copies the next bytes.
    fn keep(&mut self, length: usize) {
        self.clean.push_str(&self.rest()[..length]);
        self.at += length;
    }

    /// Leaves out the next bytes.
    fn hide(&mut self, length: usize) {
        if length > 0 {
            self.clean.push_str(REDACTED);
        }
        self.at += length;
    }

    /// Redacts a private key in PEM, or a part of one. Returns `false` for other text.
    fn pem(&mut self) -> bool {
        let title = |begin: &str| {
            let title = self.rest().strip_prefix(begin)?;
            let window = &title[..floor(title, 64)];
            window.find("-----").map(|end| (&window[..end], begin.len() + end + "-----".len()))
        };
        match (title("-----BEGIN "), title("-----END ")) {
            (Some((title, _)), _) if title.contains("PRIVATE KEY") => {
                // A truncated block is still a key.
                let end = self.rest().find("-----END ").map_or(self.rest().len(), |end| {
                    let after = &self.rest()[end + "-----END ".len()..];
                    let window = &after[..floor(after, 64)];
                    window.find("-----").map_or(self.rest().len(), |dashes| end + "-----END ".len() + dashes + 5)
                });
                self.hide(end);
                true
            }
            (_, Some((title, length))) if title.contains("PRIVATE KEY") => {
                // The beginning was truncated: remove preceding text that looks like lines of the key.
                let body = |c: char| c.is_ascii_alphanumeric() || "+/=\\\r\n".contains(c);
                let kept = self.clean.trim_end_matches(body).len();
                self.clean.truncate(kept);
                if self.clean.ends_with(REDACTED) {
                    self.at += length;
                } else {
                    self.hide(length);
                }
                true
            }
            _ => false,
        }
    }

    /// Processes a run of characters that names and tokens consist of.
    fn word(&mut self, length: usize) {
        let word = &self.rest()[..length];
        let after = &self.rest()[length..];
        if after.starts_with("://") {
            self.keep(length + 3);
            self.user_info();
            return;
        }
        if word.eq_ignore_ascii_case("pkcs11") && after.starts_with(':') {
            self.keep(length + 1);
            self.pkcs11();
            return;
        }
        if let Some(start) = shape::credential(word, self.has_aws_key_id) {
            self.keep(start);
            // The dot may end a sentence.
            let token = self.rest()[..length - start].trim_end_matches('.').len();
            self.hide(token);
            self.previous = "";
            return;
        }
        let name = word.rsplit(['/', '+', '~']).next().unwrap_or(word);
        let previous = std::mem::replace(&mut self.previous, word);
        if after.starts_with(':')
            && let Some(length) = credentials_before_host(self.rest())
        {
            self.hide(length);
            return;
        }
        if let Some(kind) = SecretName::of(name, previous, self.clean.chars().next_back())
            && let Some(hidden) = value::of(kind, self.text, self.at, self.at + length)
        {
            for range in hidden {
                self.keep(range.start - self.at);
                self.hide(range.end - range.start);
            }
            self.previous = "";
            return;
        }
        self.keep(length);
        if let Some((skipped, hidden)) = value::of_scheme(word, self.rest()) {
            self.keep(skipped);
            self.hide(hidden);
        }
    }

    /// Redacts the user information of a URL, behind `://`.
    fn user_info(&mut self) {
        let rest = self.rest();
        let window = &rest[..floor(rest, LOOKAHEAD)];
        let ends = |c: char| c.is_whitespace() || "\"'`<>\\".contains(c);
        let window = window.split(ends).next().unwrap_or_default();
        count(window.len());
        let authority = window.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.rfind('@').or_else(|| {
            // The password may contain an unescaped slash: the text behind the colon is not a port.
            let password = authority.split_once(':')?.1;
            (!password.bytes().all(|byte| byte.is_ascii_digit())).then(|| window.rfind('@'))?
        });
        if let Some(length) = user.filter(|length| *length > 0 && &rest[..*length] != REDACTED) {
            self.hide(length);
        }
    }

    /// Redacts the PIN in a PKCS#11 URI, in which `token` is a label and not secret.
    fn pkcs11(&mut self) {
        let rest = self.rest();
        let uri = rest.split(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).next().unwrap_or_default();
        let end = self.at + uri.len();
        while self.at < end {
            let part = &self.text[self.at..end];
            let length = part.find([';', '?', '&']).unwrap_or(part.len());
            let attribute = &part[..length];
            match attribute.split_once('=') {
                Some((name, pin)) if name.to_ascii_lowercase().contains("pin") && !name.ends_with("source") => {
                    self.keep(name.len() + 1);
                    self.hide(pin.len());
                }
                _ => self.keep(length),
            }
            let separator = usize::from(self.at < end);
            self.keep(separator);
        }
        self.previous = "";
    }
}

/// Counts steps of work in tests, which compare them with the length of the text.
fn count(steps: usize) {
    #[cfg(test)]
    tests::STEPS.with(|counted| counted.set(counted.get() + steps));
    #[cfg(not(test))]
    let _ = steps;
}

/// The largest character boundary up to `limit`.
fn floor(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Returns the length of a percent-encoded byte such as `%3D`, which separates words.
fn percent_escape(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    (bytes.first() == Some(&b'%') && hex(1) && hex(2)).then_some(3)
}

/// The length of `user:password` in `user:password@host:3128`, as in a proxy's address without a scheme. A port
/// is required: without it `oidc:ada@example.test` is a user name, and `nginx:1.25@sha256:…` an image.
fn credentials_before_host(text: &str) -> Option<usize> {
    let window = &text[..floor(text, LOOKAHEAD)];
    let window = window.split(|c: char| c.is_whitespace() || "\"'`<>\\/,;".contains(c)).next().unwrap_or_default();
    count(window.len());
    let (credentials, host) = window.rsplit_once('@')?;
    let (host, port) = host.split_once(':')?;
    let port = port.bytes().take_while(u8::is_ascii_digit).count();
    let is_digest = host.starts_with("sha") && host.bytes().skip(3).all(|byte| byte.is_ascii_digit());
    (credentials.contains(':') && !host.is_empty() && !is_digest && (2..=5).contains(&port))
        .then_some(credentials.len())
}
