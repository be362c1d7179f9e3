//! Prometheus metrics of exec plugins and credentials.
//!
//! Metrics with the prefix `rest_client_` have names, labels, buckets and help texts of Kubernetes' own programs, so that
//! existing dashboards and alerts work unchanged. The prefix `credlet_` adds what those lack: duration of plugin runs, cache
//! hits, and errors returned during backoff. `docs/alerts.yaml` has alert rules for both.
//!
//! ```
//! use std::sync::Arc;
//!
//! use credlet_client::metrics::CredentialMetrics;
//! use credlet_exec::Platform;
//!
//! let mut platform = Platform::system();
//! let metrics = Arc::new(CredentialMetrics::new(Arc::clone(&platform.clock)));
//! platform.observer = Arc::clone(&metrics) as _;
//!
//! // Everything that is built with this platform is counted. The response to a scrape:
//! let body = metrics.encode();
//! assert!(body.ends_with("rest_client_exec_plugin_ttl_seconds +Inf\n"));
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use credlet_exec::prometheus::{Histogram, TextWriter};
use credlet_exec::{CallStatus, Clock, PluginEvent, PluginObserver};

/// Observer that counts events and encodes them in Prometheus' text format.
///
/// A cache hit costs one atomic addition; events that take a lock happen a few times per hour. There is no global registry:
/// set it as the observer of each [`Platform`](credlet_exec::Platform) to count, and return [`encode`](Self::encode) to scrapes.
#[derive(Debug)]
pub struct CredentialMetrics {
    clock: Arc<dyn Clock>,
    /// Expiry of the certificate of each holder.
    certificates: Mutex<BTreeMap<u64, Timestamp>>,
    rotation_age: Histogram,
    calls: CallCounts,
    calls_for_proxies: CallCounts,
    proxy_errors: AtomicU64,
    policy_allowed: AtomicU64,
    policy_denied: AtomicU64,
    run_duration: Histogram,
    hits: AtomicU64,
    back_offs: AtomicU64,
}

impl CredentialMetrics {
    /// Media type of [`encode`](Self::encode), for the header `Content-Type`.
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Creates metrics with all counters at zero. The clock determines the remaining lifetime of certificates.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            certificates: Mutex::default(),
            rotation_age: Histogram::new(&ROTATION_AGE_BUCKETS),
            calls: CallCounts::default(),
            calls_for_proxies: CallCounts::default(),
            proxy_errors: AtomicU64::new(0),
            policy_allowed: AtomicU64::new(0),
            policy_denied: AtomicU64::new(0),
            run_duration: Histogram::new(&RUN_DURATION_BUCKETS),
            hits: AtomicU64::new(0),
            back_offs: AtomicU64::new(0),
        }
    }

    /// Returns all metrics in Prometheus' text format 0.0.4.
    pub fn encode(&self) -> String {
        let mut body = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write_to(&mut body);
        body
    }

    /// Writes the output of [`encode`](Self::encode). No lock is held while `out` is written to.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write_to(&self, out: impl fmt::Write) -> fmt::Result {
        let mut text = TextWriter::new(out);
        // Sorted by name, like Go's registry.
        if load(&self.proxy_errors) > 0 {
            text.counter(
                "client_exec_proxy_errors",
                "[ALPHA] Number of times a client exec proxy could not be used: it could not be reached, its listener or \
                 certificate was not what it should be, or the plugin's answer was wrong.",
                load(&self.proxy_errors),
            )?;
        }
        text.counter(
            "credlet_credential_backoffs_total",
            "Number of times a caller was given the last error, because it was too soon to try for a credential again.",
            load(&self.back_offs),
        )?;
        text.counter(
            "credlet_credential_hits_total",
            "Number of requests that found their credential ready.",
            load(&self.hits),
        )?;
        text.histogram(
            "credlet_exec_plugin_run_duration_seconds",
            "Histogram of the number of seconds an exec plugin ran, however it ended.",
            &self.run_duration.snapshot(),
        )?;
        write_calls(
            &mut text,
            "rest_client_exec_plugin_call_total",
            "[ALPHA] Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, \
             plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The \
             exit code will be set to 0 if and only if the plugin call was successful.",
            &self.calls,
        )?;
        text.histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "[ALPHA] Histogram of the number of seconds the last auth exec plugin client certificate lived before \
             being rotated. If auth exec plugin client certificates are unused, histogram will contain no data.",
            &self.rotation_age.snapshot(),
        )?;
        self.write_policy_calls(&mut text)?;
        text.gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec \
             plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec \
             plugins are unused or manage no TLS certificates, the value will be +INF.",
            &[],
            self.shortest_ttl(),
        )?;
        write_calls(
            &mut text,
            "rest_client_exec_plugin_with_proxy_call_total",
            "[ALPHA] Number of calls to an exec plugin that runs a client exec proxy, partitioned by the type of \
             event encountered (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and \
             an optional exit code. The exit code will be set to 0 if and only if the plugin call was successful.",
            &self.calls_for_proxies,
        )
    }

    /// client-go declares this counter with two labels but sets one value, so that it is never exported. The label `result` is
    /// credlet's.
    fn write_policy_calls(&self, text: &mut TextWriter<impl fmt::Write>) -> fmt::Result {
        const NAME: &str = "rest_client_exec_plugin_policy_call_total";
        let results = [("allowed", load(&self.policy_allowed)), ("denied", load(&self.policy_denied))];
        if results.iter().all(|(_, count)| *count == 0) {
            return Ok(());
        }
        text.counters(
            NAME,
            "[ALPHA] Number of comparisons of an exec plugin to the plugin policy and allowlist (if any), partitioned \
             by whether or not the policy permits the plugin",
        )?;
        for (result, count) in results.into_iter().filter(|(_, count)| *count > 0) {
            text.count(NAME, &[("result", result)], count)?;
        }
        Ok(())
    }

    fn shortest_ttl(&self) -> f64 {
        let first = lock(&self.certificates).values().min().copied();
        first.map_or(f64::INFINITY, |not_after| not_after.duration_since(self.clock.now()).as_secs_f64())
    }
}

