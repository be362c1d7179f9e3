//! Identity of running processes (id, start time and executable), and the exit of this one.

/// Unit of [`start_time`] in nanoseconds: `USER_HZ` is 100 on every architecture of Linux.
pub const START_TIME_TICK_NS: u64 = 10_000_000;

/// Returns the process id of the parent; 0 if it is outside of this PID namespace.
pub fn parent_id() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Returns the time since boot in nanoseconds, on Linux including suspend, as process start times are.
pub fn boot_time_ns() -> u64 {
    #[cfg(target_os = "linux")]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    #[cfg(not(target_os = "linux"))]
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

/// Returns the start time of a process in units of [`START_TIME_TICK_NS`] since boot. `None` on systems other than Linux.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): the second field is the name in parentheses, which may contain any character. `starttime` is field 22.
    stat.rsplit(") ").next()?.split(' ').nth(19)?.parse().ok()
}

/// Returns a number that identifies the executable file of a process. `None` on systems other than Linux.
pub fn executable_id(pid: u32) -> Option<u64> {
    let file = rustix::fs::stat(format!("/proc/{pid}/exe")).ok()?;
    Some(file.st_ino ^ file.st_dev.rotate_left(40))
}

/// Moves this process to a new session without a terminal (`setsid`), so that keys such as Ctrl-C no longer signal it. Does
/// nothing if it leads a process group: it is then already in another group than its parent.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}

/// Exits without running exit handlers (`_exit`). Those of loaded libraries can deadlock on threads that no longer exist.
pub fn exit_immediately(code: i32) -> ! {
    signal_hook::low_level::exit(code)
}

/// Exits by the default action of the signal. A shell ends its loop for a child that was killed by a signal, not for one
/// with an exit code. The exit code is 128 plus `signal` if the default action does not terminate the process.
pub fn exit_by_signal(signal: i32) -> ! {
    // Returns only if the default action does not terminate the process.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    exit_immediately(128 + signal)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn identifies_this_process() {
        let pid = std::process::id();
        assert!(parent_id() != pid);
        let start = start_time(pid).unwrap() * START_TIME_TICK_NS;
        assert!(start <= boot_time_ns());
        assert!(executable_id(pid).is_some());
        assert_eq!(start_time(u32::MAX), None);
    }
}
