//! Who was served how often.
//!
//! A client whose credential was refused runs the plugin again and does not say why. Most run it once or twice in all
//! (Google's dispatcher runs it twice for every command), so the third call of one process for a credential that has not
//! expired means that the server refused it. Calls that run side by side are no such sign: whoever began before the last
//! one was served cannot have been refused what that one got.
//!
//! A command of one request calls twice, fails, and is gone: the third call never comes. So a second call of one and the
//! same program casts [suspicion](suspicion) on an entry, and the next process that asks for it gets another. That may be
//! in vain, with the dispatcher for one, so it is not done for an entry that is new, nor often.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use jiff::Timestamp;

use super::Tally;
use crate::store::{Store, StoreError};

/// The call that means a refusal.
const REFUSED: u32 = 3;

/// A process that makes many clients calls often without having been refused: one run for it in this time.
const PATIENCE_MS: i64 = 30_000;

/// After a run because of a refusal, real or suspected, nothing is suspected for this long.
const SUSPICION_MS: u64 = 15 * 60_000;

/// Nothing is suspected of an entry that is younger.
const NEW_MS: u64 = 60_000;

/// Those who come while that run is under way wait for it too.
const UNDER_WAY_MS: u64 = 10_000;

/// Processes share places; the one that came last has it, and the other begins to count anew.
const PLACES: u64 = 64;

/// What is kept of one process: its number, its calls, when it began, its program, which entry it was served, when it last
/// caused a run, when it was last served; the first time in ticks, the last in nanoseconds, the others in milliseconds.
const PLACE: usize = 48;

/// Behind the places: when an entry was last renewed ahead, and the suspicion.
const AHEAD: u64 = PLACES * PLACE as u64;
const SUSPICION: u64 = AHEAD + 8;
/// And behind these what the cache was good for.
pub(super) const TALLY: u64 = SUSPICION + 24;

/// A process, told from a later one of the same number by when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pid: u32,
    started: u64,
    /// What it runs, which `exec` changes. Zero: nobody can tell.
    program: u64,
}

impl Caller {
    /// The process that started us.
    pub(crate) fn parent() -> Self {
        let pid = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
        Self { pid, started: started(pid).unwrap_or_default(), program: program(pid).unwrap_or_default() }
    }

    fn is_same_process(self, other: Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }

    fn place(self) -> u64 {
        let mixed = (u64::from(self.pid) ^ self.started.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 58) % PLACES * PLACE as u64
    }
}

/// A hundredth of a second, on every machine: by this the kernel tells when a process began.
const TICK_NS: u64 = 10_000_000;

/// The kernel's time in nanoseconds.
pub(crate) fn kernel_time() -> u64 {
    #[cfg(target_os = "linux")]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    #[cfg(not(target_os = "linux"))]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

/// In ticks. Elsewhere than on Linux a number alone must do.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may hold anything; the 22nd field is the 20th after it.
    stat.rsplit(") ").next()?.split(' ').nth(19)?.parse().ok()
}

/// A number for the file that a process runs.
fn program(pid: u32) -> Option<u64> {
    let file = rustix::fs::stat(format!("/proc/{pid}/exe")).ok()?;
    Some(file.st_ino ^ file.st_dev.rotate_left(40))
}

/// What to do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Serve it.
    Serve,
    /// The credential was refused: ask the plugin.
    Refused,
}

/// Counts one more call of this process for the entry made at `created`. `came` is when it came, by the kernel's time; it may
/// have waited since.
///
/// # Errors
/// When it cannot be counted. Then a refusal would go unseen, and the entry must not be served.
pub(crate) fn count(
    store: &Store,
    key: &str,
    caller: Caller,
    came: u64,
    created: Timestamp,
    now: Timestamp,
) -> Result<Verdict, StoreError> {
    let began = || started(std::process::id());
    count_at(store, key, caller, created, now, Time { came, now: kernel_time() }, began)
}

/// By the kernel's time.
#[derive(Clone, Copy)]
struct Time {
    came: u64,
    now: u64,
}

