//! Reads the plugin policy from kubectl's `kuberc` file.

use std::path::{Path, PathBuf};

use credlet_api::kuberc::{KubercError, KubercPreference};
use credlet_platform::fs::{self, ReadError};

use crate::{Env, PluginPolicy, PolicyError, is_plugin_run};

/// Size limit of a kuberc file in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Returns the policy for the plugins that a kubeconfig names.
///
/// On the command line it is read, as by kubectl, from the file that `--kuberc` names, else `$KUBERC`, else
/// `~/.kube/kuberc`. Without a file, or with `KUBERC=off`, all plugins are allowed.
///
/// In a [plugin run](is_plugin_run) the kubeconfig controls flags and variables. `.kube/kuberc` in the home directory of the
/// account database then always applies, and so do all other files that exist: a program must be allowed by each of
/// them. `KUBERC=off` has no effect. A user without an entry in the account database has only the environment.
///
/// kubectl ignores a file that it cannot parse and allows all plugins. Here that is an error.
///
/// # Errors
/// If a file cannot be read or parsed, or its policy contradicts itself. No program may run until it is corrected.
pub fn plugin_policy(flag: Option<&Path>, env: &dyn Env) -> Result<PluginPolicy, PolicyFileError> {
    let files = if is_plugin_run(env) { locate_all(flag, env) } else { locate(flag, env)?.into_iter().collect() };
    files.iter().try_fold(PluginPolicy::ALLOW_ALL, |policy, file| Ok(policy.and(file.load()?)))
}

/// A kuberc file that may exist.
struct PolicyFile {
    path: PathBuf,
    /// Named by a flag or a variable: the file must exist.
    is_named: bool,
    /// In the home directory of the account database: other users must not be able to write to it.
    is_account: bool,
}

/// The file that kubectl would read.
fn locate(flag: Option<&Path>, env: &dyn Env) -> Result<Option<PolicyFile>, PolicyFileError> {
    let named = |path| PolicyFile { path, is_named: true, is_account: false };
    match (flag, kuberc_variable(env)) {
        (Some(path), Some(KubercVariable::Off)) => {
            Err(PolicyFileError { path: path.to_owned(), reason: PolicyFileProblem::FlagAndOff })
        }
        (Some(path), _) => Ok(Some(named(path.to_owned()))),
        (None, Some(KubercVariable::Off)) => Ok(None),
        (None, Some(KubercVariable::File(path))) => Ok(Some(named(path))),
        (None, None) => Ok(env.home_dir().map(|home| PolicyFile { is_named: false, ..named(in_home(&home)) })),
    }
}

/// All files that restrict a plugin run.
fn locate_all(flag: Option<&Path>, env: &dyn Env) -> Vec<PolicyFile> {
    let mut files = Vec::new();
    let mut add = |path: PathBuf, is_named, is_account| {
        if files.iter().all(|file: &PolicyFile| file.path != path) {
            files.push(PolicyFile { path, is_named, is_account });
        }
    };
    if let Some(home) = env.account_home() {
        add(in_home(&home), false, true);
    }
    if let Some(home) = env.home_dir() {
        add(in_home(&home), false, false);
    }
    if let Some(KubercVariable::File(path)) = kuberc_variable(env) {
        add(path, true, false);
    }
    if let Some(path) = flag {
        add(path.to_owned(), true, false);
    }
    files
}

fn in_home(home: &Path) -> PathBuf {
    home.join(".kube").join("kuberc")
}

/// The value of `$KUBERC`.
enum KubercVariable {
    Off,
    File(PathBuf),
}

fn kuberc_variable(env: &dyn Env) -> Option<KubercVariable> {
    let value = env.var("KUBERC").filter(|value| !value.is_empty())?;
    Some(if value == "off" { KubercVariable::Off } else { KubercVariable::File(value.into()) })
}

impl PolicyFile {
    fn load(&self) -> Result<PluginPolicy, PolicyFileError> {
        let at = |reason| PolicyFileError { path: self.path.clone(), reason };
        let read = if self.is_account { fs::read_trusted } else { fs::read_bounded };
        let text = match read(&self.path, MAX_SIZE) {
            Err(ReadError::NotFound) if !self.is_named => return Ok(PluginPolicy::ALLOW_ALL),
            read => read.map_err(|error| at(PolicyFileProblem::Unreadable(error)))?,
        };
        let preference = KubercPreference::decode(&text).map_err(|error| at(PolicyFileProblem::Kuberc(error)))?;
        for field in &preference.unknown_fields {
            tracing::warn!(file = %self.path.display(), field = credlet_api::escape_control_chars(field), "unknown field in kuberc");
        }
        PluginPolicy::new(&preference.credential_plugin_policy, preference.credential_plugin_allowlist)
            .map_err(|error| at(PolicyFileProblem::Policy(error)))
    }
}

