//! Who was served how often.
//!
//! A client whose credential was refused runs the plugin again and does not say why. Most run it once or twice in all
//! (Google's dispatcher runs it twice for every command), so the third call of one process for a credential that has not
//! expired means that the server refused it. Calls that run side by side are no such sign: whoever began before the last
//! one was served cannot have been refused what that one got.

use std::os::unix::fs::FileExt as _;

use jiff::Timestamp;

use crate::store::{Store, StoreError};

/// The call that means a refusal.
const REFUSED: u32 = 3;

/// A process that makes many clients calls often without having been refused: one run for it in this time.
const PATIENCE_MS: i64 = 30_000;

/// Processes share places; the one that came last has it, and the other begins to count anew.
const PLACES: u64 = 64;

/// What is kept of one process: its number, its calls, when it began, which entry it was served, when it last caused a
/// run, when it was last served; the first and the last time in ticks, the others in milliseconds.
const PLACE: usize = 40;

/// A process, told from a later one of the same number by when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pid: u32,
    started: u64,
}

impl Caller {
    /// The process that started us.
    pub(crate) fn parent() -> Self {
        let pid = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        Self { pid, started: started(pid).unwrap_or_default() }
    }

    fn place(self) -> u64 {
        let mixed = (u64::from(self.pid) ^ self.started.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) % PLACES * PLACE as u64
    }
}

/// The kernel's time in ticks, which is how it tells when a process began: a hundredth of a second, on every machine.
fn ticks() -> u64 {
    #[cfg(target_os = "linux")]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    #[cfg(not(target_os = "linux"))]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec * 100 + time.tv_nsec / 10_000_000).unsigned_abs()
}

/// In ticks. Elsewhere than on Linux a number alone must do.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may hold anything; the 22nd field is the 20th after it.
    stat.rsplit(") ").next()?.split(' ').nth(19)?.parse().ok()
}

/// What to do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Serve it.
    Serve,
    /// The credential was refused: ask the plugin.
    Refused,
}

/// Counts one more call of this process for the entry made at `created`.
///
/// # Errors
/// When it cannot be counted. Then a refusal would go unseen, and the entry must not be served.
pub(crate) fn count(
    store: &Store,
    key: &str,
    caller: Caller,
    created: Timestamp,
    now: Timestamp,
) -> Result<Verdict, StoreError> {
    let began = || started(std::process::id());
    count_at(store, key, caller, created, now, ticks(), began)
}

fn count_at(
    store: &Store,
    key: &str,
    caller: Caller,
    created: Timestamp,
    now: Timestamp,
    tick: u64,
    began: impl FnOnce() -> Option<u64>,
) -> Result<Verdict, StoreError> {
    let file = store.scratch(&name(key))?;
    let mut known = [0; PLACE];
    // An empty or short file has not heard of anybody.
    let read = file.read_at(&mut known, caller.place())?;
    let unknown = Slot { caller, calls: 0, created: 0, ran: 0, served: 0 };
    let known = Slot::decode(&known).filter(|slot| read == PLACE && slot.caller == caller);
    let mut slot = known.unwrap_or(unknown);
    if slot.created != created.as_millisecond() {
        (slot.calls, slot.created) = (0, created.as_millisecond());
    }
    slot.calls = slot.calls.saturating_add(1);
    // Asked only where it matters: it costs a file.
    if slot.calls >= REFUSED && began().is_some_and(|began| began < slot.served) {
        slot.calls = REFUSED - 1;
    }
    slot.served = tick;
    let verdict = if slot.calls >= REFUSED && now.as_millisecond().abs_diff(slot.ran) >= PATIENCE_MS.unsigned_abs() {
        slot.ran = now.as_millisecond();
        Verdict::Refused
    } else {
        Verdict::Serve
    };
    file.write_all_at(&slot.encode(), caller.place())?;
    Ok(verdict)
}

/// Whether it is time to try to renew an entry behind the caller's back: not more often than the plugin may be run.
pub(super) fn may_run_ahead(store: &Store, key: &str, now: Timestamp) -> Result<bool, StoreError> {
    let at = PLACES * PLACE as u64;
    let file = store.scratch(&name(key))?;
    let mut last = [0; 8];
    let read = file.read_at(&mut last, at)?;
    let last = if read == last.len() { i64::from_le_bytes(last) } else { 0 };
    let may = now.as_millisecond().abs_diff(last) >= PATIENCE_MS.unsigned_abs();
    if may {
        file.write_all_at(&now.as_millisecond().to_le_bytes(), at)?;
    }
    Ok(may)
}

pub(super) fn name(key: &str) -> String {
    format!("{key}.calls")
}

struct Slot {
    caller: Caller,
    calls: u32,
    created: i64,
    ran: i64,
    served: u64,
}

impl Slot {
    fn decode(bytes: &[u8; PLACE]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok();
        let half = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
        let caller = Caller { pid: u32::from_le_bytes(half(0)?), started: u64::from_le_bytes(word(8)?) };
        let calls = u32::from_le_bytes(half(4)?);
        let (created, ran) = (i64::from_le_bytes(word(16)?), i64::from_le_bytes(word(24)?));
        Some(Self { caller, calls, created, ran, served: u64::from_le_bytes(word(32)?) })
    }

    fn encode(&self) -> [u8; PLACE] {
        let mut bytes = [0; PLACE];
        bytes[..4].copy_from_slice(&self.caller.pid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.calls.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.caller.started.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.created.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.ran.to_le_bytes());
        bytes[32..].copy_from_slice(&self.served.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECTL: Caller = Caller { pid: 7, started: 70 };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + second).unwrap()
    }

    #[test]
    fn the_third_call_for_one_credential_means_that_it_was_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(dir.path()).unwrap(), "k");
        let call = |caller, created, now: i64| {
            let tick = now.unsigned_abs();
            count_at(&store, key, caller, at(created), at(now), tick, || Some(tick)).unwrap()
        };
        let later = Caller { started: 71, ..KUBECTL };
        assert_eq!([1, 2, 3].map(|now| call(KUBECTL, 0, now)), [Verdict::Serve, Verdict::Serve, Verdict::Refused]);
        // Not again so soon, for the same credential or for the next one.
        assert_eq!([4, 5, 6].map(|now| call(KUBECTL, 3, now)), [Verdict::Serve; 3]);
        assert_eq!(call(KUBECTL, 3, 33), Verdict::Refused);
        // Another process of the same number.
        assert_eq!([40, 41].map(|now| call(later, 33, now)), [Verdict::Serve; 2]);
        assert_eq!(call(later, 33, 42), Verdict::Refused);
    }

    #[test]
    fn calls_that_run_side_by_side_mean_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(dir.path()).unwrap(), "k");
        let call = |tick, began| count_at(&store, key, KUBECTL, at(0), at(1), tick, || Some(began)).unwrap();
        assert_eq!([10, 11, 12, 13, 14].map(|tick| call(tick, 9)), [Verdict::Serve; 5]);
        assert_eq!(call(15, 14), Verdict::Refused);
    }

    #[test]
    fn the_parent_of_this_process_has_begun_at_some_time() {
        let parent = Caller::parent();
        assert_eq!(parent, Caller::parent());
        assert!(parent.pid == 0 || !cfg!(target_os = "linux") || parent.started > 0, "{parent:?}");
    }
}
