//! `-v`: what the libraries say of their work, on standard error or in a daemon's file.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use credlet_core::{Clock as _, SystemClock};
use credlet_proxy::server::{ACCESS, LogFile};
use tracing::field::{Field, Visit};
use tracing::metadata::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Warnings always; `-v 3` and `-v 4` what happens, `-v 5` and `-v 6` how, `-v 7` and more every step.
pub(crate) fn install(verbosity: u8) {
    Lines { level: level(verbosity), file: None }.install();
}

/// The same for a daemon, which nobody watches: what happens always, and each request with `-v 3`.
pub(crate) fn install_in(file: LogFile, verbosity: u8) {
    Lines { level: level(verbosity), file: Some(file) }.install();
}

fn level(verbosity: u8) -> Level {
    match verbosity {
        0..=2 => Level::WARN,
        3..=4 => Level::INFO,
        5..=6 => Level::DEBUG,
        _ => Level::TRACE,
    }
}

/// Writes our own events as lines. Spans are not used by our libraries; those of others are not ours to show.
struct Lines {
    level: Level,
    /// `None`: standard error.
    file: Option<LogFile>,
}

impl Lines {
    fn install(self) {
        // An error would mean that there is one already, which is as good.
        let _ = tracing::subscriber::set_global_default(self);
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = match self.file {
            Some(_) if metadata.target() != ACCESS => self.level.max(Level::INFO),
            _ => self.level,
        };
        metadata.is_event() && *metadata.level() <= level && metadata.target().starts_with("credlet")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.file.as_ref().map_or(self.level, |_| self.level.max(Level::INFO)).into())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let level = if level == "warn" { "warning" } else { &level };
        let text = credlet_api::visible(&format!("{level}: {}{}", line.message, line.fields));
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
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
