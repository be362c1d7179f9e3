use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// Wall clock and monotonic clock.
///
/// Expiry is a wall-clock time. Backoff and lifetimes are measured on the monotonic clock as well, because the wall clock can
/// be set back.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the wall-clock time.
    fn now(&self) -> Timestamp;

    /// Returns the time since an arbitrary origin. Never decreases.
    fn monotonic(&self) -> Duration;

    /// Whether neither `wall` nor `monotonic` has passed. Called for the credential of every request.
    fn is_within(&self, wall: Timestamp, monotonic: Duration) -> bool {
        self.now() <= wall && self.monotonic() <= monotonic
    }

    /// Waits for `duration` on the monotonic clock.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The operating system's clocks.
///
/// On Linux these are the coarse clocks, which are a few milliseconds behind at most and several times cheaper to read.
/// Reading the clock dominates the cost of a cached credential.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock {}

impl SystemClock {
    /// Creates a handle; all handles read the same clocks.
    pub fn new() -> Self {
        Self {}
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        os_clock::now()
    }

    fn monotonic(&self) -> Duration {
        os_clock::monotonic()
    }

    #[cfg(target_os = "linux")]
    fn is_within(&self, wall: Timestamp, monotonic: Duration) -> bool {
        os_clock::is_within(wall, monotonic)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[cfg(target_os = "linux")]
mod os_clock {
    use std::time::Duration;

    use jiff::Timestamp;
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn now() -> Timestamp {
        let time = clock_gettime(ClockId::RealtimeCoarse);
        // `tv_nsec` is below 1e9 and fits an `i32`. The range of `Timestamp` exceeds that of the kernel.
        Timestamp::new(time.tv_sec, time.tv_nsec as i32).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn monotonic() -> Duration {
        // Time since boot, so never negative.
        let time = clock_gettime(ClockId::MonotonicCoarse);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Compares `timespec` values: conversion to `Timestamp` and `Duration` takes longer than reading the clocks.
    pub(super) fn is_within(wall: Timestamp, monotonic: Duration) -> bool {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let uptime = clock_gettime(ClockId::MonotonicCoarse);
        (now.tv_sec, now.tv_nsec) <= (wall.as_second(), wall.subsec_nanosecond().into())
            && (uptime.tv_sec as u64, uptime.tv_nsec as u32) <= (monotonic.as_secs(), monotonic.subsec_nanos())
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this module reads the clock")]
mod os_clock {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use jiff::Timestamp;

    pub(super) fn now() -> Timestamp {
        Timestamp::now()
    }

    pub(super) fn monotonic() -> Duration {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        ORIGIN.elapsed()
    }
}

/// A clock that advances only when told to, for tests.
///
/// ```
/// use std::time::Duration;
///
/// use credlet_platform::{Clock, ManualClock};
///
/// let clock = ManualClock::new("2030-01-02T03:04:05Z".parse().unwrap());
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.now().to_string(), "2030-01-02T03:04:10Z");
/// assert_eq!(clock.monotonic(), Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    time: Arc<watch::Sender<(Timestamp, Duration)>>,
}

impl ManualClock {
    /// Creates a clock at wall-clock time `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { time: Arc::new(watch::Sender::new((now, Duration::ZERO))) }
    }

    /// Advances both clocks and wakes sleepers that are due.
    pub fn advance(&self, duration: Duration) {
        self.time.send_modify(|(now, monotonic)| {
            *now = now.saturating_add(duration).unwrap_or(Timestamp::MAX);
            *monotonic += duration;
        });
    }

    /// Sets the wall clock without advancing the monotonic clock, as NTP may do.
    pub fn set(&self, to: Timestamp) {
        self.time.send_modify(|(now, _)| *now = to);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.time.borrow().0
    }

    fn monotonic(&self) -> Duration {
        self.time.borrow().1
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = self.monotonic() + duration;
        let mut time = self.time.subscribe();
        // Cannot fail: the future borrows the clock, which owns the sender.
        Box::pin(async move { time.wait_for(|(_, monotonic)| *monotonic >= until).await.map(drop).unwrap_or_default() })
    }
}
