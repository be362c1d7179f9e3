//! The account database (`getpwuid_r`, `getgrnam_r`), which environment variables cannot change.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Returns the effective user id.
pub fn effective_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the home directory of the effective user. `None` if the user has no entry or its path is not absolute. The
/// database, which may be a remote directory service, is queried once per process.
///
/// With the feature `test-accounts`, the variable `CREDLET_TEST_ACCOUNT_HOME` takes precedence; an empty value means that the user has no entry.
pub fn home_dir() -> Option<PathBuf> {
    #[cfg(feature = "test-accounts")]
    if let Some(home) = test_home() {
        return Some(home).filter(|home| home.is_absolute());
    }
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    let query = || {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten()?;
        Some(user.dir).filter(|home| home.is_absolute())
    };
    HOME.get_or_init(query).clone()
}

/// Returns the id of the group with this name, or `None` if it does not exist.
///
/// # Errors
/// Fails if the database cannot be queried.
pub fn group_id_by_name(name: &str) -> io::Result<Option<u32>> {
    let found = nix::unistd::Group::from_name(name);
    // Keeps the name of the error code in the message.
    let found = found.map_err(|errno| io::Error::new(io::Error::from(errno).kind(), errno))?;
    Ok(found.map(|group| group.gid.as_raw()))
}

#[cfg(feature = "test-accounts")]
#[expect(clippy::disallowed_methods, reason = "credlet-platform reads the environment for the other crates")]
fn test_home() -> Option<PathBuf> {
    std::env::var_os("CREDLET_TEST_ACCOUNT_HOME").map(PathBuf::from)
}
