//! Base directories of the user: those of the XDG Base Directory Specification, else those of the operating system.
//!
//! | | Linux and others | macOS |
//! |---|---|---|
//! | cache | `$XDG_CACHE_HOME`, `~/.cache` | `$XDG_CACHE_HOME`, `~/Library/Caches` |
//! | configuration | `$XDG_CONFIG_HOME`, `~/.config` | `$XDG_CONFIG_HOME`, `~/Library/Application Support` |
//! | data | `$XDG_DATA_HOME`, `~/.local/share` | `$XDG_DATA_HOME`, `~/Library/Application Support` |
//!
//! A variable with a relative path counts as unset, as the specification requires.

use std::path::PathBuf;

use crate::Env;

/// Cache directory, relative to a home directory.
pub const CACHE_IN_HOME: &str = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };

/// Configuration directory, relative to a home directory.
pub const CONFIG_IN_HOME: &str = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };

/// Data directory, relative to a home directory.
pub const DATA_IN_HOME: &str = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };

/// Returns the directory for files that can be made again. `None` if the home directory is unknown.
pub fn cache_dir(env: &dyn Env) -> Option<PathBuf> {
    base_dir(env, "XDG_CACHE_HOME", CACHE_IN_HOME)
}

/// Returns the directory of configuration files. `None` if the home directory is unknown.
pub fn config_dir(env: &dyn Env) -> Option<PathBuf> {
    base_dir(env, "XDG_CONFIG_HOME", CONFIG_IN_HOME)
}

/// Returns the directory for files that must be kept. `None` if the home directory is unknown.
pub fn data_dir(env: &dyn Env) -> Option<PathBuf> {
    base_dir(env, "XDG_DATA_HOME", DATA_IN_HOME)
}

fn base_dir(env: &dyn Env, variable: &str, in_home: &str) -> Option<PathBuf> {
    let configured = env.var(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    configured.or_else(|| Some(env.home_dir()?.join(in_home)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedEnv;

    #[test]
    fn variables_precede_the_home_directory() {
        let home = PathBuf::from("/home/ada");
        for (dir, variable, in_home) in [
            (cache_dir as fn(&dyn Env) -> _, "XDG_CACHE_HOME", CACHE_IN_HOME),
            (config_dir, "XDG_CONFIG_HOME", CONFIG_IN_HOME),
            (data_dir, "XDG_DATA_HOME", DATA_IN_HOME),
        ] {
            let of = |value: &str| dir(&FixedEnv::new([("HOME", "/home/ada"), (variable, value)]));
            assert_eq!(of("/x"), Some("/x".into()));
            assert_eq!(of("relative"), Some(home.join(in_home)));
            assert_eq!(of(""), Some(home.join(in_home)));
            assert_eq!(dir(&FixedEnv::default().with_account_home("/home/ada")), Some(home.join(in_home)));
            assert_eq!(dir(&FixedEnv::default()), None);
        }
    }

    #[cfg(not(target_os = "macos"))]
    #[test]
    fn defaults_are_those_of_the_specification() {
        assert_eq!([CACHE_IN_HOME, CONFIG_IN_HOME, DATA_IN_HOME], [".cache", ".config", ".local/share"]);
    }
}
