use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

/// Leaks a secret and returns the message with which the check fails.
fn failure_after(leak: impl FnOnce(&LeakCheck, &str)) -> String {
    let watch = LeakCheck::new();
    let secret = watch.secret("my token");
    leak(&watch, secret.expose());
    let failure = catch_unwind(AssertUnwindSafe(|| drop(watch))).expect_err("the watch to fail the test");
    let message = *failure.downcast::<String>().unwrap();
    assert!(message.contains("\"my token\""), "the label is named: {message}");
    for half in secret.expose().split('+') {
        assert!(!message.contains(half), "the secret is masked");
    }
    message
}

#[derive(Debug)]
struct Failure {
    display: String,
    #[expect(dead_code, reason = "read by Debug only")]
    debug: Debugged,
    cause: Option<Box<Failure>>,
}

struct Debugged(String, Vec<u8>);

impl fmt::Debug for Debugged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Debugged").field(&self.0).field(&self.1).finish()
    }
}

impl Failure {
    fn new(display: impl Into<String>) -> Self {
        Self { display: display.into(), debug: Debugged(String::new(), Vec::new()), cause: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_deref()?)
    }
}

#[test]
fn passes_without_leak() {
    let watch = LeakCheck::new();
    let secret = watch.secret("token");
    tracing::error!(?secret, "logged in");
    watch.error(&Failure::new("no such user"));
    watch.text("nothing here");
    assert_eq!(watch.leaks(), [""; 0]);
    assert!(watch.lines().iter().any(|line| line.contains("logged in") && line.contains("[redacted]")));
}

#[test]
fn finds_secret_in_log_message() {
    let message = failure_after(|_, secret| tracing::info!("the token is {secret}!"));
    assert!(message.contains("the token is [SECRET]!"), "{message}");
}

#[test]
fn finds_secret_in_field_at_every_level() {
    failure_after(|_, secret| tracing::trace!(token = secret));
    failure_after(|_, secret| tracing::trace!(token = %secret));
    failure_after(|_, secret| tracing::debug!(token = ?Some(secret)));
    failure_after(|_, secret| tracing::debug!(token = secret.as_bytes()));
    failure_after(|_, secret| tracing::warn!(target: "elsewhere", token = format!("Bearer {secret}")));
}

#[test]
fn finds_secret_in_source_of_logged_error() {
    failure_after(|_, secret| {
        let error = Failure { cause: Some(Box::new(Failure::new(secret))), ..Failure::new("outer") };
        tracing::error!(error = &error as &(dyn Error + 'static));
    });
}

#[test]
fn finds_secret_in_span() {
    failure_after(|_, secret| drop(tracing::info_span!("request", token = secret)));
    failure_after(|_, secret| {
        let span = tracing::trace_span!("request", token = tracing::field::Empty);
        span.record("token", secret);
    });
}

#[test]
fn finds_secret_logged_by_another_thread() {
    failure_after(|_, secret| std::thread::scope(|scope| drop(scope.spawn(|| tracing::info!("{secret}")).join())));
}

#[test]
fn finds_secret_in_panic() {
    failure_after(|_, secret| {
        let secret = secret.to_owned();
        std::thread::spawn(move || panic!("bad token {secret}")).join().unwrap_err();
    });
}

#[test]
fn finds_secret_in_error_display() {
    failure_after(|watch, secret| watch.error(&Failure::new(format!("bad token {secret}"))));
}

#[test]
fn finds_secret_in_error_debug() {
    let debug = |text: &str, bytes: &[u8]| Failure {
        debug: Debugged(text.to_owned(), bytes.to_vec()),
        ..Failure::new("shown")
    };
    failure_after(|watch, secret| watch.error(&debug(secret, b"")));
    let message = failure_after(|watch, secret| watch.error(&debug("", secret.as_bytes())));
    assert!(message.contains("as a list of bytes"), "{message}");
}

#[test]
fn finds_secret_in_source_chain() {
    failure_after(|watch, secret| {
        let inner = Failure { cause: Some(Box::new(Failure::new(secret))), ..Failure::new("middle") };
        watch.error(&Failure { cause: Some(Box::new(inner)), ..Failure::new("outer") });
    });
}

#[test]
fn finds_secret_in_text() {
    let message = failure_after(|watch, secret| watch.text(format!("stderr: {secret}")));
    assert!(message.contains("a text: stderr: [SECRET]"), "{message}");
}

#[test]
fn finds_secret_in_base64() {
    for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
        failure_after(|watch, secret| watch.text(engine.encode(secret)));
        // As in `Authorization: Basic`, at each of the three alignments.
        for user in ["", "u", "me"] {
            failure_after(|watch, secret| watch.text(engine.encode(format!("{user}:{secret}?"))));
        }
    }
}

#[test]
fn finds_percent_encoded_secret() {
    failure_after(|watch, secret| watch.text(format!("/?token={}", secret.replace('+', "%2B"))));
    failure_after(|watch, secret| {
        watch.text(secret.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>());
    });
}

#[test]
fn finds_secret_in_hex_or_escaped() {
    failure_after(|watch, secret| watch.text(secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()));
    let watch = LeakCheck::new();
    watch.adopt("quoted", "pass\"word\n\u{1}with\\escapes");
    watch.text(format!("{:?}", "pass\"word\n\u{1}with\\escapes"));
    watch.text(serde_json::to_string("pass\"word\n\u{1}with\\escapes").unwrap());
    assert_eq!(watch.leaks().len(), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(watch))).is_err());
}

#[test]
fn finds_half_a_secret() {
    failure_after(|watch, secret| watch.text(secret.split('+').next().unwrap()));
}

#[test]
fn finds_one_line_of_a_key() {
    let key = crate::ca::TestCa::new().client("jane").issue();
    let watch = LeakCheck::new();
    watch.adopt("key", key.key_pem());
    watch.text(key.cert_pem());
    watch.text("-----BEGIN PRIVATE KEY-----");
    assert_eq!(watch.leaks(), [""; 0]);
    watch.text(key.key_pem().lines().nth(1).unwrap());
    assert_eq!(watch.leaks().len(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(watch))).is_err());
}

#[test]
fn panicking_test_keeps_its_reason() {
    let failure = catch_unwind(|| {
        let watch = LeakCheck::new();
        let secret = watch.secret("token");
        tracing::info!("{}", secret.expose());
        panic!("its own reason");
    });
    assert_eq!(*failure.unwrap_err().downcast::<&str>().unwrap(), "its own reason");
}

#[test]
fn checks_do_not_share_secrets() {
    let (one, two) = (LeakCheck::new(), LeakCheck::new());
    let (a, b) = (one.secret("a"), two.secret("a"));
    assert_ne!(a, b);
    one.text(b.expose());
    assert_eq!(one.leaks(), [""; 0]);
}

#[test]
fn secret_is_valid_header_value() {
    let secret = LeakCheck::new().secret("token");
    assert!(secret.expose().len() >= 24);
    let mut header = hyper::header::HeaderValue::from_str(secret.expose()).unwrap();
    header.set_sensitive(true);
}
