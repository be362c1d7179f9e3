//! What a scrape gets: rules 85 to 88 of the specification, and what we add.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use credlet_client::metrics::CredentialMetrics;
use credlet_exec::{CallStatus, Clock, ManualClock, PluginEvent, PluginObserver};
use jiff::{SignedDuration, Timestamp};

fn metrics() -> (CredentialMetrics, ManualClock) {
    let clock = ManualClock::new("2030-01-02T03:04:05Z".parse().unwrap());
    (CredentialMetrics::new(Arc::new(clock.clone())), clock)
}

fn called(status: CallStatus, code: i32, milliseconds: u64) -> PluginEvent {
    PluginEvent::Called { status, code, took: Duration::from_millis(milliseconds) }
}

fn held(holder: u64, not_after: Timestamp) -> PluginEvent {
    PluginEvent::CertificateHeld { holder, not_after, replaced_age: None }
}

fn replaced(holder: u64, not_after: Timestamp, age: SignedDuration) -> PluginEvent {
    PluginEvent::CertificateHeld { holder, not_after, replaced_age: Some(age) }
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// The samples of one metric, with any suffix.
fn samples(metrics: &CredentialMetrics, name: &str) -> Vec<String> {
    metrics.encode().lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

fn ttl(metrics: &CredentialMetrics) -> String {
    samples(metrics, "rest_client_exec_plugin_ttl_seconds")
        .concat()
        .split_off("rest_client_exec_plugin_ttl_seconds ".len())
}

const NOTHING_YET: &str = r#"# HELP credlet_credential_backoffs_total Number of times a caller was given the last error, because it was too soon to try for a credential again.
# TYPE credlet_credential_backoffs_total counter
credlet_credential_backoffs_total 0
# HELP credlet_credential_hits_total Number of requests that found their credential ready.
# TYPE credlet_credential_hits_total counter
credlet_credential_hits_total 0
# HELP credlet_exec_plugin_run_duration_seconds Histogram of the number of seconds an exec plugin ran, however it ended.
# TYPE credlet_exec_plugin_run_duration_seconds histogram
credlet_exec_plugin_run_duration_seconds_bucket{le="0.01"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.025"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.05"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.1"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.25"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.5"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="1"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="2.5"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="5"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="10"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="30"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="60"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="120"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="300"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="+Inf"} 0
credlet_exec_plugin_run_duration_seconds_sum 0
credlet_exec_plugin_run_duration_seconds_count 0
# HELP rest_client_exec_plugin_certificate_rotation_age [ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If auth exec plugin client certificates are unused, histogram will contain no data.
# TYPE rest_client_exec_plugin_certificate_rotation_age histogram
rest_client_exec_plugin_certificate_rotation_age_bucket{le="600"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="1800"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="3600"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="14400"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="86400"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="604800"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="2.592e+06"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="7.776e+06"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="1.5552e+07"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="3.1104e+07"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="1.24416e+08"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="+Inf"} 0
rest_client_exec_plugin_certificate_rotation_age_sum 0
rest_client_exec_plugin_certificate_rotation_age_count 0
# HELP rest_client_exec_plugin_ttl_seconds [ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS certificates, the value will be +INF.
# TYPE rest_client_exec_plugin_ttl_seconds gauge
rest_client_exec_plugin_ttl_seconds +Inf
"#;

const A_BUSY_DAY: &str = r#"# HELP credlet_credential_backoffs_total Number of times a caller was given the last error, because it was too soon to try for a credential again.
# TYPE credlet_credential_backoffs_total counter
credlet_credential_backoffs_total 2
# HELP credlet_credential_hits_total Number of requests that found their credential ready.
# TYPE credlet_credential_hits_total counter
credlet_credential_hits_total 3
# HELP credlet_exec_plugin_run_duration_seconds Histogram of the number of seconds an exec plugin ran, however it ended.
# TYPE credlet_exec_plugin_run_duration_seconds histogram
credlet_exec_plugin_run_duration_seconds_bucket{le="0.01"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.025"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.05"} 0
credlet_exec_plugin_run_duration_seconds_bucket{le="0.1"} 1
credlet_exec_plugin_run_duration_seconds_bucket{le="0.25"} 1
credlet_exec_plugin_run_duration_seconds_bucket{le="0.5"} 2
credlet_exec_plugin_run_duration_seconds_bucket{le="1"} 3
credlet_exec_plugin_run_duration_seconds_bucket{le="2.5"} 3
credlet_exec_plugin_run_duration_seconds_bucket{le="5"} 3
credlet_exec_plugin_run_duration_seconds_bucket{le="10"} 3
credlet_exec_plugin_run_duration_seconds_bucket{le="30"} 3
credlet_exec_plugin_run_duration_seconds_bucket{le="60"} 3
credlet_exec_plugin_run_duration_seconds_bucket{le="120"} 4
credlet_exec_plugin_run_duration_seconds_bucket{le="300"} 4
credlet_exec_plugin_run_duration_seconds_bucket{le="+Inf"} 4
credlet_exec_plugin_run_duration_seconds_sum 61.312
credlet_exec_plugin_run_duration_seconds_count 4
# HELP rest_client_exec_plugin_call_total [ALPHA] Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The exit code will be set to 0 if and only if the plugin call was successful.
# TYPE rest_client_exec_plugin_call_total counter
rest_client_exec_plugin_call_total{code="-1",call_status="plugin_execution_error"} 1
rest_client_exec_plugin_call_total{code="0",call_status="no_error"} 2
rest_client_exec_plugin_call_total{code="1",call_status="plugin_execution_error"} 1
rest_client_exec_plugin_call_total{code="1",call_status="plugin_not_found_error"} 1
# HELP rest_client_exec_plugin_certificate_rotation_age [ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If auth exec plugin client certificates are unused, histogram will contain no data.
# TYPE rest_client_exec_plugin_certificate_rotation_age histogram
rest_client_exec_plugin_certificate_rotation_age_bucket{le="600"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="1800"} 0
rest_client_exec_plugin_certificate_rotation_age_bucket{le="3600"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="14400"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="86400"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="604800"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="2.592e+06"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="7.776e+06"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="1.5552e+07"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="3.1104e+07"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="1.24416e+08"} 1
rest_client_exec_plugin_certificate_rotation_age_bucket{le="+Inf"} 1
rest_client_exec_plugin_certificate_rotation_age_sum 3564.25
rest_client_exec_plugin_certificate_rotation_age_count 1
# HELP rest_client_exec_plugin_policy_call_total [ALPHA] Number of comparisons of an exec plugin to the plugin policy and allowlist (if any), partitioned by whether or not the policy permits the plugin
# TYPE rest_client_exec_plugin_policy_call_total counter
rest_client_exec_plugin_policy_call_total{result="allowed"} 5
rest_client_exec_plugin_policy_call_total{result="denied"} 1
# HELP rest_client_exec_plugin_ttl_seconds [ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS certificates, the value will be +INF.
# TYPE rest_client_exec_plugin_ttl_seconds gauge
rest_client_exec_plugin_ttl_seconds 3599.5
"#;

#[test]
fn encodes_unlabelled_metrics_before_first_event() {
    assert_eq!(metrics().0.encode(), NOTHING_YET);
}

#[test]
fn encodes_every_event() {
    let (metrics, clock) = metrics();
    let start = clock.now();
    let allowed = PluginEvent::PolicyChecked { allowed: true };
    for event in [
        allowed,
        called(CallStatus::NoError, 0, 800),
        held(7, start + seconds(3600)),
        PluginEvent::Hit,
        PluginEvent::Hit,
        allowed,
        called(CallStatus::PluginExecutionError, 1, 400),
        PluginEvent::BackedOff,
        PluginEvent::BackedOff,
        allowed,
        called(CallStatus::PluginExecutionError, -1, 60_012),
        allowed,
        called(CallStatus::PluginNotFoundError, 1, 5),
        allowed,
        called(CallStatus::NoError, 0, 100),
        replaced(7, start + seconds(7200), SignedDuration::from_millis(3_564_250)),
        PluginEvent::Hit,
        PluginEvent::PolicyChecked { allowed: false },
    ] {
        metrics.observe(&event);
    }
    clock.advance(Duration::from_millis(3_600_500));
    assert_eq!(metrics.encode(), A_BUSY_DAY);
}

#[test]
fn ttl_is_of_first_certificate_to_expire() {
    let (metrics, clock) = metrics();
    let start = clock.now();
    metrics.observe(&held(1, start + seconds(3600)));
    metrics.observe(&held(2, start + seconds(600)));
    assert_eq!(ttl(&metrics), "600");
    clock.advance(Duration::from_millis(1500));
    assert_eq!(ttl(&metrics), "598.5");

    metrics.observe(&held(2, start + seconds(7200)));
    assert_eq!(ttl(&metrics), "3598.5");
}

#[test]
fn ttl_is_negative_after_expiry() {
    let (metrics, clock) = metrics();
    metrics.observe(&held(1, clock.now() + seconds(600)));
    clock.advance(Duration::from_secs(600));
    assert_eq!(ttl(&metrics), "0");
    clock.advance(Duration::from_millis(36_500));
    assert_eq!(ttl(&metrics), "-36.5");

    metrics.observe(&held(1, clock.now() + seconds(2_592_000)));
    assert_eq!(ttl(&metrics), "2.592e+06");
    // "No well-defined expiration date", by RFC 5280.
    metrics.observe(&held(1, "9999-12-30T22:00:00Z".parse().unwrap()));
    assert!(ttl(&metrics).ends_with("e+11"), "{}", ttl(&metrics));
}

#[test]
fn ttl_is_infinite_without_certificates() {
    let (metrics, clock) = metrics();
    metrics.observe(&held(1, clock.now() + seconds(600)));
    metrics.observe(&held(2, clock.now() + seconds(900)));
    metrics.observe(&PluginEvent::CertificateDropped { holder: 1 });
    assert_eq!(ttl(&metrics), "900");
    metrics.observe(&PluginEvent::CertificateDropped { holder: 2 });
    metrics.observe(&PluginEvent::CertificateDropped { holder: 3 });
    assert_eq!(ttl(&metrics), "+Inf");
}

#[test]
fn ttl_follows_wall_clock() {
    let (metrics, clock) = metrics();
    let start = clock.now();
    metrics.observe(&held(1, start + seconds(600)));
    clock.set(start + seconds(-3600));
    assert_eq!(ttl(&metrics), "4200");
}

#[test]
fn counts_only_replacements_as_rotations() {
    let (metrics, clock) = metrics();
    let name = "rest_client_exec_plugin_certificate_rotation_age_count";
    metrics.observe(&held(1, clock.now()));
    metrics.observe(&PluginEvent::CertificateDropped { holder: 1 });
    assert_eq!(samples(&metrics, name), [format!("{name} 0")]);
    metrics.observe(&replaced(1, clock.now(), seconds(5)));
    assert_eq!(samples(&metrics, name), [format!("{name} 1")]);
}

#[test]
fn rotation_age_buckets_are_inclusive() {
    let bounds: [i64; 11] =
        [600, 1800, 3600, 14400, 86400, 604_800, 2_592_000, 7_776_000, 15_552_000, 31_104_000, 124_416_000];
    for (at, bound) in bounds.into_iter().enumerate() {
        let counts = |age: SignedDuration| -> Vec<String> {
            let (metrics, clock) = metrics();
            metrics.observe(&replaced(1, clock.now(), age));
            let buckets = samples(&metrics, "rest_client_exec_plugin_certificate_rotation_age_bucket");
            buckets.iter().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
        };
        let expected = |from: usize| (0..12).map(|i| u8::from(i >= from).to_string()).collect::<Vec<_>>();
        assert_eq!(counts(seconds(bound)), expected(at), "{bound}");
        assert_eq!(counts(seconds(bound) + SignedDuration::from_millis(1)), expected(at + 1), "{bound}");
    }
}

#[test]
fn counts_calls_by_code_and_status() {
    let (metrics, _) = metrics();
    // The exit codes of client-go's own test, each twice (vector 145), then the other ways to fail (146).
    for _ in 0..2 {
        for code in [0, 1, 2, 0] {
            let status = if code == 0 { CallStatus::NoError } else { CallStatus::PluginExecutionError };
            metrics.observe(&called(status, code, 10));
        }
    }
    for _ in 0..3 {
        metrics.observe(&called(CallStatus::PluginNotFoundError, 1, 0));
    }
    metrics.observe(&called(CallStatus::ClientInternalError, 1, 0));
    metrics.observe(&called(CallStatus::PluginExecutionError, -1, 0));
    let name = "rest_client_exec_plugin_call_total";
    assert_eq!(
        samples(&metrics, name),
        [
            r#"{code="-1",call_status="plugin_execution_error"} 1"#,
            r#"{code="0",call_status="no_error"} 4"#,
            r#"{code="1",call_status="plugin_execution_error"} 2"#,
            r#"{code="1",call_status="plugin_not_found_error"} 3"#,
            r#"{code="1",call_status="client_internal_error"} 1"#,
            r#"{code="2",call_status="plugin_execution_error"} 2"#,
        ]
        .map(|rest| format!("{name}{rest}"))
    );
}

#[test]
fn counts_exec_proxy_errors() {
    let (metrics, _clock) = metrics();
    assert!(!metrics.encode().contains("client_exec_proxy_errors"));
    metrics.observe(&PluginEvent::ProxyFailed);
    assert_eq!(samples(&metrics, "client_exec_proxy_errors"), ["client_exec_proxy_errors 1"]);
}

#[test]
fn counts_exec_proxy_calls_separately() {
    let (metrics, _clock) = metrics();
    assert!(!metrics.encode().contains("with_proxy"));
    for (status, code) in [(CallStatus::NoError, 0), (CallStatus::PluginExecutionError, 3), (CallStatus::NoError, 0)] {
        metrics.observe(&PluginEvent::CalledForProxy { status, code });
    }
    assert_eq!(
        samples(&metrics, "rest_client_exec_plugin_with_proxy_call_total"),
        [
            r#"rest_client_exec_plugin_with_proxy_call_total{code="0",call_status="no_error"} 2"#,
            r#"rest_client_exec_plugin_with_proxy_call_total{code="3",call_status="plugin_execution_error"} 1"#,
        ]
    );
    // Runs are counted by another event.
    assert!(samples(&metrics, "rest_client_exec_plugin_call_total").is_empty());
}

#[test]
fn failed_start_has_no_duration() {
    let (metrics, _) = metrics();
    metrics.observe(&called(CallStatus::PluginNotFoundError, 1, 3));
    metrics.observe(&called(CallStatus::ClientInternalError, 1, 3));
    let name = "credlet_exec_plugin_run_duration_seconds_count";
    assert_eq!(samples(&metrics, name), [format!("{name} 0")]);
    metrics.observe(&called(CallStatus::PluginExecutionError, 1, 3));
    assert_eq!(samples(&metrics, name), [format!("{name} 1")]);
}

#[test]
fn policy_denial_is_not_a_call() {
    let (metrics, _) = metrics();
    let name = "rest_client_exec_plugin_policy_call_total";
    metrics.observe(&PluginEvent::PolicyChecked { allowed: false });
    assert_eq!(samples(&metrics, name), [format!(r#"{name}{{result="denied"}} 1"#)]);
    assert!(!metrics.encode().contains("rest_client_exec_plugin_call_total"));
    metrics.observe(&PluginEvent::PolicyChecked { allowed: true });
    let both = [r#"{result="allowed"} 1"#, r#"{result="denied"} 1"#];
    assert_eq!(samples(&metrics, name), both.map(|rest| format!("{name}{rest}")));
}

#[test]
fn concurrent_scrapes_are_consistent() {
    const THREADS: u64 = 16;
    const EACH: u64 = 2000;
    let (metrics, clock) = metrics();
    let not_after = clock.now() + seconds(60);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counting: Vec<_> = (0..THREADS)
            .map(|thread| {
                let metrics = &metrics;
                scope.spawn(move || {
                    for _ in 0..EACH {
                        metrics.observe(&PluginEvent::Hit);
                        metrics.observe(&PluginEvent::BackedOff);
                        metrics.observe(&PluginEvent::PolicyChecked { allowed: thread % 2 == 0 });
                        metrics.observe(&called(CallStatus::NoError, 0, 100));
                        metrics.observe(&replaced(thread, not_after, SignedDuration::from_millis(1100)));
                    }
                    metrics.observe(&PluginEvent::CertificateDropped { holder: thread });
                })
            })
            .collect();
        let scraping = scope.spawn(|| {
            loop {
                let last = done.load(Ordering::Relaxed);
                let name = "credlet_exec_plugin_run_duration_seconds";
                let lines = samples(&metrics, name);
                let value = |what: &str| -> f64 {
                    let line = lines.iter().find_map(|line| line.strip_prefix(&format!("{name}{what} ")));
                    line.unwrap().parse().unwrap()
                };
                let count = value("_count");
                assert_eq!(value(r#"_bucket{le="+Inf"}"#), count);
                assert_eq!((value("_sum") * 10.0).round(), count);
                if last {
                    break assert_eq!(count, (THREADS * EACH) as f64);
                }
            }
        });
        for thread in counting {
            thread.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        scraping.join().unwrap();
    });

    let text = metrics.encode();
    for line in [
        "credlet_credential_hits_total 32000",
        "credlet_credential_backoffs_total 32000",
        "credlet_exec_plugin_run_duration_seconds_sum 3200",
        "credlet_exec_plugin_run_duration_seconds_count 32000",
        r#"rest_client_exec_plugin_call_total{code="0",call_status="no_error"} 32000"#,
        "rest_client_exec_plugin_certificate_rotation_age_sum 35200",
        "rest_client_exec_plugin_certificate_rotation_age_count 32000",
        r#"rest_client_exec_plugin_policy_call_total{result="allowed"} 16000"#,
        r#"rest_client_exec_plugin_policy_call_total{result="denied"} 16000"#,
        "rest_client_exec_plugin_ttl_seconds +Inf",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn holds_no_lock_while_writing() {
    struct Counting<'a>(&'a CredentialMetrics);
    impl fmt::Write for Counting<'_> {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            self.0.observe(&called(CallStatus::NoError, 0, 1));
            self.0.observe(&replaced(1, Timestamp::MAX, seconds(1)));
            Ok(())
        }
    }
    let (metrics, _) = metrics();
    metrics.observe(&called(CallStatus::NoError, 0, 1));
    metrics.write_to(Counting(&metrics)).unwrap();
}

#[test]
fn propagates_write_errors() {
    struct Full;
    impl fmt::Write for Full {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            Err(fmt::Error)
        }
    }
    assert!(metrics().0.write_to(Full).is_err());
}