fn count_at(
    store: &Store,
    key: &str,
    caller: Caller,
    created: Timestamp,
    now: Timestamp,
    time: Time,
    began: impl FnOnce() -> Option<u64>,
) -> Result<Verdict, StoreError> {
    let file = store.scratch(&name(key))?;
    let mut known = [0; PLACE];
    // An empty or short file has not heard of anybody.
    let read = file.read_at(&mut known, caller.place())?;
    let unknown = Slot { caller, calls: 0, created: 0, ran: 0, served: 0 };
    let known = Slot::decode(&known).filter(|slot| read == PLACE && slot.caller.is_same_process(caller));
    let mut slot = known.unwrap_or(unknown);
    if slot.created != created.as_millisecond() {
        (slot.calls, slot.created) = (0, created.as_millisecond());
    }
    let again = slot.calls > 0 && slot.caller == caller && caller.program != 0;
    slot.caller = caller;
    slot.calls = slot.calls.saturating_add(1);
    // When it began is asked only where it matters: it costs a file. In a crowd that tick may be the one in which the first
    // were served; then it helps to know that it was there already.
    let earlier = || time.came < slot.served || began().is_some_and(|began| began < slot.served / TICK_NS);
    let side_by_side = (again || slot.calls >= REFUSED) && earlier();
    if side_by_side {
        slot.calls = slot.calls.min(REFUSED - 1);
    }
    slot.served = time.now;
    let third = slot.calls >= REFUSED && now.as_millisecond().abs_diff(slot.ran) >= PATIENCE_MS.unsigned_abs();
    if third {
        slot.ran = now.as_millisecond();
    }
    let came = match slot.calls {
        1 => Came::First,
        _ if third => Came::Refused,
        _ if again && !side_by_side => Came::Again,
        _ => Came::Otherwise,
    };
    let suspected = suspicion(&file, slot.created, came, now)?;
    file.write_all_at(&slot.encode(), caller.place())?;
    if third || suspected {
        return Ok(Verdict::Refused);
    }
    Tally::answered(&file)?;
    Ok(Verdict::Serve)
}

/// What a call says about the entry that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// Nothing.
    First,
    /// That it may have been refused: the same program has come back.
    Again,
    /// That it was refused.
    Refused,
    /// Nothing, because others of this process are at it.
    Otherwise,
}

/// Takes note of a call for the entry made at `created`; whether it must not be served, because the entry is suspected.
fn suspicion(file: &File, created: i64, came: Came, now: Timestamp) -> Result<bool, StoreError> {
    // The entry that is suspected, the one for which the plugin was last run, and when.
    let mut words = [0_i64; 3];
    let mut bytes = [0; 24];
    if file.read_at(&mut bytes, SUSPICION)? == bytes.len() {
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = i64::from_le_bytes(*bytes);
        }
    }
    let [suspected, ran_for, ran] = words;
    let now = now.as_millisecond();
    let (age, since) = (now.abs_diff(created), now.abs_diff(ran));
    let (words, suspect) = match came {
        Came::First if suspected == created && since >= SUSPICION_MS => ([created, created, now], true),
        Came::First => return Ok(suspected == created && ran_for == created && since < UNDER_WAY_MS),
        Came::Again if age >= NEW_MS && suspected != created => ([created, ran_for, ran], false),
        Came::Refused => ([suspected, ran_for, now], false),
        Came::Again | Came::Otherwise => return Ok(false),
    };
    file.write_all_at(&words.map(i64::to_le_bytes).concat(), SUSPICION)?;
    Ok(suspect)
}

