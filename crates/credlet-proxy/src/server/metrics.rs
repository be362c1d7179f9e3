//! Prometheus metrics of a proxy.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use credlet_exec::prometheus::TextWriter;
use http::StatusCode;

/// Counters of a proxy.
#[derive(Debug)]
pub(super) struct ProxyMetrics {
    /// Indexed by status code minus 100: a few kilobytes and no lock.
    requests: [AtomicU64; 900],
    in_flight: AtomicU64,
    upgraded: AtomicU64,
    refused: AtomicU64,
    forbidden: AtomicU64,
    /// End of the last request, in milliseconds on the monotonic clock.
    last_end: AtomicU64,
}

/// Values that other components count.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalCounts {
    pub(super) leases: usize,
    pub(super) handshakes: u64,
    pub(super) signatures: u64,
}

impl ProxyMetrics {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            requests: [const { AtomicU64::new(0) }; 900],
            in_flight: AtomicU64::new(0),
            upgraded: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            forbidden: AtomicU64::new(0),
            last_end: AtomicU64::new(0),
        })
    }

    /// Counts a response.
    pub(super) fn record_response(&self, code: StatusCode) {
        let counter = usize::from(code.as_u16()).checked_sub(100).and_then(|index| self.requests.get(index));
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Counts a connection that was rejected because of its user.
    pub(super) fn record_rejected_connection(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Counts a request that a policy rejected.
    pub(super) fn record_forbidden(&self) {
        self.forbidden.fetch_add(1, Relaxed);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.iter().map(|counter| counter.load(Relaxed)).sum()
    }

    /// Number of requests in flight and upgraded connections.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub(super) fn last_end(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.last_end.load(Relaxed))
    }

    pub(super) fn encode(&self, external_counts: ExternalCounts) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut TextWriter::new(&mut out), external_counts);
        out
    }

    fn write(&self, text: &mut TextWriter<impl fmt::Write>, external_counts: ExternalCounts) -> fmt::Result {
        let gauge = |counter: &AtomicU64| counter.load(Relaxed) as f64;
        let leases = external_counts.leases as f64;
        text.gauge("credlet_proxy_leases", "Number of clients that hold a lease.", &[], leases)?;
        text.gauge(
            "credlet_proxy_open_streams",
            "Number of requests in flight, including watches and upgraded connections.",
            &[],
            gauge(&self.in_flight),
        )?;
        text.counter(
            "credlet_proxy_policy_refusals_total",
            "Number of requests rejected by a policy of the proxy.",
            self.forbidden.load(Relaxed),
        )?;
        text.counter(
            "credlet_proxy_refused_connections_total",
            "Number of connections rejected because of their user.",
            self.refused.load(Relaxed),
        )?;
        const REQUESTS: &str = "credlet_proxy_requests_total";
        text.counters(REQUESTS, "Number of requests, by status code.")?;
        for (code, counter) in (100u16..).zip(&self.requests) {
            match counter.load(Relaxed) {
                0 => {}
                count => text.count(REQUESTS, &[("code", &code.to_string())], count)?,
            }
        }
        text.counter(
            "credlet_proxy_signatures_total",
            "Number of signatures made with the signer's key.",
            external_counts.signatures,
        )?;
        text.gauge(
            "credlet_proxy_upgraded_connections",
            "Number of upgraded connections: exec, attach, port-forward.",
            &[],
            gauge(&self.upgraded),
        )?;
        text.counter(
            "credlet_proxy_upstream_handshakes_total",
            "Number of connections made to the API server.",
            external_counts.handshakes,
        )
    }
}

/// Counts a request or connection as in flight until drop.
#[derive(Debug)]
pub(super) struct InFlightGuard {
    metrics: Arc<ProxyMetrics>,
    clock: Arc<dyn credlet_exec::Clock>,
    upgraded: bool,
}

impl InFlightGuard {
    pub(super) fn begin(metrics: &Arc<ProxyMetrics>, clock: &Arc<dyn credlet_exec::Clock>) -> Self {
        metrics.in_flight.fetch_add(1, Relaxed);
        Self { metrics: Arc::clone(metrics), clock: Arc::clone(clock), upgraded: false }
    }

    pub(super) fn upgrade(&mut self) {
        if !std::mem::replace(&mut self.upgraded, true) {
            self.metrics.upgraded.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let now = u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        self.metrics.last_end.store(now, Relaxed);
        if self.upgraded {
            self.metrics.upgraded.fetch_sub(1, Relaxed);
        }
        self.metrics.in_flight.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use credlet_exec::SystemClock;

    use super::*;

    #[test]
    fn encodes_all_metrics() {
        let metrics = ProxyMetrics::new();
        let clock: Arc<dyn credlet_exec::Clock> = Arc::new(SystemClock::new());
        metrics.record_response(StatusCode::OK);
        metrics.record_response(StatusCode::OK);
        metrics.record_response(StatusCode::BAD_GATEWAY);
        let mut exec = InFlightGuard::begin(&metrics, &clock);
        exec.upgrade();
        drop(InFlightGuard::begin(&metrics, &clock));
        let text = metrics.encode(ExternalCounts { leases: 3, handshakes: 4, signatures: 5 });
        for line in [
            "credlet_proxy_requests_total{code=\"200\"} 2",
            "credlet_proxy_requests_total{code=\"502\"} 1",
            "credlet_proxy_open_streams 1",
            "credlet_proxy_upgraded_connections 1",
            "credlet_proxy_leases 3",
            "credlet_proxy_upstream_handshakes_total 4",
            "credlet_proxy_signatures_total 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        drop(exec);
        assert_eq!(metrics.in_flight(), 0);
        assert_eq!(metrics.requests(), 3);
    }
}
