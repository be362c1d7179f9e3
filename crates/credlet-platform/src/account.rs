//! The account database (`getpwuid_r`), which environment variables cannot change.

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

#[cfg(feature = "test-accounts")]
#[expect(clippy::disallowed_methods, reason = "credlet-platform reads the environment for the other crates")]
fn test_home() -> Option<PathBuf> {
    std::env::var_os("CREDLET_TEST_ACCOUNT_HOME").map(PathBuf::from)
}
