//! The user's `kuberc` file, where kubectl keeps the plugin policy.

use std::io;
use std::path::{Path, PathBuf};

use credlet_api::kuberc::{KubercError, Preference};

use crate::{Env, PluginPolicy, PolicyError};

/// No honest preferences are longer.
const LIMIT: u64 = 1 << 20;

/// Reads the plugin policy from the file that `--kuberc` names, else from `$KUBERC`, else from `~/.kube/kuberc`.
/// No file, or `KUBERC=off`: every plugin is allowed.
///
/// kubectl warns about a file it cannot understand, and then runs anything. Here that is an error.
///
/// # Errors
/// Names the file. Nothing may be run until its owner has acted.
pub fn plugin_policy(flag: Option<&Path>, env: &dyn Env) -> Result<PluginPolicy, PolicyFileError> {
    let Some((path, explicit)) = locate(flag, env)? else { return Ok(PluginPolicy::ALLOW_ALL) };
    let at = |reason| PolicyFileError { path: path.clone(), reason };
    let text = match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !explicit => return Ok(PluginPolicy::ALLOW_ALL),
        read => read.map_err(|error| at(Reason::Unreadable(error.kind())))?,
    };
    let preference = Preference::decode(&text).map_err(|error| at(Reason::Kuberc(error)))?;
    for field in &preference.unknown_fields {
        tracing::warn!(file = %path.display(), field = credlet_api::visible(field), "unknown field in kuberc");
    }
    PluginPolicy::new(&preference.credential_plugin_policy, preference.credential_plugin_allowlist)
        .map_err(|error| at(Reason::Policy(error)))
}

fn locate(flag: Option<&Path>, env: &dyn Env) -> Result<Option<(PathBuf, bool)>, PolicyFileError> {
    let variable = env.var("KUBERC").filter(|value| !value.is_empty());
    let off = variable.as_deref().is_some_and(|value| value == "off");
    match (flag, variable) {
        (Some(path), _) if off => Err(PolicyFileError { path: path.to_owned(), reason: Reason::FlagAndOff }),
        (Some(path), _) => Ok(Some((path.to_owned(), true))),
        (None, Some(_)) if off => Ok(None),
        (None, Some(path)) => Ok(Some((PathBuf::from(path), true))),
        (None, None) => Ok(env.home_dir().map(|home| (home.join(".kube").join("kuberc"), false))),
    }
}

/// Never blocks: a pipe in the file's place is refused before it is opened.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let found = path.metadata()?;
    if !found.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if found.len() > LIMIT {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    std::fs::read(path)
}

/// The policy file is of no use. Its owner must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no plugin is run, because the plugin policy in {} is unclear", path.display())]
pub struct PolicyFileError {
    path: PathBuf,
    #[source]
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("the file cannot be read ({0})")]
    Unreadable(io::ErrorKind),
    #[error("{0}")]
    Kuberc(KubercError),
    #[error("{0}")]
    Policy(PolicyError),
    #[error("the file is named on the command line and KUBERC=off switches it off: choose one")]
    FlagAndOff,
}

impl PolicyFileError {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedEnv;

    const V1BETA1: &str = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";

