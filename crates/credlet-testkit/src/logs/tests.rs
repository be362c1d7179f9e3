use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

/// Lets a secret leak, and gives the message with which the watch then fails.
fn failure_after(leak: impl FnOnce(&Watch, &str)) -> String {
    let watch = Watch::new();
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
fn a_test_without_a_leak_passes() {
    let watch = Watch::new();
    let secret = watch.secret("token");
    tracing::error!(?secret, "logged in");
    watch.error(&Failure::new("no such user"));
    watch.text("nothing here");
    assert_eq!(watch.leaks(), [""; 0]);
    assert!(watch.lines().iter().any(|line| line.contains("logged in") && line.contains("[redacted]")));
}

#[test]
fn a_secret_in_a_log_message_fails_the_test() {
    let message = failure_after(|_, secret| tracing::info!("the token is {secret}!"));
    assert!(message.contains("the token is [SECRET]!"), "{message}");
}

#[test]
fn a_secret_in_a_field_fails_the_test_at_every_level() {
    failure_after(|_, secret| tracing::trace!(token = secret));
    failure_after(|_, secret| tracing::trace!(token = %secret));
    failure_after(|_, secret| tracing::debug!(token = ?Some(secret)));
    failure_after(|_, secret| tracing::debug!(token = secret.as_bytes()));
    failure_after(|_, secret| tracing::warn!(target: "elsewhere", token = format!("Bearer {secret}")));
}

#[test]
fn a_secret_in_the_cause_of_a_logged_error_fails_the_test() {
    failure_after(|_, secret| {
        let error = Failure { cause: Some(Box::new(Failure::new(secret))), ..Failure::new("outer") };
        tracing::error!(error = &error as &(dyn Error + 'static));
    });
}

#[test]
fn a_secret_in_a_span_fails_the_test() {
    failure_after(|_, secret| drop(tracing::info_span!("request", token = secret)));
    failure_after(|_, secret| {
        let span = tracing::trace_span!("request", token = tracing::field::Empty);
        span.record("token", secret);
    });
}

#[test]
fn a_secret_logged_by_another_thread_fails_the_test() {
    failure_after(|_, secret| std::thread::scope(|scope| drop(scope.spawn(|| tracing::info!("{secret}")).join())));
}

#[test]
fn a_secret_in_a_panic_fails_the_test() {
    failure_after(|_, secret| {
        let secret = secret.to_owned();
        std::thread::spawn(move || panic!("bad token {secret}")).join().unwrap_err();
    });
}

#[test]
fn a_secret_in_the_display_of_an_error_fails_the_test() {
    failure_after(|watch, secret| watch.error(&Failure::new(format!("bad token {secret}"))));
}

#[test]
fn a_secret_in_the_debug_of_an_error_fails_the_test() {
    let debug = |text: &str, bytes: &[u8]| Failure {
        debug: Debugged(text.to_owned(), bytes.to_vec()),
        ..Failure::new("shown")
    };
    failure_after(|watch, secret| watch.error(&debug(secret, b"")));
    let message = failure_after(|watch, secret| watch.error(&debug("", secret.as_bytes())));
    assert!(message.contains("as a list of bytes"), "{message}");
}

#[test]
fn a_secret_deep_in_the_chain_of_causes_fails_the_test() {
    failure_after(|watch, secret| {
        let inner = Failure { cause: Some(Box::new(Failure::new(secret))), ..Failure::new("middle") };
        watch.error(&Failure { cause: Some(Box::new(inner)), ..Failure::new("outer") });
    });
}

#[test]
fn a_secret_in_any_other_text_fails_the_test() {
    let message = failure_after(|watch, secret| watch.text(format!("stderr: {secret}")));
    assert!(message.contains("a text: stderr: [SECRET]"), "{message}");
}

#[test]
fn a_secret_in_base64_fails_the_test() {
    for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
        failure_after(|watch, secret| watch.text(engine.encode(secret)));
        // As in `Authorization: Basic`, at each of the three ways to lie across the groups.
        for user in ["", "u", "me"] {
            failure_after(|watch, secret| watch.text(engine.encode(format!("{user}:{secret}?"))));
        }
    }
}

#[test]
fn a_secret_percent_encoded_fails_the_test() {
    failure_after(|watch, secret| watch.text(format!("/?token={}", secret.replace('+', "%2B"))));
    failure_after(|watch, secret| {
        watch.text(secret.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>());
    });
}

#[test]
fn a_secret_in_hex_or_escaped_fails_the_test() {
    failure_after(|watch, secret| watch.text(secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()));
    let watch = Watch::new();
    watch.adopt("quoted", "pass\"word\n\u{1}with\\escapes");
    watch.text(format!("{:?}", "pass\"word\n\u{1}with\\escapes"));
    watch.text(serde_json::to_string("pass\"word\n\u{1}with\\escapes").unwrap());
    assert_eq!(watch.leaks().len(), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(watch))).is_err());
}

#[test]
fn half_a_secret_fails_the_test() {
    failure_after(|watch, secret| watch.text(secret.split('+').next().unwrap()));
}

#[test]
fn one_line_of_an_adopted_key_fails_the_test() {
    let key = crate::ca::Ca::new().client("jane").issue();
    let watch = Watch::new();
    watch.adopt("key", key.key_pem());
    watch.text(key.cert_pem());
    watch.text("-----BEGIN PRIVATE KEY-----");
    assert_eq!(watch.leaks(), [""; 0]);
    watch.text(key.key_pem().lines().nth(1).unwrap());
    assert_eq!(watch.leaks().len(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(watch))).is_err());
}

#[test]
fn a_failing_test_is_left_to_fail_for_its_own_reason() {
    let failure = catch_unwind(|| {
        let watch = Watch::new();
        let secret = watch.secret("token");
        tracing::info!("{}", secret.expose());
        panic!("its own reason");
    });
    assert_eq!(*failure.unwrap_err().downcast::<&str>().unwrap(), "its own reason");
}

#[test]
fn watches_do_not_see_each_others_secrets() {
    let (one, two) = (Watch::new(), Watch::new());
    let (a, b) = (one.secret("a"), two.secret("a"));
    assert_ne!(a, b);
    one.text(b.expose());
    assert_eq!(one.leaks(), [""; 0]);
}

#[test]
fn a_secret_is_safe_in_a_header() {
    let secret = Watch::new().secret("token");
    assert!(secret.expose().len() >= 24);
    let mut header = hyper::header::HeaderValue::from_str(secret.expose()).unwrap();
    header.set_sensitive(true);
}