impl PluginObserver for CredentialMetrics {
    fn observe(&self, event: &PluginEvent) {
        match *event {
            PluginEvent::PolicyChecked { allowed: true } => add_one(&self.policy_allowed),
            PluginEvent::PolicyChecked { allowed: false } => add_one(&self.policy_denied),
            PluginEvent::Called { status, code, took } => {
                count(&self.calls, code, status);
                if has_run(status) {
                    self.run_duration.observe(SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX));
                }
            }
            PluginEvent::CalledForProxy { status, code } => count(&self.calls_for_proxies, code, status),
            PluginEvent::ProxyFailed => add_one(&self.proxy_errors),
            PluginEvent::BackedOff => add_one(&self.back_offs),
            PluginEvent::Hit => add_one(&self.hits),
            PluginEvent::CertificateHeld { holder, not_after, replaced_age } => {
                lock(&self.certificates).insert(holder, not_after);
                if let Some(age) = replaced_age {
                    self.rotation_age.observe(age);
                }
            }
            PluginEvent::CertificateDropped { holder } => {
                lock(&self.certificates).remove(&holder);
            }
            // Other events are not counted here.
            _ => {}
        }
    }
}

/// Number of calls by exit code and status.
type CallCounts = Mutex<BTreeMap<(i32, CallStatus), u64>>;

fn count(calls: &CallCounts, code: i32, status: CallStatus) {
    *lock(calls).entry((code, status)).or_default() += 1;
}

fn write_calls(text: &mut TextWriter<impl fmt::Write>, name: &str, help: &str, calls: &CallCounts) -> fmt::Result {
    let calls = lock(calls).clone();
    if calls.is_empty() {
        return Ok(());
    }
    text.counters(name, help)?;
    for ((code, status), count) in calls {
        text.count(name, &[("code", &code.to_string()), ("call_status", status.as_str())], count)?;
    }
    Ok(())
}

/// Buckets of client-go, in seconds.
const ROTATION_AGE_BUCKETS: [f64; 11] = [
    600.0,         // 10 minutes
    1_800.0,       // 30 minutes
    3_600.0,       // 1 hour
    14_400.0,      // 4 hours
    86_400.0,      // 1 day
    604_800.0,     // 1 week
    2_592_000.0,   // 1 month
    7_776_000.0,   // 3 months
    15_552_000.0,  // 6 months
    31_104_000.0,  // 1 year
    124_416_000.0, // 4 years
];

/// Buckets in seconds. A plugin with a cache takes about 10 ms, one that calls a cloud some seconds. 60 s and 300 s are the
/// default timeouts of plugins without and with a terminal.
const RUN_DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Whether a process was started. Failed starts would distort the histogram.
fn has_run(status: CallStatus) -> bool {
    matches!(status, CallStatus::NoError | CallStatus::PluginExecutionError)
}

fn add_one(counter: &AtomicU64) {
    // Relaxed: no other memory access depends on the count.
    counter.fetch_add(1, Ordering::Relaxed);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
