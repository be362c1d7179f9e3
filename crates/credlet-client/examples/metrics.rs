//! Prints what a scrape would get after an eventful hour, or with `--before` before anything happened.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use credlet_client::metrics::CredentialMetrics;
use credlet_exec::{CallStatus, Clock, PluginEvent, PluginObserver, SystemClock};

fn main() -> io::Result<()> {
    let clock = Arc::new(SystemClock::new());
    let metrics = CredentialMetrics::new(Arc::clone(&clock) as _);
    if std::env::args().nth(1).as_deref() != Some("--before") {
        for event in eventful_hour(&*clock) {
            metrics.observe(&event);
        }
    }
    io::stdout().write_all(metrics.encode().as_bytes())
}

/// One of everything that is counted. In a program the authenticator tells of these.
fn eventful_hour(clock: &dyn Clock) -> Vec<PluginEvent> {
    let hour = SignedDuration::from_hours(1);
    let not_after = clock.now().saturating_add(hour).unwrap_or(jiff::Timestamp::MAX);
    let called =
        |status, code, milliseconds| PluginEvent::Called { status, code, took: Duration::from_millis(milliseconds) };
    vec![
        PluginEvent::PolicyChecked { allowed: true },
        called(CallStatus::NoError, 0, 740),
        PluginEvent::CertificateHeld { holder: 1, not_after, replaced_age: None },
        PluginEvent::Hit,
        PluginEvent::PolicyChecked { allowed: true },
        called(CallStatus::PluginExecutionError, 10, 31),
        PluginEvent::BackedOff,
        called(CallStatus::PluginExecutionError, -1, 60_012),
        called(CallStatus::PluginNotFoundError, 1, 0),
        called(CallStatus::ClientInternalError, 1, 0),
        PluginEvent::CertificateHeld { holder: 1, not_after, replaced_age: Some(hour) },
        PluginEvent::PolicyChecked { allowed: false },
    ]
}
