//! Protects the memory of this process against core dumps and debuggers.

use std::io;

use rustix::process::{Resource, Rlimit};

/// Disables core dumps, and debugger access for other processes of the same user: with `/proc/PID/mem` on Linux, by
/// `PT_DENY_ATTACH` on macOS.
///
/// The core limit is inherited by child processes; `exec` makes a child dumpable again. Returns the previous core limit
/// for [`restore_core_limit`]. The hard limit stays, so that a child can raise its own.
///
/// # Errors
/// Fails if the system denies it. The caller should then not load secrets.
pub fn protect_memory() -> io::Result<CoreLimit> {
    let previous = rustix::process::getrlimit(Resource::Core);
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..previous })?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    #[cfg(target_os = "macos")]
    crate::macos::deny_debuggers()?;
    Ok(CoreLimit(previous))
}

/// Like [`protect_memory`], for a process that never restores its core limit, such as a daemon: lowers the hard limit too.
///
/// # Errors
/// Fails like [`protect_memory`].
pub fn protect_memory_permanently() -> io::Result<()> {
    protect_memory()?;
    Ok(rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// The core limit before [`protect_memory`].
#[derive(Clone, Debug)]
pub struct CoreLimit(Rlimit);

impl CoreLimit {
    /// Returns the soft limit in bytes; `None` means unlimited.
    pub fn soft(&self) -> Option<u64> {
        self.0.current
    }
}

/// Restores the core limit of this process.
///
/// # Errors
/// Fails if the system denies it.
pub fn restore_core_limit(limit: &CoreLimit) -> io::Result<()> {
    Ok(rustix::process::setrlimit(Resource::Core, limit.0)?)
}

/// Calls `spawn`, which starts a child process, with the core limit `limit`, and then disables core dumps again. The child
/// inherits the limit; setting it between `fork` and `exec` would need unsafe code. On Linux this process stays undumpable
/// meanwhile; on macOS debuggers stay denied.
///
/// # Errors
/// Fails if the system denies it. `spawn` may already have been called.
pub fn with_core_limit<T>(limit: &CoreLimit, spawn: impl FnOnce() -> T) -> io::Result<T> {
    restore_core_limit(limit)?;
    let spawned = spawn();
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit.0 })?;
    Ok(spawned)
}
