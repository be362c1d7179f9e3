//! What there is to see of a proxy, for Prometheus.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use credlet_core::prometheus::Text;
use http::StatusCode;

/// What happened so far.
#[derive(Debug)]
pub(super) struct Metrics {
    /// By status code less 100: three digits are a few kilobytes, and no lock.
    requests: [AtomicU64; 900],
    in_flight: AtomicU64,
    upgraded: AtomicU64,
    refused: AtomicU64,
    forbidden: AtomicU64,
    /// When the last request ended, by the monotonic time in milliseconds.
    last_end: AtomicU64,
}

/// What is counted elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere {
    pub(super) leases: usize,
    pub(super) handshakes: u64,
    pub(super) signatures: u64,
}

impl Metrics {
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

    /// A request was answered so.
    pub(super) fn answered(&self, code: StatusCode) {
        let counter = usize::from(code.as_u16()).checked_sub(100).and_then(|index| self.requests.get(index));
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// A connection was refused because of who made it.
    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// A request was refused by a policy of the proxy's own.
    pub(super) fn forbidden(&self) {
        self.forbidden.fetch_add(1, Relaxed);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.iter().map(|counter| counter.load(Relaxed)).sum()
    }

    /// Requests whose answer has not ended, and upgraded connections.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    pub(super) fn last_end(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.last_end.load(Relaxed))
    }

    pub(super) fn encode(&self, elsewhere: Elsewhere) -> String {
        let mut out = String::new();
        // A String takes whatever it is given.
        let _ = self.write(&mut Text::new(&mut out), elsewhere);
        out
    }

    fn write(&self, text: &mut Text<impl fmt::Write>, elsewhere: Elsewhere) -> fmt::Result {
        let gauge = |counter: &AtomicU64| counter.load(Relaxed) as f64;
        let leases = elsewhere.leases as f64;
        text.gauge("credlet_proxy_leases", "Number of clients that hold on to the proxy.", &[], leases)?;
        text.gauge(
            "credlet_proxy_open_streams",
            "Number of requests whose answer has not ended, watches and upgraded connections among them.",
            &[],
            gauge(&self.in_flight),
        )?;
        text.counter(
            "credlet_proxy_policy_refusals_total",
            "Number of requests that a policy of the proxy's own refused.",
            self.forbidden.load(Relaxed),
        )?;
        text.counter(
            "credlet_proxy_refused_connections_total",
            "Number of connections that were refused because of who made them.",
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
            "Number of signatures that the signer says its key has made.",
            elsewhere.signatures,
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
            elsewhere.handshakes,
        )
    }
}

/// One thing in flight, until this is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    metrics: Arc<Metrics>,
    clock: Arc<dyn credlet_core::Clock>,
    upgraded: bool,
}

impl InFlight {
    pub(super) fn begin(metrics: &Arc<Metrics>, clock: &Arc<dyn credlet_core::Clock>) -> Self {
        metrics.in_flight.fetch_add(1, Relaxed);
        Self { metrics: Arc::clone(metrics), clock: Arc::clone(clock), upgraded: false }
    }

    pub(super) fn upgrade(&mut self) {
        if !std::mem::replace(&mut self.upgraded, true) {
            self.metrics.upgraded.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for InFlight {
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
    use credlet_core::SystemClock;

    use super::*;

    #[test]
    fn a_scrape_shows_what_happened() {
        let metrics = Metrics::new();
        let clock: Arc<dyn credlet_core::Clock> = Arc::new(SystemClock::new());
        metrics.answered(StatusCode::OK);
        metrics.answered(StatusCode::OK);
        metrics.answered(StatusCode::BAD_GATEWAY);
        let mut exec = InFlight::begin(&metrics, &clock);
        exec.upgrade();
        drop(InFlight::begin(&metrics, &clock));
        let text = metrics.encode(Elsewhere { leases: 3, handshakes: 4, signatures: 5 });
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
