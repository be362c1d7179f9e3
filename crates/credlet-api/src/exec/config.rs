use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ApiVersion;
use crate::Secret;

/// The `exec` section of a kubeconfig user: the plugin to run and its arguments.
///
/// ```
/// use credlet_api::exec::{ApiVersion, ExecConfig};
///
/// let config = ExecConfig::new("aws", ApiVersion::V1).args(["eks", "get-token", "--cluster-name", "blue"]);
/// config.validate().unwrap();
/// ```
#[derive(Clone, PartialEq)]
pub struct ExecConfig {
    /// Name of the program, to be looked up in `PATH`, or its path. The kubeconfig loader resolves relative paths.
    pub command: String,
    /// Arguments, passed without a shell and without expansion.
    pub args: Vec<String>,
    /// Variables to add to the environment. Later ones override earlier ones.
    pub env: Vec<ExecEnvVar>,
    /// Version of `KUBERNETES_EXEC_INFO`, and of the expected output.
    pub api_version: ApiVersion,
    /// Message for the user if the program is not installed. Untrusted text: escape it with
    /// [`escape_control_chars`](crate::escape_control_chars).
    pub install_hint: String,
    /// Whether to pass the cluster to the plugin.
    pub provide_cluster_info: bool,
    /// Whether the plugin may use standard input to prompt the user.
    pub interactive_mode: InteractiveMode,
}

impl ExecConfig {
    /// Creates a configuration without arguments, with [`InteractiveMode::IfAvailable`].
    pub fn new(command: impl Into<String>, api_version: ApiVersion) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            api_version,
            install_hint: String::new(),
            provide_cluster_info: false,
            interactive_mode: InteractiveMode::IfAvailable,
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.env.push(ExecEnvVar { name: name.into(), value: value.into() });
        self
    }

    /// Sets the interactive mode.
    #[must_use]
    pub fn interactive_mode(mut self, mode: InteractiveMode) -> Self {
        self.interactive_mode = mode;
        self
    }

    /// Sets the message for users who have not installed the program.
    #[must_use]
    pub fn install_hint(mut self, hint: impl Into<String>) -> Self {
        self.install_hint = hint.into();
        self
    }

    /// Sets whether the cluster is passed to the plugin.
    #[must_use]
    pub fn provide_cluster_info(mut self, provide: bool) -> Self {
        self.provide_cluster_info = provide;
        self
    }

    /// Checks that the plugin can be started.
    ///
    /// # Errors
    /// All violated rules; the list is never empty.
    pub fn validate(&self) -> Result<(), Vec<ExecConfigError>> {
        let has_nul = |text: &str| text.contains('\0');
        let mut errors = Vec::new();
        if self.command.is_empty() {
            errors.push(ExecConfigError::MissingCommand);
        }
        if has_nul(&self.command) {
            errors.push(ExecConfigError::NulCharacter { field: "command".to_owned() });
        }
        for (index, arg) in self.args.iter().enumerate() {
            if has_nul(arg) {
                errors.push(ExecConfigError::NulCharacter { field: format!("args[{index}]") });
            }
        }
        for (index, variable) in self.env.iter().enumerate() {
            if variable.name.is_empty() {
                errors.push(ExecConfigError::MissingEnvName { index });
            }
            if has_nul(&variable.name) || has_nul(variable.value.expose()) {
                errors.push(ExecConfigError::NulCharacter { field: format!("env[{index}]") });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// Shows the number of arguments and variables only, because they often hold secrets.
impl fmt::Debug for ExecConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecConfig")
            .field("command", &self.command)
            .field("args", &format_args!("[{} redacted]", self.args.len()))
            .field("env", &format_args!("[{} redacted]", self.env.len()))
            .field("api_version", &self.api_version)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .field("interactive_mode", &self.interactive_mode)
            .finish_non_exhaustive()
    }
}

/// An environment variable in an [`ExecConfig`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExecEnvVar {
    /// Name of the variable.
    pub name: String,
    /// Value, without expansion.
    pub value: Secret,
}

/// Whether a plugin may use standard input to prompt the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InteractiveMode {
    /// Standard input is always the null device.
    Never,
    /// The plugin gets standard input if that is a terminal and not used by the client.
    IfAvailable,
    /// The plugin requires standard input and is not run without a terminal.
    Always,
}

impl InteractiveMode {
    /// Returns the spelling in a kubeconfig.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "Never",
            Self::IfAvailable => "IfAvailable",
            Self::Always => "Always",
        }
    }
}

impl fmt::Display for InteractiveMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for InteractiveMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for InteractiveMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl FromStr for InteractiveMode {
    type Err = ExecConfigError;

    fn from_str(text: &str) -> Result<Self, ExecConfigError> {
        [Self::Never, Self::IfAvailable, Self::Always]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or(ExecConfigError::InvalidInteractiveMode)
    }
}

/// Error in an [`ExecConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecConfigError {
    /// `command` is empty.
    #[error("`command` is empty")]
    MissingCommand,
    /// A variable has no name.
    #[error("`env[{index}].name` is empty")]
    MissingEnvName {
        /// Index of the variable, from 0.
        index: usize,
    },
    /// A NUL character cannot be passed to a program.
    #[error("invalid `{field}`: contains a NUL character")]
    NulCharacter {
        /// Path of the field, such as `args[1]`.
        field: String,
    },
    /// The mode is unknown.
    #[error("invalid `interactiveMode`: must be Never, IfAvailable or Always (case-sensitive)")]
    InvalidInteractiveMode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_args_and_env() {
        let config = ExecConfig::new("aws", ApiVersion::V1).args(["--secret=hunter2"]).env("PASSWORD", "hunter2");
        let printed = format!("{config:?} {config:#?}");
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("1 redacted"), "{printed}");
    }

    #[test]
    fn validate_returns_all_errors() {
        let config = ExecConfig::new("", ApiVersion::V1).args(["ok", "a\0b"]).env("", "x").env("N", "a\0b");
        assert_eq!(
            config.validate(),
            Err(vec![
                ExecConfigError::MissingCommand,
                ExecConfigError::NulCharacter { field: "args[1]".to_owned() },
                ExecConfigError::MissingEnvName { index: 0 },
                ExecConfigError::NulCharacter { field: "env[1]".to_owned() },
            ])
        );
    }

    #[test]
    fn interactive_mode_is_case_sensitive() {
        assert_eq!(ExecConfig::new("aws", ApiVersion::V1).env("EMPTY", "").validate(), Ok(()));
        assert_eq!("Never".parse(), Ok(InteractiveMode::Never));
        assert_eq!("never".parse::<InteractiveMode>(), Err(ExecConfigError::InvalidInteractiveMode));
        assert_eq!("".parse::<InteractiveMode>(), Err(ExecConfigError::InvalidInteractiveMode));
    }
}
