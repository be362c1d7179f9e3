//! Prometheus metrics of image credential providers.
//!
//! Metrics with the prefix `kubelet_` have names, labels, buckets and help texts of the kubelet. The prefix `credlet_` adds outcomes
//! of runs, cache hits and backoffs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use credlet_exec::prometheus::{Histogram, TextWriter};
use jiff::SignedDuration;

/// The kubelet's buckets, in seconds.
const KUBELET_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Like the kubelet's, extended to the default timeout of 60 s.
const RUN_BUCKETS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Metrics of all providers.
#[derive(Debug, Default)]
pub struct ImageProviderMetrics {
    plugins: Mutex<BTreeMap<String, Arc<ProviderCounters>>>,
    config_hash: Mutex<Option<String>>,
}

/// Counters of one provider.
#[derive(Debug)]
pub(crate) struct ProviderCounters {
    errors: AtomicU64,
    duration: Histogram,
    run_duration: Histogram,
    outcomes: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) back_offs: AtomicU64,
}

impl ProviderCounters {
    fn new() -> Self {
        Self {
            errors: AtomicU64::new(0),
            duration: Histogram::new(&KUBELET_BUCKETS),
            run_duration: Histogram::new(&RUN_BUCKETS),
            outcomes: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            back_offs: AtomicU64::new(0),
        }
    }

    /// Records the duration of a run. As in the kubelet, `failed` covers errors of the process only, not invalid responses.
    pub(crate) fn executed(&self, took: Duration, failed: bool) {
        let took = SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX);
        self.duration.observe(took);
        self.run_duration.observe(took);
        if failed {
            add_one(&self.errors);
        }
    }

    pub(crate) fn completed(&self, outcome: &'static str) {
        *lock(&self.outcomes).entry(outcome).or_default() += 1;
    }
}

pub(crate) fn add_one(counter: &AtomicU64) {
    // Relaxed: no other memory access depends on the count.
    counter.fetch_add(1, Ordering::Relaxed);
}

impl ImageProviderMetrics {
    /// Media type of [`encode`](Self::encode).
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    pub(crate) fn plugin(&self, name: &str) -> Arc<ProviderCounters> {
        let mut plugins = lock(&self.plugins);
        let counts = plugins.entry(name.to_owned()).or_insert_with(|| Arc::new(ProviderCounters::new()));
        Arc::clone(counts)
    }

    pub(crate) fn applied(&self, hash: &str) {
        *lock(&self.config_hash) = Some(hash.to_owned());
    }

    /// Returns all metrics in Prometheus' text format 0.0.4.
    pub fn encode(&self) -> String {
        let mut body = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write_to(&mut body);
        body
    }

    fn write_to(&self, out: impl fmt::Write) -> fmt::Result {
        let plugins: Vec<_> =
            lock(&self.plugins).iter().map(|(name, counts)| (name.clone(), Arc::clone(counts))).collect();
        let ran: Vec<_> = plugins
            .iter()
            .map(|(name, counts)| (name, counts, counts.duration.snapshot()))
            .filter(|(_, _, duration)| duration.count > 0)
            .collect();
        let mut text = TextWriter::new(out);
        write_counts(
            &mut text,
            "credlet_image_provider_backoffs_total",
            "Number of times the last error was given again, because it was too soon to run the provider again.",
            plugins.iter().map(|(name, counts)| (vec![("plugin_name", &**name)], load(&counts.back_offs))),
        )?;
        let lookups = plugins.iter().flat_map(|(name, counts)| {
            let results = [("hit", load(&counts.hits)), ("miss", load(&counts.misses))];
            results.map(|(result, count)| (vec![("plugin_name", &**name), ("result", result)], count))
        });
        write_counts(
            &mut text,
            "credlet_image_provider_lookups_total",
            "Number of times an answer of the provider was wanted, by whether it was remembered.",
            lookups,
        )?;
        if !ran.is_empty() {
            let name = "credlet_image_provider_run_duration_seconds";
            text.histograms(name, "Histogram of the number of seconds the provider ran, however it ended.")?;
            for (plugin, counts, _) in &ran {
                text.distribution(name, &[("plugin_name", plugin)], &counts.run_duration.snapshot())?;
            }
        }
        let outcomes = plugins.iter().flat_map(|(name, counts)| {
            let outcomes = lock(&counts.outcomes).clone();
            outcomes
                .into_iter()
                .map(move |(outcome, count)| (vec![("plugin_name", &**name), ("outcome", outcome)], count))
        });
        let help = "Number of times the provider was asked, by how that ended.";
        write_counts(&mut text, "credlet_image_provider_runs_total", help, outcomes)?;
        if let Some(hash) = &*lock(&self.config_hash) {
            text.gauge(
                "kubelet_credential_provider_config_info",
                "[ALPHA] Information about the last applied credential provider configuration with hash as label",
                &[("hash", hash)],
                1.0,
            )?;
        }
        if !ran.is_empty() {
            let name = "kubelet_credential_provider_plugin_duration";
            text.histograms(name, "[ALPHA] Duration of execution in seconds for credential provider plugin")?;
            for (plugin, _, duration) in &ran {
                text.distribution(name, &[("plugin_name", plugin)], duration)?;
            }
        }
        write_counts(
            &mut text,
            "kubelet_credential_provider_plugin_errors_total",
            "[ALPHA] Number of errors from credential provider plugin",
            plugins.iter().map(|(name, counts)| (vec![("plugin_name", &**name)], load(&counts.errors))),
        )
    }
}

/// Writes the counters that are not zero; as in Go, others are not exported.
fn write_counts<'a, W: fmt::Write>(
    text: &mut TextWriter<W>,
    name: &str,
    help: &str,
    counts: impl Iterator<Item = (Vec<(&'a str, &'a str)>, u64)>,
) -> fmt::Result {
    let mut headed = false;
    for (labels, count) in counts.filter(|(_, count)| *count > 0) {
        if !headed {
            text.counters(name, help)?;
            headed = true;
        }
        text.count(name, &labels, count)?;
    }
    Ok(())
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
