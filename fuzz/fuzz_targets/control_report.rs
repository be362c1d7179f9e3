//! The status report of a proxy.

#![no_main]

use credlet_proxy::server::StatusReport;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(report) = text.parse::<StatusReport>() else { return };
    // The displayed report is escaped and parses to the same report.
    let shown = report.to_string();
    let again: StatusReport = shown.parse().expect("our own text");
    assert_eq!(again.to_string(), shown);
});
