//! Inserts `credlet cache` in front of the exec plugin of a kubeconfig user, and removes it.
//!
//! Users keep comments, anchors and their own order in a kubeconfig, so it is edited and not rewritten: one scalar is
//! replaced, and items are inserted at or removed from the beginning of a list. Candidate edits are derived from the line
//! numbers; the first one is used whose decoded result equals the old file except for the intended change. If none does,
//! the file is left unchanged and the error has the line.

mod exec_section;
mod save;

use std::ffi::OsStr;
use std::path::Path;

use credlet_api::Secret;
use credlet_api::kubeconfig::{ExecSection, KubeconfigDecodeError, KubeconfigFile};
use credlet_platform::session_env;
use zeroize::Zeroizing;

pub use self::save::{SaveError, save, save_with_backup};

/// A user with an exec plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecUser {
    /// User name, untrusted text.
    pub name: String,
    /// Command of the plugin, without the cache.
    pub plugin: String,
    /// Whether the plugin is run through the cache.
    pub wrapped: bool,
}

/// Returns all users with an exec plugin, in the order of the file.
///
/// # Errors
/// Returns an error if the text is not a kubeconfig.
pub fn exec_users(text: &str) -> Result<Vec<ExecUser>, EditError> {
    let config = KubeconfigFile::decode(text.as_bytes()).map_err(EditError::Unreadable)?;
    let users = config.users.iter().filter_map(|user| {
        let exec = &user.item.exec.as_ref()?.value;
        let wrapper = CacheWrapper::of(exec);
        let plugin = wrapper.as_ref().map_or(&*exec.command.value, |wrapper| wrapper.plugin(exec)).to_owned();
        Some(ExecUser { name: user.name.clone(), plugin, wrapped: wrapper.is_some() })
    });
    Ok(users.collect())
}

/// Returns the text with `credlet cache [options] --` in front of the plugin of this user; `program` is the credlet command.
/// Adds `--env NAME` for each variable of `exec.env` that is not part of the cache key by default.
///
/// # Errors
/// Returns an error if the user does not exist, its plugin is already wrapped, or the text cannot be edited safely.
pub fn wrap(text: &str, user: &str, program: &str, options: &[String]) -> Result<Zeroizing<String>, EditError> {
    let exec = section(text, user)?;
    if CacheWrapper::of(&exec).is_some() {
        return Err(EditError::Wrapped { user: user.to_owned() });
    }
    // Variables of terminals and sessions are not part of the cache key. If the kubeconfig sets one, two users may differ
    // in it, so it is added to the key.
    let session = exec.env.iter().filter(|variable| {
        let (name, value): (&OsStr, &OsStr) = (variable.name.value.as_ref(), variable.value.expose().as_ref());
        session_env::is_session_variable(name, value)
    });
    let named = session.flat_map(|variable| ["--env", variable.name.value.as_str()]);
    let args = ["cache"].into_iter().chain(options.iter().map(String::as_str)).chain(named);
    let prefix: Vec<_> = args.chain(["--", &exec.command.value]).map(Secret::from).collect();
    exec_section::edit(text, user, program, 0, &prefix).ok_or(EditError::Form { line: exec.command.line })
}

/// Returns the text without the cache in front of the plugin of this user.
///
/// # Errors
/// Returns an error if the user does not exist, its plugin is not wrapped, or the text cannot be edited safely.
pub fn unwrap(text: &str, user: &str) -> Result<Zeroizing<String>, EditError> {
    let exec = section(text, user)?;
    let wrapper = CacheWrapper::of(&exec).ok_or_else(|| EditError::NotWrapped { user: user.to_owned() })?;
    let arguments = match &wrapper {
        CacheWrapper::Arguments { plugin } => plugin + 1,
        CacheWrapper::Link { .. } => 0,
    };
    let command = wrapper.plugin(&exec);
    exec_section::edit(text, user, command, arguments, &[]).ok_or(EditError::Form { line: exec.command.line })
}

fn section(text: &str, user: &str) -> Result<ExecSection, EditError> {
    let config = KubeconfigFile::decode(text.as_bytes()).map_err(EditError::Unreadable)?;
    let found = config.users.into_iter().find(|entry| entry.name == user);
    let found = found.ok_or_else(|| EditError::NoUser { user: user.to_owned() })?;
    let exec = found.item.exec.ok_or_else(|| EditError::NoPlugin { user: user.to_owned() })?;
    if exec.command.is_empty() { Err(EditError::NoPlugin { user: user.to_owned() }) } else { Ok(exec.value) }
}

/// Form in which a plugin is run through the cache.
enum CacheWrapper {
    /// `credlet cache … -- PLUGIN`, `credlet plugin cache … -- PLUGIN` or `credlet-cache … -- PLUGIN`.
    Arguments {
        /// Index of the plugin in the arguments.
        plugin: usize,
    },
    /// The link `credlet-cache-PLUGIN`.
    Link {
        /// Name of the plugin.
        plugin: String,
    },
}

impl CacheWrapper {
    /// Returns `None` if the plugin is run without the cache.
    fn of(exec: &ExecSection) -> Option<Self> {
        let name = Path::new(&exec.command.value).file_name()?.to_str()?;
        let args: Vec<_> = exec.args.iter().take(2).map(Secret::expose).collect();
        let is_cache = match name {
            "credlet" => matches!(args.as_slice(), ["cache", ..] | ["plugin", "cache"]),
            "credlet-cache" => true,
            _ => {
                let plugin = name.strip_prefix("credlet-cache-").filter(|plugin| !plugin.is_empty())?;
                return Some(Self::Link { plugin: plugin.to_owned() });
            }
        };
        let end = exec.args.iter().position(|arg| arg.expose() == "--").filter(|_| is_cache)?;
        (end + 1 < exec.args.len()).then_some(Self::Arguments { plugin: end + 1 })
    }

    fn plugin<'a>(&'a self, exec: &'a ExecSection) -> &'a str {
        match self {
            Self::Arguments { plugin } => exec.args[*plugin].expose(),
            Self::Link { plugin } => plugin,
        }
    }
}

/// A kubeconfig that was not edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text is not a kubeconfig.
    #[error("invalid kubeconfig: {0}")]
    Unreadable(KubeconfigDecodeError),
    /// The user does not exist.
    #[error("user {user:?} not found")]
    NoUser {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// The user has no plugin.
    #[error("missing exec plugin of user {user:?}")]
    NoPlugin {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// The plugin is already run through the cache.
    #[error("exec plugin of user {user:?} is already cached")]
    Wrapped {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// The plugin is not run through the cache.
    #[error("exec plugin of user {user:?} is not a cached one")]
    NotWrapped {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// No candidate edit has the intended meaning.
    #[error("line {line}: cannot edit the exec section safely: it is shared between users or has an unsupported form")]
    Form {
        /// Line of the exec section.
        line: usize,
    },
}

#[cfg(test)]
mod tests;