/// The policy file is invalid, so no program may run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid plugin policy in {}: {reason}", path.display())]
pub struct PolicyFileError {
    path: PathBuf,
    #[source]
    reason: PolicyFileProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum PolicyFileProblem {
    #[error("the file {0}")]
    Unreadable(ReadError),
    #[error("{0}")]
    Kuberc(KubercError),
    #[error("{0}")]
    Policy(PolicyError),
    #[error("--kuberc must not be combined with KUBERC=off")]
    FlagAndOff,
}

impl PolicyFileError {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::EXEC_INFO_ENV;

    use super::*;
    use crate::FixedEnv;

    const V1BETA1: &str = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";

    fn policy_in(text: &str) -> Result<PluginPolicy, PolicyFileProblem> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kuberc");
        std::fs::write(&path, text).unwrap();
        plugin_policy(Some(&path), &FixedEnv::default()).map_err(|error| error.reason)
    }

    #[test]
    fn reads_the_policy() {
        assert_eq!(policy_in(&format!("{V1BETA1}credentialPluginPolicy: DenyAll\n")), Ok(PluginPolicy::DENY_ALL));
        assert_eq!(
            policy_in(&format!(
                "{V1BETA1}credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: aws\n- name: old\n"
            )),
            PluginPolicy::new("Allowlist", Some(vec!["aws".into(), "old".into()])).map_err(PolicyFileProblem::Policy)
        );
        assert_eq!(policy_in(&format!("{V1BETA1}aliases: []\ndefaults: []\n")), Ok(PluginPolicy::ALLOW_ALL));
        assert_eq!(policy_in(""), Ok(PluginPolicy::ALLOW_ALL));
        assert_eq!(
            policy_in("apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\n"),
            Ok(PluginPolicy::ALLOW_ALL)
        );
    }

    #[test]
    fn first_preference_document_wins() {
        assert_eq!(
            policy_in(&format!("apiVersion: v9\nkind: Preference\n---\n{V1BETA1}credentialPluginPolicy: DenyAll\n")),
            Ok(PluginPolicy::DENY_ALL)
        );
    }

    #[test]
    fn invalid_policies_fail_closed() {
        for text in [
            // Misspelt field names.
            &format!("{V1BETA1}credentialPluginPolcy: DenyAll\n"),
            &format!("{V1BETA1}credentialpluginpolicy: DenyAll\n"),
            &format!("{V1BETA1}credentialPluginAllowList: [{{command: aws}}]\n"),
            // Syntax errors.
            "credentialPluginPolicy: [",
            "just text",
            // Other kinds and versions.
            "apiVersion: v1\nkind: Config\n",
            "apiVersion: kubectl.config.k8s.io/v2\nkind: Preference\n",
            // A policy in a version without one.
            "apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
            // A duplicate key.
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
    fn unknown_unrelated_field_is_a_warning() {
        assert_eq!(
            policy_in(&format!("{V1BETA1}colour: blue\ncredentialPluginPolicy: DenyAll\n")),
            Ok(PluginPolicy::DENY_ALL)
        );
    }

    #[test]
    fn finds_the_file_like_kubectl() {
        let home = tempfile::tempdir().unwrap();
        let env = |vars: &[(&str, &str)]| {
            FixedEnv::new(vars.iter().copied().chain([("HOME", home.path().to_str().unwrap())]))
        };
        // The default file does not exist.
        assert_eq!(plugin_policy(None, &env(&[])), Ok(PluginPolicy::ALLOW_ALL));
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        std::fs::write(home.path().join(".kube/kuberc"), format!("{V1BETA1}credentialPluginPolicy: DenyAll\n"))
            .unwrap();
        assert_eq!(plugin_policy(None, &env(&[])), Ok(PluginPolicy::DENY_ALL));
        assert_eq!(plugin_policy(None, &env(&[("KUBERC", "off")])), Ok(PluginPolicy::ALLOW_ALL));
        // A file that is named must exist.
        assert!(plugin_policy(None, &env(&[("KUBERC", "/no/such/file")])).is_err());
        assert!(plugin_policy(Some(Path::new("/no/such/file")), &env(&[])).is_err());
        assert!(plugin_policy(Some(Path::new("/no/such/file")), &env(&[("KUBERC", "off")])).is_err());
        // A directory is not accepted.
        assert!(plugin_policy(Some(home.path()), &env(&[])).is_err());
    }

    fn kuberc(home: &Path, policy: &str) -> PathBuf {
        std::fs::create_dir_all(home.join(".kube")).unwrap();
        let path = home.join(".kube/kuberc");
        std::fs::write(&path, format!("{V1BETA1}{policy}\n")).unwrap();
        path
    }

    const DENY: &str = "credentialPluginPolicy: DenyAll";
    const ONLY_AWS: &str = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: aws}]";

