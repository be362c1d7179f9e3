//! Log output of `-v`, to standard error or to the log file of a daemon.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use credlet_exec::{Clock as _, SystemClock};
use credlet_proxy::server::{ACCESS_LOG_TARGET, LogFile};
use tracing::field::{Field, Visit};
use tracing::metadata::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Installs the subscriber for standard error. Warnings are always logged, INFO from `-v 3`, DEBUG from `-v 5`, TRACE from `-v 7`.
pub(crate) fn install(verbosity: u8) {
    LineSubscriber { level: level(verbosity), file: None }.install();
}

/// Installs the subscriber for a daemon, which logs INFO events always and the access log from `-v 3`.
pub(crate) fn install_in(file: LogFile, verbosity: u8) {
    LineSubscriber { level: level(verbosity), file: Some(file) }.install();
}

fn level(verbosity: u8) -> Level {
    match verbosity {
        0..=2 => Level::WARN,
        3..=4 => Level::INFO,
        5..=6 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// Writes events of `credlet` targets as lines. Spans are ignored: the credlet crates do not use them.
struct LineSubscriber {
    level: Level,
    /// `None`: standard error.
    file: Option<LogFile>,
}

impl LineSubscriber {
    fn install(self) {
        // Fails only if a subscriber is installed already.
        let _ = tracing::subscriber::set_global_default(self);
    }
}

impl Subscriber for LineSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = match self.file {
            Some(_) if metadata.target() != ACCESS_LOG_TARGET => self.level.max(Level::INFO),
            _ => self.level,
        };
        metadata.is_event() && *metadata.level() <= level && metadata.target().starts_with("credlet")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.file.as_ref().map_or(self.level, |_| self.level.max(Level::INFO)).into())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = EventFields::default();
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let level = if level == "warn" { "warning" } else { &level };
        let text = credlet_api::escape_line(&format!("{level}: {}{}", line.message, line.fields));
        match &self.file {
            Some(file) => file.add(&format!("{:.3} {text}", SystemClock::new().now())),
            None => drop(writeln!(std::io::stderr().lock(), "{text}")),
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct EventFields {
    message: String,
    fields: String,
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
