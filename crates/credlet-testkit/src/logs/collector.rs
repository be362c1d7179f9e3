//! Collects every log line and panic message of the process.

use std::error::Error;
use std::fmt::{self, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Installs the collector as the global subscriber, once.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let installed = tracing::subscriber::set_global_default(Collector { spans: AtomicU64::new(1) });
        assert!(installed.is_ok(), "the log check must be the only global tracing subscriber of a test binary");
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Location and message. The check masks secrets in its own panic message.
            let line = format!("panic {info}");
            lines().push(line);
            former(info);
        }));
    });
}

pub(super) fn len() -> usize {
    lines().len()
}

pub(super) fn since(first: usize) -> Vec<String> {
    lines()[first..].to_vec()
}

fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records all fields and spans of each event; formatters of tracing-subscriber omit some.
struct Collector {
    spans: AtomicU64,
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::new("span", span.metadata());
        span.record(&mut line);
        line.keep();
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut line = Line(format!("span {}", span.into_u64()));
        values.record(&mut line);
        line.keep();
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::new("event", event.metadata());
        event.record(&mut line);
        line.keep();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Line {
    fn new(kind: &str, metadata: &Metadata<'_>) -> Self {
        Self(format!("{kind} {} {} {}", metadata.level(), metadata.target(), metadata.name()))
    }

    /// The values are formatted before the lock is taken: formatting may log.
    fn keep(self) {
        lines().push(self.0);
    }

    fn field(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let _ = write!(self.0, " {field}={value}");
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, format_args!("{value:?}"));
    }

    /// Unescaped, unlike `Debug`.
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, format_args!("{value}"));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.field(field, format_args!("{value:?} {}", String::from_utf8_lossy(value)));
    }

    /// A subscriber may print the whole source chain, so all of it counts as logged.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut cause = Some(value);
        while let Some(error) = cause {
            self.field(field, format_args!("{error} {error:?}"));
            cause = error.source();
        }
    }
}
