//! What a process does to itself before it becomes a proxy that outlives its client.

use std::fs::File;
use std::io;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

/// So many open files are plenty. They are not all that a system may grant: programs that a signer runs inherit the limit,
/// and there are some that close each number up to it, of which a container may have a billion.
const FILES: u64 = 1 << 16;

/// Leaves the session, the working directory and the terminal's reach; no dump of this process's memory is written, and
/// no other process of this user can look into it. It may have as many files open as the system grants, up to 65,536. To be
/// called first, while there is one thread.
///
/// # Errors
/// When the system refuses: then there is no proxy, because it might leave keys on the disk.
pub fn close_to_others() -> io::Result<()> {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    std::env::set_current_dir("/")?;
    // Refused to the leader of a group, which has a session of its own, or is out of the client's reach at least.
    let _ = rustix::process::setsid();
    make_room();
    Ok(())
}

/// The usual limit is 1024, for programs that know no better than `select`. A client takes one file, its way to the API
/// server often another, and where none is left nobody can so much as ask the proxy what is wrong.
fn make_room() {
    let found = rustix::process::getrlimit(Resource::Nofile);
    let wanted = found.maximum.unwrap_or(FILES).min(FILES);
    if found.current.is_some_and(|current| current < wanted) {
        // Without it there is less room, and that is all.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..found });
    }
}

/// Standard input, output and error, to be let go of.
#[derive(Debug)]
pub struct Stdio(File);

impl Stdio {
    /// Prepares for it: what can fail fails here.
    ///
    /// # Errors
    /// When there is no null device.
    pub fn prepare() -> io::Result<Self> {
        File::options().read(true).write(true).open("/dev/null").map(Self)
    }

    /// Puts the null device in the place of all three. A client that waits for the end of a plugin's output would wait
    /// for ours otherwise, and so would `kubectl … 2>&1 | less`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn let_go(self) -> io::Result<()> {
        rustix::stdio::dup2_stdin(&self.0)?;
        rustix::stdio::dup2_stdout(&self.0)?;
        rustix::stdio::dup2_stderr(&self.0)?;
        Ok(())
    }
}
