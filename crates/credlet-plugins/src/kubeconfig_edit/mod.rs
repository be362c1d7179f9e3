//! Putting a cache in front of a kubeconfig user's plugin, and taking it away, in a text that somebody else wrote.
//!
//! People keep comments, anchors and an order of their own in their kubeconfig, so it is never written anew: one scalar
//! is replaced, and some items are put in front of a list or cut from it. Where that is, is a guess from the line; whether
//! the guess was right, the reader of kubeconfigs says: all of the new text must mean what the old one did, but for this
//! one section. What no guess fits is left alone, with an error that names the line.

mod edit;
mod save;

use std::path::Path;

use credlet_api::Secret;
use credlet_api::kubeconfig::{Config, DecodeError, ExecSection};
use zeroize::Zeroizing;

pub use self::save::{SaveError, save, save_knowing};

/// A user with an exec plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecUser {
    /// The user's name. Foreign text.
    pub name: String,
    /// The plugin behind the cache, or without one.
    pub plugin: String,
    /// Whether there is a cache in front of it.
    pub wrapped: bool,
}

/// All users with an exec plugin, in the file's order.
///
/// # Errors
/// When it is no kubeconfig.
pub fn exec_users(text: &str) -> Result<Vec<ExecUser>, EditError> {
    let config = Config::decode(text.as_bytes()).map_err(EditError::Unreadable)?;
    let users = config.users.iter().filter_map(|user| {
        let exec = &user.item.exec.as_ref()?.value;
        let behind = wrapped(exec);
        let plugin = behind.map_or_else(|| exec.command.value.clone(), |at| exec.args[at].expose().to_owned());
        Some(ExecUser { name: user.name.clone(), plugin, wrapped: behind.is_some() })
    });
    Ok(users.collect())
}

/// The text with `credlet cache [options] --` in front of the plugin of this user; `program` is how credlet is called.
///
/// # Errors
/// When there is no such user, its plugin is wrapped already, or the text has a form that cannot be edited safely.
pub fn wrap(text: &str, user: &str, program: &str, options: &[String]) -> Result<Zeroizing<String>, EditError> {
    let exec = section(text, user)?;
    if wrapped(&exec).is_some() {
        return Err(EditError::Wrapped { user: user.to_owned() });
    }
    let words = ["cache"].into_iter().chain(options.iter().map(String::as_str));
    let front: Vec<_> = words.chain(["--", &exec.command.value]).map(Secret::from).collect();
    edit::exec(text, user, program, 0, &front).ok_or(EditError::Form { line: exec.command.line })
}

/// The text with that taken away again.
///
/// # Errors
/// As for [`wrap`].
pub fn unwrap(text: &str, user: &str) -> Result<Zeroizing<String>, EditError> {
    let exec = section(text, user)?;
    let plugin = wrapped(&exec).ok_or_else(|| EditError::NotWrapped { user: user.to_owned() })?;
    let command = exec.args[plugin].expose();
    edit::exec(text, user, command, plugin + 1, &[]).ok_or(EditError::Form { line: exec.command.line })
}

fn section(text: &str, user: &str) -> Result<ExecSection, EditError> {
    let config = Config::decode(text.as_bytes()).map_err(EditError::Unreadable)?;
    let found = config.users.into_iter().find(|entry| entry.name == user);
    let found = found.ok_or_else(|| EditError::NoUser { user: user.to_owned() })?;
    let exec = found.item.exec.ok_or_else(|| EditError::NoPlugin { user: user.to_owned() })?;
    if exec.command.is_empty() { Err(EditError::NoPlugin { user: user.to_owned() }) } else { Ok(exec.value) }
}

/// Which of the arguments is the plugin behind a cache of ours. `None`: there is no cache.
fn wrapped(exec: &ExecSection) -> Option<usize> {
    let ours = Path::new(&exec.command.value).file_name().is_some_and(|name| name == "credlet");
    let cache = exec.args.first().is_some_and(|word| word.expose() == "cache");
    let end = exec.args.iter().position(|word| word.expose() == "--").filter(|_| ours && cache)?;
    (end + 1 < exec.args.len()).then_some(end + 1)
}

/// Why a kubeconfig is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// It is none.
    #[error("it is no kubeconfig: {0}")]
    Unreadable(DecodeError),
    /// There is no such user.
    #[error("it has no user {user:?}")]
    NoUser {
        /// The name.
        user: String,
    },
    /// The user has no plugin.
    #[error("its user {user:?} has no exec plugin")]
    NoPlugin {
        /// The name.
        user: String,
    },
    /// There is a cache already.
    #[error("its user {user:?} has a cache already")]
    Wrapped {
        /// The name.
        user: String,
    },
    /// There is no cache.
    #[error("its user {user:?} has no cache")]
    NotWrapped {
        /// The name.
        user: String,
    },
    /// It is written in a way that we do not trust ourselves to edit.
    #[error("line {line}: the exec section is shared between users, or written in a way that cannot be edited safely")]
    Form {
        /// Where.
        line: usize,
    },
}

#[cfg(test)]
mod tests;
