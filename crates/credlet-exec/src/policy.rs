//! The credential plugin policy (KEP-3104): which programs may run.
//!
//! Two functions determine the policy. [`plugin_policy`] is for programs that a kubeconfig names as plugins.
//! [`program_policy`] is for programs that the arguments or the environment of this process name: after `--`, in
//! `$BROWSER`, as an AWS `credential_process`. Both differ between a plugin run and a command line, see
//! [`is_plugin_run`].

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use credlet_api::exec::EXEC_INFO_ENV;

use crate::lookup::{self, LookupError};
use crate::{Env, PolicyFileError, find_program, plugin_policy};

/// The programs that the user allows.
///
/// ```
/// use credlet_exec::PluginPolicy;
///
/// let policy = PluginPolicy::new("Allowlist", Some(vec!["aws".into(), "/opt/acme/login".into()]))?;
/// assert!(PluginPolicy::new("Allowlist", Some(vec![])).is_err());
/// # Ok::<(), credlet_exec::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginPolicy(
    /// A program must be allowed by all rules.
    Cow<'static, [PolicyRule]>,
);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PolicyRule {
    DenyAll,
    Allowlist(Vec<String>),
}

impl PluginPolicy {
    /// Allows all programs.
    pub const ALLOW_ALL: Self = Self(Cow::Borrowed(&[]));

    /// Denies all programs.
    pub const DENY_ALL: Self = Self(Cow::Borrowed(DENY_ALL));

    /// Creates the policy from the fields of a `kuberc` file. An empty `policy` means `AllowAll`.
    ///
    /// # Errors
    /// If the fields contradict each other, or a value is unknown or would never match. No program may run until they
    /// are corrected.
    pub fn new(policy: &str, allowlist: Option<Vec<String>>) -> Result<Self, PolicyError> {
        match (policy, allowlist) {
            ("" | "AllowAll", None) => Ok(Self::ALLOW_ALL),
            ("DenyAll", None) => Ok(Self::DENY_ALL),
            ("Allowlist", Some(entries)) => Ok(Self(vec![PolicyRule::Allowlist(validate_allowlist(entries)?)].into())),
            ("Allowlist", None) => Err(PolicyError::MissingAllowlist),
            ("" | "AllowAll" | "DenyAll", Some(_)) => {
                Err(PolicyError::UnexpectedAllowlist { policy: policy.to_owned() })
            }
            _ => Err(PolicyError::UnknownPolicy),
        }
    }

    /// Returns the policy that allows what both policies allow.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for rule in other.0.into_owned() {
            if !self.0.contains(&rule) {
                self.0.to_mut().push(rule);
            }
        }
        self
    }

    /// Whether the policy denies all programs.
    pub fn denies_all(&self) -> bool {
        self.0.contains(&PolicyRule::DenyAll)
    }

    /// Checks `command`, for which [`find_program`] returned `found`.
    ///
    /// # Errors
    /// Fails if the program may not run. A missing program that is allowed by name passes, so that the caller reports that
    /// it is missing.
    pub fn check(&self, command: &str, found: &Result<PathBuf, LookupError>, env: &dyn Env) -> Result<(), PolicyError> {
        self.0.iter().try_for_each(|rule| match rule {
            PolicyRule::DenyAll => Err(PolicyError::DenyAll { command: command.to_owned() }),
            PolicyRule::Allowlist(entries) => check_allowlist(entries, command, found, env),
        })
    }

    /// Finds the program that `command` names and checks it.
    ///
    /// # Errors
    /// Fails if the program is not found or may not run.
    pub fn resolve(&self, command: &str, env: &dyn Env) -> Result<PathBuf, ProgramError> {
        let found = find_program(command, env);
        self.check(command, &found, env)?;
        Ok(found?)
    }
}

/// A separate constant, because a value with a destructor is not promoted to `'static` inside another expression.
const DENY_ALL: &[PolicyRule] = &[PolicyRule::DenyAll];

/// Whether this process is a credential plugin, started by a Kubernetes client or by another plugin.
///
/// In a plugin run the arguments and the environment are the kubeconfig's (`exec.args`, `exec.env`), so neither may loosen a policy.
/// The client sets `KUBERNETES_EXEC_INFO` after it has applied `exec.env`, so a kubeconfig can neither remove nor empty
/// it; a program in between could (`env -u`), but that program is itself subject to the policy.
pub fn is_plugin_run(env: &dyn Env) -> bool {
    env.var(EXEC_INFO_ENV).is_some()
}

/// Returns the policy for programs that the arguments or the environment of this process name: [`plugin_policy`] in a
/// plugin run. On the command line all programs are allowed, since the user entered the command.
///
/// # Errors
/// Fails like [`plugin_policy`].
pub fn program_policy(kuberc: Option<&Path>, env: &dyn Env) -> Result<PluginPolicy, PolicyFileError> {
    if is_plugin_run(env) { plugin_policy(kuberc, env) } else { Ok(PluginPolicy::ALLOW_ALL) }
}

/// Finds the program that `command` names and checks it against [`program_policy`].
///
/// # Errors
/// If the policy is invalid or denies the program, or the program is not found.
pub fn resolve_program(command: &str, env: &dyn Env) -> Result<PathBuf, ProgramError> {
    program_policy(None, env)?.resolve(command, env)
}

