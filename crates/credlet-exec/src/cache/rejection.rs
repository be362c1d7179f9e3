//! Detection of rejected credentials.
//!
//! A client that receives a 401 runs the plugin again without telling why: `v1` and `v1beta1` have no field for it. Most
//! clients run a plugin once or twice per process (the kubectl dispatcher of gcloud twice for every command), so the third call
//! of one process for an unexpired credential means that the server rejected it. Concurrent calls do not count: a call that
//! started before the previous one was served cannot be a reaction to that response.
//!
//! A command that sends one request calls twice and exits, so the third call never comes. Therefore a second call of the same
//! process and program marks the entry as suspected (`check_suspicion`), and the next process gets a new credential. That run may
//! be unnecessary, so it is limited: not for a new entry, and at most once per `SUSPICION_COOLDOWN_MS`.

use std::fs::File;

pub use credlet_platform::process::boot_time_ns;

use credlet_platform::fs::{read_at, write_all_at};
use credlet_platform::process::{self, START_TIME_TICK_NS as TICK_NS};
use jiff::Timestamp;

use super::CacheStats;
use crate::store::{Store, StoreError};

/// Number of the call that indicates a rejected credential.
const REJECTED_CALLS: u32 = 3;

/// Minimum interval between two runs that one process causes: a process with many clients calls often without a rejection.
const MIN_INTERVAL_MS: i64 = 30_000;

/// Minimum interval between a run for a rejected or suspected entry and the next run for a suspected one.
const SUSPICION_COOLDOWN_MS: u64 = 15 * 60_000;

/// Entries younger than this are not suspected.
const MIN_SUSPECT_AGE_MS: u64 = 60_000;

/// Calls within this time after the start of a run for a suspected entry wait for that run.
const IN_FLIGHT_MS: u64 = 10_000;

/// Number of slots for processes. On a collision the later process takes the slot, and the count of the other one starts over.
const SLOT_COUNT: u64 = 64;

/// Size of a [`CallerSlot`] in the file.
const SLOT_SIZE: usize = 48;

/// The last background refresh and the suspicion record follow the slots.
const LAST_REFRESH_OFFSET: u64 = SLOT_COUNT * SLOT_SIZE as u64;
const SUSPICION_OFFSET: u64 = LAST_REFRESH_OFFSET + 8;
/// Position of [`CacheStats`], behind the suspicion record.
pub(super) const STATS_OFFSET: u64 = SUSPICION_OFFSET + 24;

/// A client process, identified by process id and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerProcess {
    pid: u32,
    started: u64,
    /// Device and inode of the executable, which `exec` changes. Zero: unknown.
    program: u64,
}

impl CallerProcess {
    /// Returns the parent of this process.
    pub fn parent() -> Self {
        let pid = process::parent_id();
        let started = process::start_time(pid).unwrap_or_default();
        Self { pid, started, program: process::executable_id(pid).unwrap_or_default() }
    }

    fn is_same_process(self, other: Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    fn slot_offset(self) -> u64 {
        let mixed = (u64::from(self.pid) ^ self.started.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) % SLOT_COUNT * SLOT_SIZE as u64
    }
}

/// Whether the stored credential may be served to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVerdict {
    /// Serve the stored credential.
    Serve,
    /// The server rejected the credential: run the plugin.
    Rejected,
}

/// Records a call of this process for the entry created at `created`. `arrived_at` is the start of the call by
/// [`boot_time_ns`]; it may have waited for a lock since.
///
/// # Errors
/// If the call cannot be recorded. A rejection would then remain undetected, so the entry must not be served.
pub fn record_call(
    store: &Store,
    key: &str,
    caller: CallerProcess,
    arrived_at: u64,
    created: Timestamp,
    now: Timestamp,
) -> Result<CallVerdict, StoreError> {
    let began = || process::start_time(std::process::id());
    record_call_at(store, key, caller, created, now, CallTime { arrived_at, now: boot_time_ns() }, began)
}

