//! Identity of running processes (id, start time and executable), and the exit of this one.

use std::os::unix::fs::MetadataExt as _;

/// Unit of [`start_time`] in nanoseconds: `USER_HZ` is 100 on every architecture of Linux. Also used for systems with finer units.
pub const START_TIME_TICK_NS: u64 = 10_000_000;

/// Returns the process id of the parent; 0 if it is outside of this PID namespace.
pub fn parent_id() -> u32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Returns the time since boot in nanoseconds by the clock of process start times, which includes suspend on Linux and excludes
/// sleep on macOS.
pub fn boot_time_ns() -> u64 {
    #[cfg(target_os = "macos")]
    return crate::macos::uptime_ns();
    #[cfg(not(target_os = "macos"))]
    {
        #[cfg(target_os = "linux")]
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        #[cfg(not(target_os = "linux"))]
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
    }
}

/// Returns the start time of a process in units of [`START_TIME_TICK_NS`] since boot. `None` if it has exited, on macOS also if
/// it belongs to another user, and on systems other than Linux and macOS.
pub fn start_time(pid: u32) -> Option<u64> {
    #[cfg(target_os = "macos")]
    return Some(crate::macos::start_time_ns(pid)? / START_TIME_TICK_NS);
    #[cfg(not(target_os = "macos"))]
    {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // proc(5): the second field is the name in parentheses, which may contain any character. `starttime` is field 22.
        stat.rsplit(") ").next()?.split(' ').nth(19)?.parse().ok()
    }
}

/// Returns a number that identifies the executable file of a process. `None` on systems other than Linux and macOS.
pub fn executable_id(pid: u32) -> Option<u64> {
    #[cfg(target_os = "macos")]
    let path = crate::macos::executable_path(pid)?;
    #[cfg(not(target_os = "macos"))]
    let path = format!("/proc/{pid}/exe");
    let file = std::fs::metadata(path).ok()?;
    Some(file.ino() ^ file.dev().rotate_left(40))
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
#[cfg(any(target_os = "linux", target_os = "macos"))]
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
