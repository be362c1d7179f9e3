use std::fmt;
use std::str::FromStr;

use super::ApiVersion;
use crate::Secret;

/// The `exec` section of a kubeconfig user: which program to run, and how.
///
/// ```
/// use credlet_api::exec::{ApiVersion, ExecConfig};
///
/// let config = ExecConfig::new("aws", ApiVersion::V1).args(["eks", "get-token", "--cluster-name", "blue"]);
/// config.check().unwrap();
/// ```
#[derive(Clone, PartialEq)]
pub struct ExecConfig {
    /// The program: a name to be looked up in PATH, or a path. Paths relative to a kubeconfig are made absolute by
    /// whoever reads it.
    pub command: String,
    /// Its arguments, passed as they are: no shell, no expansion.
    pub args: Vec<String>,
    /// Variables added to the program's environment, later ones over earlier ones.
    pub env: Vec<ExecEnvVar>,
    /// The version in which the program is asked and must answer.
    pub api_version: ApiVersion,
    /// Shown when the program is missing. Foreign text: make it [visible](crate::visible) first.
    pub install_hint: String,
    /// Whether the program is told about the cluster.
    pub provide_cluster_info: bool,
    /// Whether the program may talk to a person.
    pub interactive_mode: InteractiveMode,
}

impl ExecConfig {
    /// A program without arguments that may talk to a person if there is one.
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

    /// With these arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// With one more variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        self.env.push(ExecEnvVar { name: name.into(), value: value.into() });
        self
    }

    /// With this mode.
    #[must_use]
    pub fn interactive_mode(mut self, mode: InteractiveMode) -> Self {
        self.interactive_mode = mode;
        self
    }

    /// With this hint for people who lack the program.
    #[must_use]
    pub fn install_hint(mut self, hint: impl Into<String>) -> Self {
        self.install_hint = hint.into();
        self
    }

    /// Telling the program about the cluster, or not.
    #[must_use]
    pub fn provide_cluster_info(mut self, provide: bool) -> Self {
        self.provide_cluster_info = provide;
        self
    }

    /// What no program could be run with, all of it at once.
    ///
    /// # Errors
    /// Never an empty list.
    pub fn check(&self) -> Result<(), Vec<ConfigError>> {
        let has_nul = |text: &str| text.contains('\0');
        let mut errors = Vec::new();
        if self.command.is_empty() {
            errors.push(ConfigError::NoCommand);
        }
        if has_nul(&self.command) {
            errors.push(ConfigError::Nul { field: "command".to_owned() });
        }
        for (index, arg) in self.args.iter().enumerate() {
            if has_nul(arg) {
                errors.push(ConfigError::Nul { field: format!("args[{index}]") });
            }
        }
        for (index, variable) in self.env.iter().enumerate() {
            if variable.name.is_empty() {
                errors.push(ConfigError::NoEnvName { index });
            }
            if has_nul(&variable.name) || has_nul(variable.value.expose()) {
                errors.push(ConfigError::Nul { field: format!("env[{index}]") });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// Arguments and variables often hold secrets, so only their number is shown.
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

/// A variable in an [`ExecConfig`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExecEnvVar {
    /// Its name.
    pub name: String,
    /// Its value, taken literally.
    pub value: Secret,
}

/// Whether a plugin may talk to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InteractiveMode {
    /// It never does; its standard input is the null device.
    Never,
    /// It does if standard input is a terminal that nobody else needs.
    IfAvailable,
    /// It must; without such a terminal it is not run.
    Always,
}

impl InteractiveMode {
    /// As a kubeconfig spells it.
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

impl FromStr for InteractiveMode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        [Self::Never, Self::IfAvailable, Self::Always]
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or(ConfigError::InteractiveMode)
    }
}

/// A mistake in an [`ExecConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no program to run.
    #[error("`command` is empty")]
    NoCommand,
    /// A variable without a name.
    #[error("`env[{index}].name` is empty")]
    NoEnvName {
        /// Which one, from 0.
        index: usize,
    },
    /// A NUL cannot be passed to a program.
    #[error("`{field}` contains a NUL character")]
    Nul {
        /// Where.
        field: String,
    },
    /// Not a mode.
    #[error("`interactiveMode` is none of Never, IfAvailable and Always (the case matters)")]
    InteractiveMode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_a_config_shows_neither_arguments_nor_variables() {
        let config = ExecConfig::new("aws", ApiVersion::V1).args(["--secret=hunter2"]).env("PASSWORD", "hunter2");
        let printed = format!("{config:?} {config:#?}");
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("1 redacted"), "{printed}");
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let config = ExecConfig::new("", ApiVersion::V1).args(["ok", "a\0b"]).env("", "x").env("N", "a\0b");
        assert_eq!(
            config.check(),
            Err(vec![
                ConfigError::NoCommand,
                ConfigError::Nul { field: "args[1]".to_owned() },
                ConfigError::NoEnvName { index: 0 },
                ConfigError::Nul { field: "env[1]".to_owned() },
            ])
        );
    }

    #[test]
    fn an_empty_value_is_fine_and_the_case_of_a_mode_matters() {
        assert_eq!(ExecConfig::new("aws", ApiVersion::V1).env("EMPTY", "").check(), Ok(()));
        assert_eq!("Never".parse(), Ok(InteractiveMode::Never));
        assert_eq!("never".parse::<InteractiveMode>(), Err(ConfigError::InteractiveMode));
        assert_eq!("".parse::<InteractiveMode>(), Err(ConfigError::InteractiveMode));
    }
}