/// Times by [`boot_time_ns`].
#[derive(Clone, Copy)]
struct CallTime {
    arrived_at: u64,
    now: u64,
}

fn record_call_at(
    store: &Store,
    key: &str,
    caller: CallerProcess,
    created: Timestamp,
    now: Timestamp,
    time: CallTime,
    began: impl FnOnce() -> Option<u64>,
) -> Result<CallVerdict, StoreError> {
    let file = store.scratch(&file_name(key))?;
    let mut known = [0; SLOT_SIZE];
    // A short read means that the slot was never written.
    let read = read_at(&file, &mut known, caller.slot_offset())?;
    let unknown = CallerSlot { caller, calls: 0, created: 0, ran: 0, served: 0 };
    let known = CallerSlot::decode(&known).filter(|slot| read == SLOT_SIZE && slot.caller.is_same_process(caller));
    let mut slot = known.unwrap_or(unknown);
    if slot.created != created.as_millisecond() {
        (slot.calls, slot.created) = (0, created.as_millisecond());
    }
    let is_repeated = slot.calls > 0 && slot.caller == caller && caller.program != 0;
    slot.caller = caller;
    slot.calls = slot.calls.saturating_add(1);
    // The start time of this process is read only where it matters, because that opens a file. Its resolution is a tick of
    // 10 ms; `arrived_at` also covers concurrent calls within one tick.
    let earlier = || time.arrived_at < slot.served || began().is_some_and(|began| began < slot.served / TICK_NS);
    let is_concurrent = (is_repeated || slot.calls >= REJECTED_CALLS) && earlier();
    if is_concurrent {
        slot.calls = slot.calls.min(REJECTED_CALLS - 1);
    }
    slot.served = time.now;
    let third =
        slot.calls >= REJECTED_CALLS && now.as_millisecond().abs_diff(slot.ran) >= MIN_INTERVAL_MS.unsigned_abs();
    if third {
        slot.ran = now.as_millisecond();
    }
    let kind = match slot.calls {
        1 => CallKind::First,
        _ if third => CallKind::Rejected,
        _ if is_repeated && !is_concurrent => CallKind::Repeated,
        _ => CallKind::Concurrent,
    };
    let suspected = check_suspicion(&file, slot.created, kind, now)?;
    write_all_at(&file, &slot.encode(), caller.slot_offset())?;
    if third || suspected {
        return Ok(CallVerdict::Rejected);
    }
    CacheStats::record_response(&file)?;
    Ok(CallVerdict::Serve)
}

/// What a call tells about its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    /// First call of the process.
    First,
    /// Second call of the same process and program: the server may have rejected the credential.
    Repeated,
    /// Third call: the server rejected the credential.
    Rejected,
    /// Further call that ran concurrently with another one, or within the minimum interval.
    Concurrent,
}

/// Updates the suspicion record for a call. Returns whether the entry created at `created` is suspected and must not be served.
fn check_suspicion(file: &File, created: i64, kind: CallKind, now: Timestamp) -> Result<bool, StoreError> {
    // Creation time of the suspected entry, of the entry that the last run was for, and the time of that run.
    let mut fields = [0_i64; 3];
    let mut bytes = [0; 24];
    if read_at(file, &mut bytes, SUSPICION_OFFSET)? == bytes.len() {
        for (field, bytes) in fields.iter_mut().zip(bytes.as_chunks().0) {
            *field = i64::from_le_bytes(*bytes);
        }
    }
    let [suspected, ran_for, ran] = fields;
    let now = now.as_millisecond();
    let (age, since) = (now.abs_diff(created), now.abs_diff(ran));
    let (fields, suspect) = match kind {
        CallKind::First if suspected == created && since >= SUSPICION_COOLDOWN_MS => ([created, created, now], true),
        CallKind::First => return Ok(suspected == created && ran_for == created && since < IN_FLIGHT_MS),
        CallKind::Repeated if age >= MIN_SUSPECT_AGE_MS && suspected != created => ([created, ran_for, ran], false),
        CallKind::Rejected => ([suspected, ran_for, now], false),
        CallKind::Repeated | CallKind::Concurrent => return Ok(false),
    };
    write_all_at(file, &fields.map(i64::to_le_bytes).concat(), SUSPICION_OFFSET)?;
    Ok(suspect)
}

