//! System calls of macOS that rustix and nix do not offer. The unsafe code of this crate is in this module.
//!
//! Each function makes one call of the C library with buffers that it owns and returns plain values.

#![expect(unsafe_code, reason = "libproc, sysctl, ptrace and the query of a signal's action have no safe wrapper")]

use std::ffi::{CStr, OsString, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::ptr;

use nix::libc;

/// `PROC_FLAG_TRACED` in `sys/proc_info.h`: a debugger is attached.
const PROC_FLAG_TRACED: u32 = 2;

/// Returns the time since boot without sleep in nanoseconds, which is the clock of [`start_time_ns`].
pub(crate) fn uptime_ns() -> u64 {
    let clock = nix::time::ClockId::from_raw(libc::CLOCK_UPTIME_RAW);
    // Does not fail: every supported release has this clock.
    nix::time::clock_gettime(clock).map_or(0, |time| (time.tv_sec() * 1_000_000_000 + time.tv_nsec()).unsigned_abs())
}

/// Returns the start of a process by [`uptime_ns`]. `None` if the process has exited or belongs to another user.
pub(crate) fn start_time_ns(pid: u32) -> Option<u64> {
    let pid = c_int::try_from(pid).ok()?;
    let mut usage = MaybeUninit::<libc::rusage_info_v0>::zeroed();
    // SAFETY: `RUSAGE_INFO_V0` makes the kernel write a `rusage_info_v0`. The declared type of the argument is that of
    // the C header, which is a pointer to `void *` for a pointer to the structure.
    let failed = unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V0, usage.as_mut_ptr().cast()) };
    if failed != 0 {
        return None;
    }
    // SAFETY: integers only, for which zeroes are valid, and filled in by the successful call.
    let started = unsafe { usage.assume_init() }.ri_proc_start_abstime;
    ticks_to_ns(started)
}

/// Converts units of `mach_absolute_time`, which are not nanoseconds on Apple silicon.
#[expect(deprecated, reason = "the libc crate refers to the crate mach2, for one structure of two numbers")]
fn ticks_to_ns(ticks: u64) -> Option<u64> {
    let mut base = libc::mach_timebase_info { numer: 0, denom: 0 };
    // SAFETY: `base` is the structure that the function fills in.
    let failed = unsafe { libc::mach_timebase_info(&raw mut base) };
    if failed != 0 || base.denom == 0 {
        return None;
    }
    u64::try_from(u128::from(ticks) * u128::from(base.numer) / u128::from(base.denom)).ok()
}

/// Returns the path of the executable of a process. `None` if the process has exited.
pub(crate) fn executable_path(pid: u32) -> Option<PathBuf> {
    const CAPACITY: u32 = libc::PROC_PIDPATHINFO_MAXSIZE.unsigned_abs();
    let pid = c_int::try_from(pid).ok()?;
    let mut path = vec![0_u8; CAPACITY as usize];
    // SAFETY: the kernel writes at most `CAPACITY` bytes, the length of `path`.
    let length = unsafe { libc::proc_pidpath(pid, path.as_mut_ptr().cast(), CAPACITY) };
    let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
    path.truncate(length);
    Some(OsString::from_vec(path).into())
}

/// Prevents debuggers from attaching to this process from now on (`PT_DENY_ATTACH`). A debugger that is already attached stays:
/// the kernel would end the process.
pub(crate) fn deny_debuggers() -> io::Result<()> {
    if is_traced()? {
        return Ok(());
    }
    // SAFETY: the request ignores the other arguments and accesses no memory of this process.
    let failed = unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, ptr::null_mut(), 0) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn is_traced() -> io::Result<bool> {
    let size = size_of::<libc::proc_bsdinfo>();
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the kernel writes at most `size` bytes, the size of `info`.
    let written = unsafe {
        let (pid, size) = (std::process::id().cast_signed(), size as c_int);
        libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast::<c_void>(), size)
    };
    if usize::try_from(written).ok() != Some(size) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: integers only, for which zeroes are valid, and filled in by the successful call.
    Ok(unsafe { info.assume_init() }.pbi_flags & PROC_FLAG_TRACED != 0)
}

/// Whether this process ignores the signal.
pub(crate) fn is_signal_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the current one to `action`.
    let failed = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: integers only, for which zeroes are valid, and filled in by a successful call.
    failed == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Whether child processes inherit this file descriptor. `None` if it is not open.
pub(crate) fn is_fd_inheritable(fd: i32) -> Option<bool> {
    // SAFETY: `F_GETFD` has no argument and accesses no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    (flags >= 0).then_some(flags & libc::FD_CLOEXEC == 0)
}

/// Reads a value of `sysctl` whose size changes.
pub(crate) fn sysctl_bytes(name: &CStr) -> io::Result<Vec<u8>> {
    /// The value may grow between the call that returns its size and the one that returns the value.
    const ATTEMPTS: usize = 5;
    let mut length = 0;
    // SAFETY: `name` ends with a NUL byte. Without a buffer the call only writes the size to `length`.
    if unsafe { libc::sysctlbyname(name.as_ptr(), ptr::null_mut(), &raw mut length, ptr::null_mut(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for _ in 0..ATTEMPTS {
        let mut bytes = vec![0_u8; length];
        // SAFETY: the call writes at most `length` bytes, the length of `bytes`, and sets `length` to their number.
        let failed = unsafe {
            libc::sysctlbyname(name.as_ptr(), bytes.as_mut_ptr().cast(), &raw mut length, ptr::null_mut(), 0)
        };
        if failed == 0 {
            bytes.truncate(length);
            return Ok(bytes);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ENOMEM) {
            return Err(error);
        }
        length = bytes.len() * 2;
    }
    Err(io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn reads_the_tcp_table() {
        assert!(!sysctl_bytes(c"net.inet.tcp.pcblist64").unwrap().is_empty());
        assert!(sysctl_bytes(c"credlet.missing").is_err());
    }

    #[test]
    fn files_of_rust_are_not_inheritable() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(is_fd_inheritable(file.as_raw_fd()), Some(false));
        assert_eq!(is_fd_inheritable(-1), None);
    }

    #[test]
    fn executable_of_this_process_is_known() {
        let path = executable_path(std::process::id()).unwrap();
        assert_eq!(path.file_name(), std::env::current_exe().unwrap().file_name());
    }
}