/// Whether it is time to try to renew an entry behind the caller's back: not more often than the plugin may be run.
pub(super) fn may_run_ahead(store: &Store, key: &str, now: Timestamp) -> Result<bool, StoreError> {
    let file = store.scratch(&name(key))?;
    let mut last = [0; 8];
    let read = file.read_at(&mut last, AHEAD)?;
    let last = if read == last.len() { i64::from_le_bytes(last) } else { 0 };
    let may = now.as_millisecond().abs_diff(last) >= PATIENCE_MS.unsigned_abs();
    if may {
        file.write_all_at(&now.as_millisecond().to_le_bytes(), AHEAD)?;
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
        let (pid, calls) = (u32::from_le_bytes(half(0)?), u32::from_le_bytes(half(4)?));
        let (started, program) = (u64::from_le_bytes(word(8)?), u64::from_le_bytes(word(16)?));
        let (created, ran) = (i64::from_le_bytes(word(24)?), i64::from_le_bytes(word(32)?));
        let caller = Caller { pid, started, program };
        Some(Self { caller, calls, created, ran, served: u64::from_le_bytes(word(40)?) })
    }

    fn encode(&self) -> [u8; PLACE] {
        let mut bytes = [0; PLACE];
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

    const KUBECTL: Caller = Caller { pid: 7, started: 70, program: 700 };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + second).unwrap()
    }

    /// A call that was served in the moment in which it came.
    fn alone(tick: u64) -> Time {
        Time { came: tick * TICK_NS, now: tick * TICK_NS }
    }

    #[test]
    fn the_third_call_for_one_credential_means_that_it_was_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(dir.path()).unwrap(), "k");
        let call = |caller, created, now: i64| {
            let tick = now.unsigned_abs();
            count_at(&store, key, caller, at(created), at(now), alone(tick), || Some(tick)).unwrap()
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
        let call = |tick, began| count_at(&store, key, KUBECTL, at(0), at(1), alone(tick), || Some(began)).unwrap();
        assert_eq!([10, 11, 12, 13, 14].map(|tick| call(tick, 9)), [Verdict::Serve; 5]);
        assert_eq!(call(15, 14), Verdict::Refused);
    }

    #[test]
    fn whoever_began_in_the_tick_in_which_others_were_served_and_waited_with_them_was_not_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(dir.path()).unwrap(), "k");
        let call = |came, now| {
            let time = Time { came, now };
            count_at(&store, key, KUBECTL, at(0), at(1), time, || Some(now / TICK_NS)).unwrap()
        };
        assert_eq!([1, 2, 3, 4].map(|after| call(100, 100 + after)), [Verdict::Serve; 4]);
        assert_eq!(call(105, 106), Verdict::Refused);
    }

    #[test]
    fn a_process_that_came_twice_makes_the_next_one_get_another_but_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(dir.path()).unwrap(), "k");
        let call = |pid, program, created, now: i64| {
            let caller = Caller { pid, started: 1, program };
            let tick = now.unsigned_abs();
            count_at(&store, key, caller, at(created), at(now), alone(tick), || Some(tick)).unwrap()
        };
        // While it is new, a program that comes back has its reasons.
        assert_eq!([call(1, 6, 0, 1), call(1, 6, 0, 2), call(2, 6, 0, 3)], [Verdict::Serve; 3]);
        // A program that becomes another one is not the same.
        assert_eq!([call(3, 5, 0, 60), call(3, 6, 0, 61), call(4, 6, 0, 62)], [Verdict::Serve; 3]);
        // A program that was refused calls again.
        assert_eq!([call(5, 6, 0, 64), call(5, 6, 0, 65)], [Verdict::Serve; 2]);
        assert_eq!(call(6, 6, 0, 66), Verdict::Refused);
        assert_eq!(call(7, 6, 0, 67), Verdict::Refused, "the run is under way: it waits too");
        assert_eq!(call(8, 6, 0, 77), Verdict::Serve, "it has led to nothing");
        // There is another entry; it is suspected too, and that was in vain.
        assert_eq!([call(9, 6, 66, 200), call(9, 6, 66, 201), call(10, 6, 66, 202)], [Verdict::Serve; 3]);
        assert_eq!(call(11, 6, 66, 966), Verdict::Refused);
        // Nobody can tell what it runs.
        assert_eq!([call(12, 0, 966, 2000), call(12, 0, 966, 2001), call(13, 0, 966, 2002)], [Verdict::Serve; 3]);
        // After a real refusal there is nothing to suspect.
        assert_eq!([call(14, 6, 966, 2003), call(14, 6, 966, 2004), call(15, 6, 966, 2005)][2], Verdict::Refused);
        assert_eq!([1, 2, 3].map(|_| call(16, 6, 2005, 3000))[2], Verdict::Refused);
        assert_eq!([call(17, 6, 3000, 3100), call(17, 6, 3000, 3101), call(18, 6, 3000, 3102)], [Verdict::Serve; 3]);
    }

    #[test]
    fn the_parent_of_this_process_has_begun_at_some_time() {
        let parent = Caller::parent();
        assert_eq!(parent, Caller::parent());
        assert!(parent.pid == 0 || !cfg!(target_os = "linux") || parent.started > 0, "{parent:?}");
    }
}