/// Returns whether to start a background refresh now, at most once per [`MIN_INTERVAL_MS`], and records it.
pub(super) fn try_claim_refresh(store: &Store, key: &str, now: Timestamp) -> Result<bool, StoreError> {
    let file = store.scratch(&file_name(key))?;
    let mut last = [0; 8];
    let read = read_at(&file, &mut last, LAST_REFRESH_OFFSET)?;
    let last = if read == last.len() { i64::from_le_bytes(last) } else { 0 };
    let may = now.as_millisecond().abs_diff(last) >= MIN_INTERVAL_MS.unsigned_abs();
    if may {
        write_all_at(&file, &now.as_millisecond().to_le_bytes(), LAST_REFRESH_OFFSET)?;
    }
    Ok(may)
}

pub(super) fn file_name(key: &str) -> String {
    format!("{key}.calls")
}

/// The calls of one process.
struct CallerSlot {
    caller: CallerProcess,
    calls: u32,
    /// Creation time of the served entry, in Unix milliseconds.
    created: i64,
    /// When the process last caused a run, in Unix milliseconds.
    ran: i64,
    /// When the process was last served, by [`boot_time_ns`].
    served: u64,
}

impl CallerSlot {
    fn decode(bytes: &[u8; SLOT_SIZE]) -> Option<Self> {
        let field = |at: usize| bytes.get(at..at + 8)?.try_into().ok();
        let half = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
        let (pid, calls) = (u32::from_le_bytes(half(0)?), u32::from_le_bytes(half(4)?));
        let (started, program) = (u64::from_le_bytes(field(8)?), u64::from_le_bytes(field(16)?));
        let (created, ran) = (i64::from_le_bytes(field(24)?), i64::from_le_bytes(field(32)?));
        let caller = CallerProcess { pid, started, program };
        Some(Self { caller, calls, created, ran, served: u64::from_le_bytes(field(40)?) })
    }

    fn encode(&self) -> [u8; SLOT_SIZE] {
        let mut bytes = [0; SLOT_SIZE];
        bytes[..4].copy_from_slice(&self.caller.pid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.calls.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.caller.started.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.caller.program.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.created.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.ran.to_le_bytes());
        bytes[40..].copy_from_slice(&self.served.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECTL: CallerProcess = CallerProcess { pid: 7, started: 70, program: 700 };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + second).unwrap()
    }

    /// A call that was served as soon as it arrived.
    fn immediate(tick: u64) -> CallTime {
        CallTime { arrived_at: tick * TICK_NS, now: tick * TICK_NS }
    }

