//! Environment variables of a plugin.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use credlet_api::exec::{EXEC_INFO_ENV, ExecConfig};

use crate::Env;

/// Selects the variables of this process that a plugin inherits. Variables of the kubeconfig are always passed.
///
/// A pattern is a name, or a prefix followed by `*`.
///
/// ```
/// use credlet_exec::EnvInheritance;
///
/// // Withhold the secrets of this program:
/// let inherit = EnvInheritance::AllExcept(vec!["MY_APP_*".into(), "DATABASE_URL".into()]);
/// assert!(inherit.allows("HOME".as_ref()));
/// assert!(!inherit.allows("MY_APP_TOKEN".as_ref()));
/// // Inherit no variable:
/// assert!(!EnvInheritance::NONE.allows("HOME".as_ref()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvInheritance {
    /// All variables except those that match a pattern. kubectl passes all.
    AllExcept(Vec<String>),
    /// Only variables that match a pattern.
    Only(Vec<String>),
}

impl EnvInheritance {
    /// Inherits all variables, as kubectl does.
    pub const ALL: Self = Self::AllExcept(Vec::new());

    /// Inherits no variable: the plugin gets only those of its configuration.
    pub const NONE: Self = Self::Only(Vec::new());

    /// Whether a variable of this name is inherited.
    pub fn allows(&self, name: &OsStr) -> bool {
        let any_matches = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        match self {
            Self::AllExcept(patterns) => !any_matches(patterns),
            Self::Only(patterns) => any_matches(patterns),
        }
    }
}

impl Default for EnvInheritance {
    fn default() -> Self {
        Self::ALL
    }
}

fn matches(pattern: &str, name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// Builds the environment of a child process: inherited variables, then `configured`. The last value of a name wins.
///
/// `KUBERNETES_EXEC_INFO` is always inherited: it marks a [plugin run](crate::is_plugin_run), and its restrictions must
/// apply to child processes as well.
pub fn build_env<'a>(
    env: &dyn Env,
    inherit: &EnvInheritance,
    configured: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(OsString, OsString)> {
    let inherited = env.vars().into_iter().filter(|(name, _)| inherit.allows(name) || name == EXEC_INFO_ENV);
    let configured = configured.into_iter().map(|(name, value)| split_assignment(name, value));
    let merged: BTreeMap<_, _> = inherited.chain(configured).collect();
    merged.into_iter().collect()
}

/// Builds the environment of a plugin: inherited variables, those of the kubeconfig, then `KUBERNETES_EXEC_INFO`, which
/// the kubeconfig cannot override.
pub(crate) fn plugin_env(
    env: &dyn Env,
    inherit: &EnvInheritance,
    config: &ExecConfig,
    exec_info: String,
) -> Vec<(OsString, OsString)> {
    let configured = config.env.iter().map(|variable| (variable.name.as_str(), variable.value.expose()));
    build_env(env, inherit, configured.chain([(EXEC_INFO_ENV, &*exec_info)]))
}

/// Splits `name=value` at the first `=`, as the child process does: a configured name that contains `=` must not evade
/// the check for duplicates.
fn split_assignment(name: &str, value: &str) -> (OsString, OsString) {
    let assignment = format!("{name}={value}");
    match assignment.split_once('=') {
        Some((name, value)) => (name.into(), value.into()),
        None => (name.into(), value.into()),
    }
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::ApiVersion;

    use super::*;
    use crate::FixedEnv;

    fn vars(inherit: &EnvInheritance, config: &ExecConfig) -> Vec<(String, String)> {
        let env = FixedEnv::new([("HOSTV", "host"), ("HOME", "/root"), ("KUBERNETES_EXEC_INFO", "outer")]);
        let pairs = plugin_env(&env, inherit, config, "spec".to_owned()).into_iter();
        pairs.map(|(n, v)| (n.into_string().unwrap(), v.into_string().unwrap())).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn last_value_of_a_variable_wins() {
        let config = ExecConfig::new("x", ApiVersion::V1)
            .env("HOSTV", "cfg")
            .env("FOO", "1")
            .env("FOO", "2")
            .env("DOLLAR", "$HOME")
            .env("KUBERNETES_EXEC_INFO", "mine");
        assert_eq!(
            vars(&EnvInheritance::ALL, &config),
            pairs(&[
                ("DOLLAR", "$HOME"),
                ("FOO", "2"),
                ("HOME", "/root"),
                ("HOSTV", "cfg"),
                ("KUBERNETES_EXEC_INFO", "spec")
            ])
        );
    }

    #[test]
    fn filters_inherited_variables() {
        let config = ExecConfig::new("x", ApiVersion::V1).env("ADDED", "a");
        let spec = ("KUBERNETES_EXEC_INFO", "spec");
        assert_eq!(vars(&EnvInheritance::NONE, &config), pairs(&[("ADDED", "a"), spec]));
        assert_eq!(
            vars(&EnvInheritance::Only(vec!["HO*".into()]), &config),
            pairs(&[("ADDED", "a"), ("HOME", "/root"), ("HOSTV", "host"), spec])
        );
        assert_eq!(
            vars(&EnvInheritance::AllExcept(vec!["HOST*".into()]), &config),
            pairs(&[("ADDED", "a"), ("HOME", "/root"), spec])
        );
    }

    #[test]
    fn always_inherits_the_exec_info_variable() {
        let env = FixedEnv::new([("HOME", "/root"), ("KUBERNETES_EXEC_INFO", "outer")]);
        let expected = [(OsString::from("KUBERNETES_EXEC_INFO"), OsString::from("outer"))];
        assert_eq!(build_env(&env, &EnvInheritance::NONE, []), expected);
        assert_eq!(
            build_env(&env, &EnvInheritance::AllExcept(vec!["KUBERNETES_*".into(), "HOME".into()]), []),
            expected
        );
    }

    #[test]
    fn splits_names_that_contain_an_equals_sign() {
        let config = ExecConfig::new("x", ApiVersion::V1).env("A", "1").env("A=B", "2");
        assert_eq!(vars(&EnvInheritance::NONE, &config), pairs(&[("A", "B=2"), ("KUBERNETES_EXEC_INFO", "spec")]));
    }
}