    /// Each case could be set by a kubeconfig in `exec.env` or `exec.args`.
    #[test]
    fn plugin_run_cannot_loosen_account_policy() {
        let (account, evil) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kuberc(account.path(), DENY);
        let permissive = kuberc(evil.path(), "");
        let (permissive, evil) = (permissive.to_str().unwrap(), evil.path().to_str().unwrap());
        for vars in [
            vec![],
            vec![("KUBERC", "off")],
            vec![("KUBERC", "")],
            vec![("KUBERC", permissive)],
            vec![("HOME", evil)],
            vec![("HOME", "")],
            vec![("HOME", "."), ("KUBERC", "off")],
            vec![("HOME", "/nonexistent"), ("KUBERC", "off")],
        ] {
            for mark in ["{}", ""] {
                let vars = vars.iter().copied().chain([(EXEC_INFO_ENV, mark)]);
                let env = FixedEnv::new(vars).with_account_home(account.path());
                for flag in [None, Some(Path::new(permissive))] {
                    let policy = plugin_policy(flag, &env).unwrap();
                    assert!(policy.denies_all(), "{:?} {flag:?}", env);
                    assert_eq!(crate::program_policy(flag, &env), Ok(policy));
                }
            }
        }
    }

    #[test]
    fn plugin_run_applies_every_policy_file() {
        let (account, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kuberc(account.path(), "");
        let strict = kuberc(home.path(), DENY);
        let env = |vars: &[(&str, &str)]| {
            let vars = vars.iter().copied().chain([(EXEC_INFO_ENV, "{}")]);
            FixedEnv::new(vars).with_account_home(account.path())
        };
        let path = strict.to_str().unwrap();
        assert_eq!(plugin_policy(None, &env(&[])), Ok(PluginPolicy::ALLOW_ALL));
        assert_eq!(plugin_policy(None, &env(&[("HOME", home.path().to_str().unwrap())])), Ok(PluginPolicy::DENY_ALL));
        assert_eq!(plugin_policy(None, &env(&[("KUBERC", path)])), Ok(PluginPolicy::DENY_ALL));
        assert_eq!(plugin_policy(Some(&strict), &env(&[("KUBERC", "off")])), Ok(PluginPolicy::DENY_ALL));
        kuberc(account.path(), ONLY_AWS);
        std::fs::write(&strict, format!("{V1BETA1}{}\n", ONLY_AWS.replace("aws", "gcloud"))).unwrap();
        let both = plugin_policy(Some(&strict), &env(&[])).unwrap();
        for command in ["aws", "gcloud"] {
            assert!(both.check(command, &crate::find_program(command, &env(&[])), &env(&[])).is_err(), "{command}");
        }
        // A file that is named must exist, and one invalid file is an error.
        assert!(plugin_policy(None, &env(&[("KUBERC", "/no/such/file")])).is_err());
        std::fs::write(&strict, "nonsense").unwrap();
        assert!(plugin_policy(Some(&strict), &env(&[])).is_err());
    }

    #[test]
    fn command_line_uses_kuberc_of_the_environment() {
        let (account, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kuberc(account.path(), DENY);
        let env = FixedEnv::new([("HOME", home.path())]).with_account_home(account.path());
        assert_eq!(plugin_policy(None, &env), Ok(PluginPolicy::ALLOW_ALL));
        kuberc(home.path(), DENY);
        assert_eq!(plugin_policy(None, &env), Ok(PluginPolicy::DENY_ALL));
        // A command that the user enters is allowed.
        assert_eq!(crate::program_policy(None, &env), Ok(PluginPolicy::ALLOW_ALL));
    }

    #[test]
    fn plugin_run_rejects_unusable_policy_file() {
        use std::os::unix::fs::PermissionsExt as _;

        let account = tempfile::tempdir().unwrap();
        let path = kuberc(account.path(), "");
        let env = FixedEnv::new([(EXEC_INFO_ENV, "{}")]).with_account_home(account.path());
        let policy = || plugin_policy(None, &env);
        assert_eq!(policy(), Ok(PluginPolicy::ALLOW_ALL));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(policy().unwrap_err().reason, PolicyFileProblem::Unreadable(ReadError::Untrusted));
        std::fs::remove_file(&path).unwrap();
        credlet_testkit::make_fifo(&path);
        assert_eq!(policy().unwrap_err().reason, PolicyFileProblem::Unreadable(ReadError::NotRegular));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(policy().is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(policy().unwrap_err().reason, PolicyFileProblem::Unreadable(ReadError::Directory));
    }
}