    fn policy_in(text: &str) -> Result<PluginPolicy, Reason> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kuberc");
        std::fs::write(&path, text).unwrap();
        plugin_policy(Some(&path), &FixedEnv::default()).map_err(|error| error.reason)
    }

    #[test]
    fn the_policy_is_read() {
        assert_eq!(policy_in(&format!("{V1BETA1}credentialPluginPolicy: DenyAll\n")), Ok(PluginPolicy::DENY_ALL));
        assert_eq!(
            policy_in(&format!(
                "{V1BETA1}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: aws\n- name: old\n"
            )),
            PluginPolicy::new("Allowlist", Some(vec!["aws".into(), "old".into()])).map_err(Reason::Policy)
        );
        assert_eq!(policy_in(&format!("{V1BETA1}aliases: []\ndefaults: []\n")), Ok(PluginPolicy::ALLOW_ALL));
        assert_eq!(policy_in(""), Ok(PluginPolicy::ALLOW_ALL));
        assert_eq!(
            policy_in("apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\n"),
            Ok(PluginPolicy::ALLOW_ALL)
        );
    }

    #[test]
    fn the_first_preference_of_several_documents_stands() {
        assert_eq!(
            policy_in(&format!("apiVersion: v9\nkind: Preference\n---\n{V1BETA1}credentialPluginPolicy: DenyAll\n")),
            Ok(PluginPolicy::DENY_ALL)
        );
    }

    #[test]
    fn what_kubectl_lets_pass_with_a_warning_closes_the_door_here() {
        for text in [
            // A typing error in the field's name.
            &format!("{V1BETA1}credentialPluginPolcy: DenyAll\n"),
            &format!("{V1BETA1}credentialpluginpolicy: DenyAll\n"),
            &format!("{V1BETA1}credentialPluginAllowList: [{{command: aws}}]\n"),
            // Not readable at all.
            "credentialPluginPolicy: [",
            "just text",
            // Readable, and nobody's.
            "apiVersion: v1\nkind: Config\n",
            "apiVersion: kubectl.config.k8s.io/v2\nkind: Preference\n",
            // A policy where none is looked for.
            "apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
            // Said twice.
            &format!("{V1BETA1}credentialPluginPolicy: DenyAll\ncredentialPluginPolicy: AllowAll\n"),
            // Contradictions.
            &format!("{V1BETA1}credentialPluginPolicy: AllowAll\ncredentialPluginAllowlist: []\n"),
            &format!("{V1BETA1}credentialPluginAllowlist: [{{command: aws}}]\n"),
            &format!("{V1BETA1}credentialPluginPolicy: Allowlist\n"),
            &format!("{V1BETA1}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: []\n"),
            &format!("{V1BETA1}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{{}}]\n"),
            &format!(
                "{V1BETA1}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{{name: a, command: b}}]\n"
            ),
            &format!("{V1BETA1}credentialPluginPolicy: denyall\n"),
        ] {
            assert!(policy_in(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_field_that_has_nothing_to_do_with_plugins_is_only_a_warning() {
        assert_eq!(
            policy_in(&format!("{V1BETA1}colour: blue\ncredentialPluginPolicy: DenyAll\n")),
            Ok(PluginPolicy::DENY_ALL)
        );
    }

    #[test]
    fn the_file_is_found_as_kubectl_finds_it() {
        let home = tempfile::tempdir().unwrap();
        let env = |vars: &[(&str, &str)]| {
            FixedEnv::new(vars.iter().copied().chain([("HOME", home.path().to_str().unwrap())]))
        };
        // No file of the default name: nobody has a policy.
        assert_eq!(plugin_policy(None, &env(&[])), Ok(PluginPolicy::ALLOW_ALL));
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        std::fs::write(home.path().join(".kube/kuberc"), format!("{V1BETA1}credentialPluginPolicy: DenyAll\n"))
            .unwrap();
        assert_eq!(plugin_policy(None, &env(&[])), Ok(PluginPolicy::DENY_ALL));
        assert_eq!(plugin_policy(None, &env(&[("KUBERC", "off")])), Ok(PluginPolicy::ALLOW_ALL));
        // A file that was named must be there.
        assert!(plugin_policy(None, &env(&[("KUBERC", "/no/such/file")])).is_err());
        assert!(plugin_policy(Some(Path::new("/no/such/file")), &env(&[])).is_err());
        assert!(plugin_policy(Some(Path::new("/no/such/file")), &env(&[("KUBERC", "off")])).is_err());
        // A directory, or a pipe, in its place is no file.
        assert!(plugin_policy(Some(home.path()), &env(&[])).is_err());
    }
}