fn check_allowlist(
    entries: &[String],
    command: &str,
    found: &Result<PathBuf, LookupError>,
    env: &dyn Env,
) -> Result<(), PolicyError> {
    let cleaned = lookup::clean(command);
    let is_path = command.contains('/');
    // `./aws` in the current directory must not match the entry `aws`, which is searched for in PATH.
    let stays_path = is_path == cleaned.as_os_str().as_encoded_bytes().contains(&b'/');
    let denied = || PolicyError::NotAllowed { command: command.to_owned() };
    let is_listed = |path: &Path| entries.iter().any(|entry| Path::new(entry) == path);
    if stays_path && is_listed(&cleaned) && (!is_path || found.as_ref().map_or(true, |path| cleaning_keeps_file(path)))
    {
        return Ok(());
    }
    let found = found
        .as_ref()
        .map_err(|reason| PolicyError::Unresolved { command: command.to_owned(), reason: reason.clone() })?;
    if !cleaning_keeps_file(found) {
        return Err(denied());
    }
    let found = lookup::clean(&found.to_string_lossy());
    // Only an entry with the same file name can resolve to the same path.
    let same_name = |entry: &&String| Path::new(entry).file_name() == found.file_name();
    let allowed = is_listed(&found)
        || entries.iter().filter(same_name).any(|entry| find_program(entry, env).is_ok_and(|path| path == found));
    if allowed { Ok(()) } else { Err(denied()) }
}

/// Whether `path` refers to the same file after removing `..` textually. With a symbolic link it may not: if `/x/link` points to
/// `/tmp/a/b`, `/x/link/../../usr/bin/aws` is `/tmp/usr/bin/aws`, and its cleaned form is `/usr/bin/aws`.
fn cleaning_keeps_file(path: &Path) -> bool {
    let has_parent = path.components().any(|part| part == std::path::Component::ParentDir);
    let dir = |path: &Path| path.parent().and_then(|dir| dir.canonicalize().ok());
    !has_parent || dir(path).is_some_and(|real| Some(real) == dir(&lookup::clean(&path.to_string_lossy())))
}

fn validate_allowlist(entries: Vec<String>) -> Result<Vec<String>, PolicyError> {
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
            return Err(PolicyError::NotNormalized { entry, cleaned });
        }
    }
    Ok(entries)
}

/// A program was not found or may not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The policy file is invalid.
    #[error(transparent)]
    PolicyFile(#[from] PolicyFileError),
    /// The policy denies the program.
    #[error(transparent)]
    Denied(#[from] PolicyError),
    /// The program is missing or not executable.
    #[error(transparent)]
    NotFound(#[from] LookupError),
}

impl ProgramError {
    /// Returns actions for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::PolicyFile(_) | Self::NotFound(_) => Vec::new(),
            Self::Denied(error) => error.hints(),
        }
    }
}

/// A program is denied, or the policy itself is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The policy denies all programs.
    #[error("`{command}` is not allowed: the plugin policy is DenyAll")]
    DenyAll {
        /// Command as configured, before the look-up.
        command: String,
    },
    /// The allowlist has no matching entry.
    #[error("`{command}` is not allowed: it is not on the plugin allowlist")]
    NotAllowed {
        /// Command as configured, before the look-up.
        command: String,
    },
    /// The program was not found, so it cannot be compared with the allowlist.
    #[error("`{command}` is not allowed: the plugin allowlist cannot be applied: {reason}")]
    Unresolved {
        /// Command as configured, before the look-up.
        command: String,
        /// Result of the look-up.
        reason: LookupError,
    },
    /// A policy other than `AllowAll`, `DenyAll` and `Allowlist`.
    #[error("unknown plugin policy: must be AllowAll, DenyAll or Allowlist")]
    UnknownPolicy,
    /// An allowlist with a policy other than `Allowlist`.
    #[error("unexpected plugin allowlist: must not be set with the plugin policy {policy:?}")]
    UnexpectedAllowlist {
        /// `AllowAll`, `DenyAll`, or empty, which means `AllowAll`.
        policy: String,
    },
    /// `Allowlist` without an allowlist.
    #[error("missing plugin allowlist: the plugin policy is Allowlist")]
    MissingAllowlist,
    /// `Allowlist` with an empty allowlist.
    #[error("the plugin allowlist must not be empty: use DenyAll to deny all plugins")]
    EmptyAllowlist,
    /// An empty entry.
    #[error("invalid plugin allowlist: entry #{number} is empty")]
    EmptyEntry {
        /// Position in the list, from 1.
        number: usize,
    },
    /// An entry that is not a cleaned path and would never match.
    #[error("invalid plugin allowlist: {entry:?} must be written as {cleaned:?}")]
    NotNormalized {
        /// The entry as written.
        entry: String,
        /// Its cleaned form.
        cleaned: String,
    },
}

impl PolicyError {
    /// Returns actions for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotAllowed { .. } | Self::Unresolved { .. } => {
                vec!["if you trust it, add it to `credentialPluginAllowlist` in your kuberc file".to_owned()]
            }
            _ => Vec::new(),
        }
    }
}
