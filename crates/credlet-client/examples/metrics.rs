//! Prints what a scrape would get after an eventful hour, or with `--before` before anything happened.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use credlet_client::metrics::Metrics;
use credlet_core::{CallStatus, Clock, Event, Observer, SystemClock};

fn main() -> io::Result<()> {
    let clock = Arc::new(SystemClock::new());
    let metrics = Metrics::new(Arc::clone(&clock) as _);
    if std::env::args().nth(1).as_deref() != Some("--before") {
        for event in eventful_hour(&*clock) {
            metrics.observe(&event);
        }
    }
    io::stdout().write_all(metrics.encode().as_bytes())
}

/// One of everything that is counted. In a program the authenticator tells of these.
fn eventful_hour(clock: &dyn Clock) -> Vec<Event> {
    let hour = SignedDuration::from_hours(1);
    let not_after = clock.now().saturating_add(hour).unwrap_or(jiff::Timestamp::MAX);
    let called = |status, code, milliseconds| Event::Called { status, code, took: Duration::from_millis(milliseconds) };
    vec![
        Event::PolicyChecked { allowed: true },
        called(CallStatus::NoError, 0, 740),
        Event::CertificateHeld { holder: 1, not_after, replaced_age: None },
        Event::Hit,
        Event::PolicyChecked { allowed: true },
        called(CallStatus::PluginExecutionError, 10, 31),
        Event::BackedOff,
        called(CallStatus::PluginExecutionError, -1, 60_012),
        called(CallStatus::PluginNotFoundError, 1, 0),
        called(CallStatus::ClientInternalError, 1, 0),
        Event::CertificateHeld { holder: 1, not_after, replaced_age: Some(hour) },
        Event::PolicyChecked { allowed: false },
    ]
}