    #[test]
    fn third_call_means_rejection() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(&dir.path().join("s")).unwrap(), "k");
        let call = |caller, created, now: i64| {
            let tick = now.unsigned_abs();
            record_call_at(&store, key, caller, at(created), at(now), immediate(tick), || Some(tick)).unwrap()
        };
        let later = CallerProcess { started: 71, ..KUBECTL };
        assert_eq!(
            [1, 2, 3].map(|now| call(KUBECTL, 0, now)),
            [CallVerdict::Serve, CallVerdict::Serve, CallVerdict::Rejected]
        );
        // Within the minimum interval there is no second run, for the same credential or the next one.
        assert_eq!([4, 5, 6].map(|now| call(KUBECTL, 3, now)), [CallVerdict::Serve; 3]);
        assert_eq!(call(KUBECTL, 3, 33), CallVerdict::Rejected);
        // Another process with the same process id.
        assert_eq!([40, 41].map(|now| call(later, 33, now)), [CallVerdict::Serve; 2]);
        assert_eq!(call(later, 33, 42), CallVerdict::Rejected);
    }

    #[test]
    fn concurrent_calls_are_not_a_rejection() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(&dir.path().join("s")).unwrap(), "k");
        let call =
            |tick, began| record_call_at(&store, key, KUBECTL, at(0), at(1), immediate(tick), || Some(began)).unwrap();
        assert_eq!([10, 11, 12, 13, 14].map(|tick| call(tick, 9)), [CallVerdict::Serve; 5]);
        assert_eq!(call(15, 14), CallVerdict::Rejected);
    }

    #[test]
    fn concurrent_calls_within_one_tick_are_not_a_rejection() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(&dir.path().join("s")).unwrap(), "k");
        let call = |arrived_at, now| {
            let time = CallTime { arrived_at, now };
            record_call_at(&store, key, KUBECTL, at(0), at(1), time, || Some(now / TICK_NS)).unwrap()
        };
        assert_eq!([1, 2, 3, 4].map(|after| call(100, 100 + after)), [CallVerdict::Serve; 4]);
        assert_eq!(call(105, 106), CallVerdict::Rejected);
    }

    #[test]
    fn repeated_call_makes_the_next_process_refresh() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(&dir.path().join("s")).unwrap(), "k");
        let call = |pid, program, created, now: i64| {
            let caller = CallerProcess { pid, started: 1, program };
            let tick = now.unsigned_abs();
            record_call_at(&store, key, caller, at(created), at(now), immediate(tick), || Some(tick)).unwrap()
        };
        // A new entry is not suspected.
        assert_eq!([call(1, 6, 0, 1), call(1, 6, 0, 2), call(2, 6, 0, 3)], [CallVerdict::Serve; 3]);
        // The process has called `exec` in between.
        assert_eq!([call(3, 5, 0, 60), call(3, 6, 0, 61), call(4, 6, 0, 62)], [CallVerdict::Serve; 3]);
        // A program calls again after a rejection.
        assert_eq!([call(5, 6, 0, 64), call(5, 6, 0, 65)], [CallVerdict::Serve; 2]);
        assert_eq!(call(6, 6, 0, 66), CallVerdict::Rejected);
        assert_eq!(call(7, 6, 0, 67), CallVerdict::Rejected, "the run is in flight");
        assert_eq!(call(8, 6, 0, 77), CallVerdict::Serve, "the run brought no new entry");
        // The next entry is suspected too, but only after the cooldown.
        assert_eq!([call(9, 6, 66, 200), call(9, 6, 66, 201), call(10, 6, 66, 202)], [CallVerdict::Serve; 3]);
        assert_eq!(call(11, 6, 66, 966), CallVerdict::Rejected);
        // The program is unknown.
        assert_eq!([call(12, 0, 966, 2000), call(12, 0, 966, 2001), call(13, 0, 966, 2002)], [CallVerdict::Serve; 3]);
        // After a real rejection nothing is suspected for the cooldown.
        assert_eq!([call(14, 6, 966, 2003), call(14, 6, 966, 2004), call(15, 6, 966, 2005)][2], CallVerdict::Rejected);
        assert_eq!([1, 2, 3].map(|_| call(16, 6, 2005, 3000))[2], CallVerdict::Rejected);
        assert_eq!(
            [call(17, 6, 3000, 3100), call(17, 6, 3000, 3101), call(18, 6, 3000, 3102)],
            [CallVerdict::Serve; 3]
        );
    }

    #[test]
    fn parent_process_has_a_start_time() {
        let parent = CallerProcess::parent();
        assert_eq!(parent, CallerProcess::parent());
        assert!(parent.pid == 0 || !cfg!(target_os = "linux") || parent.started > 0, "{parent:?}");
    }
}
