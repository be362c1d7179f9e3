//! Which programs may be run at all (KEP-3104).

use std::path::{Path, PathBuf};

use crate::lookup::{self, LookupError};
use crate::{Env, look_up};

/// Which plugins a user allows.
///
/// ```
/// use credlet_core::PluginPolicy;
///
/// let policy = PluginPolicy::new("Allowlist", Some(vec!["aws".into(), "/opt/acme/login".into()]))?;
/// assert!(PluginPolicy::new("Allowlist", Some(vec![])).is_err());
/// # Ok::<(), credlet_core::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginPolicy(Rule);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    AllowAll,
    DenyAll,
    Allowlist(Vec<String>),
}

impl PluginPolicy {
    /// Any program.
    pub const ALLOW_ALL: Self = Self(Rule::AllowAll);

    /// No program.
    pub const DENY_ALL: Self = Self(Rule::DenyAll);

    /// From the words of a `kuberc` file. An empty policy is `AllowAll`.
    ///
    /// # Errors
    /// When the words contradict each other: then nothing should be run until the person who wrote them has acted.
    pub fn new(policy: &str, allowlist: Option<Vec<String>>) -> Result<Self, PolicyError> {
        let rule = match (policy, allowlist) {
            ("" | "AllowAll", None) => Rule::AllowAll,
            ("DenyAll", None) => Rule::DenyAll,
            ("Allowlist", Some(entries)) => Rule::Allowlist(checked(entries)?),
            ("Allowlist", None) => return Err(PolicyError::NoAllowlist),
            ("" | "AllowAll" | "DenyAll", Some(_)) => {
                return Err(PolicyError::NeedlessAllowlist { policy: policy.to_owned() });
            }
            _ => return Err(PolicyError::UnknownPolicy),
        };
        Ok(Self(rule))
    }

    /// Decides about `command`, which `found` says where to find.
    ///
    /// # Errors
    /// When it may not be run. A program that is allowed by name and is missing is not an error here: that it is missing
    /// is the better message.
    pub fn check(&self, command: &str, found: &Result<PathBuf, LookupError>, env: &dyn Env) -> Result<(), PolicyError> {
        let entries = match &self.0 {
            Rule::AllowAll => return Ok(()),
            Rule::DenyAll => return Err(PolicyError::DenyAll { command: command.to_owned() }),
            Rule::Allowlist(entries) => entries,
        };
        let cleaned = lookup::clean(command);
        // `./aws` and `aws` are two programs: the one in this directory must not pass for the one in PATH.
        let names_path = command.contains('/') == cleaned.as_os_str().as_encoded_bytes().contains(&b'/');
        if names_path && entries.iter().any(|entry| Path::new(entry) == cleaned) {
            return Ok(());
        }
        let denied = || PolicyError::NotAllowed { command: command.to_owned() };
        let found = found
            .as_ref()
            .map_err(|reason| PolicyError::Unresolved { command: command.to_owned(), reason: reason.clone() })?;
        let found = lookup::clean(&found.to_string_lossy());
        // Of the entries, only namesakes can turn out to be the same file; the others need not be looked for.
        let same_name = |entry: &&String| Path::new(entry).file_name() == found.file_name();
        let allowed = entries.iter().any(|entry| Path::new(entry) == found)
            || entries.iter().filter(same_name).any(|entry| look_up(entry, env).is_ok_and(|path| path == found));
        if allowed { Ok(()) } else { Err(denied()) }
    }
}

fn checked(entries: Vec<String>) -> Result<Vec<String>, PolicyError> {
    if entries.is_empty() {
        return Err(PolicyError::EmptyAllowlist);
    }
    for (index, entry) in entries.iter().enumerate() {
        let cleaned = lookup::clean(entry);
        if entry.is_empty() {
            return Err(PolicyError::EmptyEntry { number: index + 1 });
        }
        if cleaned.as_os_str() != entry.as_str() {
            let (entry, cleaned) = (entry.clone(), cleaned.display().to_string());
            return Err(PolicyError::NotNormalised { entry, cleaned });
        }
    }
    Ok(entries)
}

/// Why a program is not run, or why the policy itself is none. The person who wrote the policy must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Nothing may be run.
    #[error("`{command}` is not run: the plugin policy is DenyAll")]
    DenyAll {
        /// The program.
        command: String,
    },
    /// It is not on the list.
    #[error("`{command}` is not run: it is not on the plugin allowlist")]
    NotAllowed {
        /// The program.
        command: String,
    },
    /// Whether it is on the list cannot be told.
    #[error("`{command}` is not run: the plugin allowlist cannot be applied, because {reason}")]
    Unresolved {
        /// The program.
        command: String,
        /// Why it cannot be found.
        reason: LookupError,
    },
    /// Not a policy.
    #[error("the plugin policy is none of AllowAll, DenyAll and Allowlist")]
    UnknownPolicy,
    /// A list that has no effect.
    #[error("the plugin policy is {policy:?}, with which an allowlist has no meaning: remove one of them")]
    NeedlessAllowlist {
        /// The policy.
        policy: String,
    },
    /// A policy without its list.
    #[error("the plugin policy is Allowlist, but there is no allowlist")]
    NoAllowlist,
    /// A policy with an empty list.
    #[error("the plugin policy is Allowlist, but the allowlist is empty: DenyAll says that more clearly")]
    EmptyAllowlist,
    /// An entry without a name.
    #[error("entry #{number} of the plugin allowlist is empty")]
    EmptyEntry {
        /// Which, from 1.
        number: usize,
    },
    /// An entry that could never equal anything.
    #[error("the plugin allowlist's {entry:?} must be written {cleaned:?}")]
    NotNormalised {
        /// As written.
        entry: String,
        /// As it should be.
        cleaned: String,
    },
}
