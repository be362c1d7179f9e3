use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

/// Time, given to whoever needs it.
///
/// There are two, and both are needed: expiry is a time of day, but the time of day can be set back by an hour, and a
/// back-off or a lifetime must not grow by that.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;

    /// A time that only ever goes forward, from an origin of its own.
    fn monotonic(&self) -> Duration;

    /// Whether it is not yet later than either of these: what every request asks of its credential.
    fn is_within(&self, wall: Timestamp, monotonic: Duration) -> bool {
        self.now() <= wall && self.monotonic() <= monotonic
    }

    /// Waits by the monotonic time.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's clock.
///
/// On Linux it is the coarse one, which the kernel keeps for such readers: a few milliseconds behind at most, and several
/// times cheaper to read, which is what a request with a fresh credential spends most of its time on.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SystemClock {}

impl SystemClock {
    /// The one clock that all have in common.
    pub fn new() -> Self {
        Self {}
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        machine::now()
    }

    fn monotonic(&self) -> Duration {
        machine::monotonic()
    }

    #[cfg(target_os = "linux")]
    fn is_within(&self, wall: Timestamp, monotonic: Duration) -> bool {
        machine::is_within(wall, monotonic)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The one place that reads the clock.
#[cfg(target_os = "linux")]
mod machine {
    use std::time::Duration;

    use jiff::Timestamp;
    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn now() -> Timestamp {
        let time = clock_gettime(ClockId::RealtimeCoarse);
        // A `Timestamp` holds 9,999 years either way, and the kernel fewer than 600; a part of a second fits an `i32`.
        Timestamp::new(time.tv_sec, time.tv_nsec as i32).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn monotonic() -> Duration {
        // Since the machine was started, so never negative.
        let time = clock_gettime(ClockId::MonotonicCoarse);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// As the kernel has them: making a `Timestamp` and a `Duration` first takes longer than reading the clocks.
    pub(super) fn is_within(wall: Timestamp, monotonic: Duration) -> bool {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let uptime = clock_gettime(ClockId::MonotonicCoarse);
        (now.tv_sec, now.tv_nsec) <= (wall.as_second(), wall.subsec_nanosecond().into())
            && (uptime.tv_sec as u64, uptime.tv_nsec as u32) <= (monotonic.as_secs(), monotonic.subsec_nanos())
    }
}

/// The one place that reads the clock.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
mod machine {
    use std::sync::LazyLock;
    use std::time::Duration;

    use jiff::Timestamp;

    pub(super) fn now() -> Timestamp {
        Timestamp::now()
    }

    pub(super) fn monotonic() -> Duration {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        ORIGIN.elapsed()
    }
}

/// A clock that stands still until it is told to go on: for tests.
///
/// ```
/// use std::time::Duration;
///
/// use credlet_core::{Clock, ManualClock};
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
    /// Stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { time: Arc::new(watch::Sender::new((now, Duration::ZERO))) }
    }

    /// Lets time pass, and wakes the sleepers whose time has come.
    pub fn advance(&self, duration: Duration) {
        self.time.send_modify(|(now, monotonic)| {
            *now = now.saturating_add(duration).unwrap_or(Timestamp::MAX);
            *monotonic += duration;
        });
    }

    /// Sets the time of day without letting time pass, as a person or NTP does.
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
        // The sender lives as long as the clock, so this ends only by reaching its time.
        Box::pin(async move { time.wait_for(|(_, monotonic)| *monotonic >= until).await.map(drop).unwrap_or_default() })
    }
}
