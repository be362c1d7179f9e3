//! What a plugin gets to see of our environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use credlet_api::exec::{EXEC_INFO_ENV, ExecConfig};

use crate::Env;

/// Which variables of the client a plugin inherits. What the kubeconfig adds, it always gets.
///
/// Names end in `*` to mean all that begin so.
///
/// ```
/// use credlet_core::Inherit;
///
/// // Nothing of this program's own secrets:
/// let inherit = Inherit::AllBut(vec!["MY_APP_*".into(), "DATABASE_URL".into()]);
/// assert!(inherit.passes("HOME".as_ref()));
/// assert!(!inherit.passes("MY_APP_TOKEN".as_ref()));
/// // Nothing at all, as the proposal of 2019 wanted it:
/// assert!(!Inherit::NONE.passes("HOME".as_ref()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// All of them but these, which may be none: what kubectl does.
    AllBut(Vec<String>),
    /// None of them but these.
    Only(Vec<String>),
}

impl Inherit {
    /// All of them.
    pub const ALL: Self = Self::AllBut(Vec::new());

    /// None of them.
    pub const NONE: Self = Self::Only(Vec::new());

    /// Whether a variable of this name is passed on.
    pub fn passes(&self, name: &OsStr) -> bool {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name.as_bytes()));
        match self {
            Self::AllBut(patterns) => !named(patterns),
            Self::Only(patterns) => named(patterns),
        }
    }
}

impl Default for Inherit {
    fn default() -> Self {
        Self::ALL
    }
}

fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// A program's whole environment: what it inherits, then what is configured for it, in its order. Later ones stand.
pub fn surroundings<'a>(
    env: &dyn Env,
    inherit: &Inherit,
    configured: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<(OsString, OsString)> {
    let inherited = env.vars().into_iter().filter(|(name, _)| inherit.passes(name));
    let configured = configured.into_iter().map(|(name, value)| split(name, value));
    let assembled: BTreeMap<_, _> = inherited.chain(configured).collect();
    assembled.into_iter().collect()
}

/// The plugin's whole environment: ours, then the kubeconfig's in its order, then what we tell the plugin. Nobody can
/// replace the last.
pub(crate) fn assemble(
    env: &dyn Env,
    inherit: &Inherit,
    config: &ExecConfig,
    exec_info: String,
) -> Vec<(OsString, OsString)> {
    let configured = config.env.iter().map(|variable| (variable.name.as_str(), variable.value.expose()));
    surroundings(env, inherit, configured.chain([(EXEC_INFO_ENV, &*exec_info)]))
}

/// A name may contain `=`, and then the program sees the part before it as the name: so two entries are the same
/// variable when the program would think so.
fn split(name: &str, value: &str) -> (OsString, OsString) {
    let whole = format!("{name}={value}");
    match whole.split_once('=') {
        Some((name, value)) => (OsString::from(name), OsString::from_vec(value.as_bytes().to_vec())),
        None => (OsString::from(name), OsString::from(value)),
    }
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::ApiVersion;

    use super::*;
    use crate::FixedEnv;

    fn seen(inherit: &Inherit, config: &ExecConfig) -> Vec<(String, String)> {
        let env = FixedEnv::new([("HOSTV", "host"), ("HOME", "/root"), ("KUBERNETES_EXEC_INFO", "outer")]);
        let pairs = assemble(&env, inherit, config, "told".to_owned()).into_iter();
        pairs.map(|(n, v)| (n.into_string().unwrap(), v.into_string().unwrap())).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn later_variables_stand_and_the_last_word_is_ours() {
        let config = ExecConfig::new("x", ApiVersion::V1)
            .env("HOSTV", "cfg")
            .env("FOO", "1")
            .env("FOO", "2")
            .env("DOLLAR", "$HOME")
            .env("KUBERNETES_EXEC_INFO", "mine");
        assert_eq!(
            seen(&Inherit::ALL, &config),
            pairs(&[
                ("DOLLAR", "$HOME"),
                ("FOO", "2"),
                ("HOME", "/root"),
                ("HOSTV", "cfg"),
                ("KUBERNETES_EXEC_INFO", "told")
            ])
        );
    }

    #[test]
    fn variables_can_be_held_back() {
        let config = ExecConfig::new("x", ApiVersion::V1).env("ADDED", "a");
        let told = ("KUBERNETES_EXEC_INFO", "told");
        assert_eq!(seen(&Inherit::NONE, &config), pairs(&[("ADDED", "a"), told]));
        assert_eq!(
            seen(&Inherit::Only(vec!["HO*".into()]), &config),
            pairs(&[("ADDED", "a"), ("HOME", "/root"), ("HOSTV", "host"), told])
        );
        assert_eq!(
            seen(&Inherit::AllBut(vec!["HOST*".into()]), &config),
            pairs(&[("ADDED", "a"), ("HOME", "/root"), told])
        );
    }

    #[test]
    fn a_name_with_an_equals_sign_is_the_variable_the_program_sees() {
        let config = ExecConfig::new("x", ApiVersion::V1).env("A", "1").env("A=B", "2");
        assert_eq!(seen(&Inherit::NONE, &config), pairs(&[("A", "B=2"), ("KUBERNETES_EXEC_INFO", "told")]));
    }
}
