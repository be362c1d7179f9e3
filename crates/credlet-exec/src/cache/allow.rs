//! Policy for the plugins that the cache may run.
//!
//! By default the general policy applies ([`program_policy`]): in a plugin run the user's `kuberc`, elsewhere none. To allow
//! plugins for the cache without listing them in `kuberc`, a user lists them in
//! `credlet/cache-allowlist` of the configuration directory, one name or path per line. If that list exists, it decides in
//! place of `kuberc`, except that `DenyAll` still denies all.
//!
//! A link named `credlet-cache-aws` runs `aws` and no other program, so `kuberc` can allow it in place of `aws`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::{
    Env, LookupError, PluginPolicy, PolicyError, ProgramError, UserList, UserListError, find_program, program_policy,
};

/// Checks whether `command` may be run. `link` is the name under which this process was started, if that is a link for one plugin.
pub(super) fn check(
    command: &str,
    link: Option<&OsStr>,
    found: &Result<PathBuf, LookupError>,
    env: &dyn Env,
) -> Result<(), CacheAllowError> {
    let kuberc = program_policy(None, env).map_err(ProgramError::from)?;
    let lists = UserList::load("cache-allowlist", env)?;
    // Only the first list may allow more than kuberc: the path of the second may come from a kubeconfig.
    let is_granted = lists.first().is_some_and(|list| list.entries.is_some());
    for UserList { path, entries } in lists {
        let Some(entries) = entries else { continue };
        let policy = PluginPolicy::new("Allowlist", Some(entries));
        let checked = policy.and_then(|policy| policy.check(command, found, env));
        checked.map_err(|reason| CacheAllowError::Refused { path, reason })?;
    }
    if is_granted && !kuberc.denies_all() {
        return Ok(());
    }
    let link = link.filter(|link| names(link, command)).and_then(OsStr::to_str);
    let checked = kuberc.check(command, found, env);
    let checked = checked.or_else(|denied| match link {
        Some(link) => kuberc.check(link, &find_program(link, env), env),
        None => Err(denied),
    });
    checked.map_err(|denied| CacheAllowError::Program(denied.into()))
}

/// Whether `link` is the one for `command`.
fn names(link: &OsStr, command: &str) -> bool {
    Path::new(link).file_name() == Some(OsStr::new(&format!("credlet-cache-{command}")))
}

/// The cache may not run a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheAllowError {
    /// The list cannot be used.
    #[error("cannot check the cache allowlist: {0}")]
    Unreadable(#[from] UserListError),
    /// The plugin is not on the list.
    #[error("{reason} ({})", path.display())]
    Refused {
        /// File of the list that refuses it.
        path: PathBuf,
        /// Why the list does not allow the plugin, or why it is invalid.
        reason: PolicyError,
    },
    /// The general policy does not allow the plugin.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use crate::FixedEnv;
    use credlet_api::exec::EXEC_INFO_ENV;
    use tempfile::TempDir;

    use credlet_platform::dirs::CONFIG_IN_HOME;

    use super::*;

    /// A user's home directory with `bin/aws` and `bin/sh`, and a directory that a kubeconfig may name.
    struct Account {
        home: TempDir,
        evil: TempDir,
    }

    impl Account {
        fn new() -> Self {
            let account = Self { home: tempfile::tempdir().unwrap(), evil: tempfile::tempdir().unwrap() };
            for path in [account.home.path().join("bin"), account.evil.path().join("bin")] {
                fs::create_dir(&path).unwrap();
                for name in ["aws", "sh"] {
                    fs::write(path.join(name), "").unwrap();
                    fs::set_permissions(path.join(name), fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
            account
        }

        fn list(&self, text: &str) {
            write(&self.home.path().join(CONFIG_IN_HOME).join("credlet/cache-allowlist"), text);
        }

        fn kuberc(&self, entries: &[&str]) {
            let entries: String = entries.iter().map(|entry| format!("- command: {entry}\n")).collect();
            let text = format!(
                "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n\
                 credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n{entries}"
            );
            write(&self.home.path().join(".kube/kuberc"), &text);
        }

        fn evil(&self, name: &str) -> String {
            self.evil.path().join(name).to_str().unwrap().to_owned()
        }

        /// Whether a plugin run with these variables may run `command`.
        fn allows(&self, command: &str, link: Option<&str>, vars: &[(&str, &str)]) -> bool {
            let home = self.home.path().to_str().unwrap();
            let path = format!("{home}/bin");
            let usual = [("HOME", home), ("PATH", path.as_str()), (EXEC_INFO_ENV, "{}")];
            let env = FixedEnv::new(usual.into_iter().chain(vars.iter().copied())).with_account_home(home);
            check(command, link.map(OsStr::new), &find_program(command, &env), &env).is_ok()
        }
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn environment_cannot_replace_account_list() {
        let account = Account::new();
        account.list("aws\n");
        write(&account.evil.path().join("credlet/cache-allowlist"), "sh\naws\n");
        write(&account.evil.path().join(CONFIG_IN_HOME).join("credlet/cache-allowlist"), "sh\naws\n");
        let evil = account.evil("");
        for vars in [
            vec![],
            vec![("XDG_CONFIG_HOME", "/nonexistent")],
            vec![("XDG_CONFIG_HOME", &*evil)],
            vec![("XDG_CONFIG_HOME", "relative")],
            vec![("HOME", "/nonexistent")],
            vec![("HOME", &*evil)],
            vec![("HOME", "")],
            vec![("HOME", &*evil), ("XDG_CONFIG_HOME", &*evil), ("KUBERC", "off")],
        ] {
            assert!(!account.allows("sh", None, &vars), "{vars:?}");
            assert!(account.allows("aws", None, &vars), "{vars:?}");
        }
        // A list that the variables name can restrict.
        write(&account.evil.path().join("credlet/cache-allowlist"), "other\n");
        assert!(!account.allows("aws", None, &[("XDG_CONFIG_HOME", &evil)]));
    }

    #[test]
    fn without_a_list_kuberc_decides() {
        let account = Account::new();
        assert!(account.allows("sh", None, &[]));
        account.kuberc(&["credlet", "credlet-cache-aws"]);
        for vars in [vec![], vec![("KUBERC", "off")], vec![("HOME", "/nonexistent")]] {
            assert!(!account.allows("sh", None, &vars), "{vars:?}");
            assert!(!account.allows("aws", None, &vars), "{vars:?}");
        }
        // A list that a kubeconfig names grants nothing.
        write(&account.evil.path().join("credlet/cache-allowlist"), "sh\n");
        assert!(!account.allows("sh", None, &[("XDG_CONFIG_HOME", &account.evil(""))]));
        account.kuberc(&["credlet", "aws"]);
        assert!(account.allows("aws", None, &[]));
        // The account's list grants what kuberc does not, unless that denies all.
        account.kuberc(&["credlet"]);
        account.list("aws\n");
        assert!(account.allows("aws", None, &[]));
        let deny = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
        write(&account.home.path().join(".kube/kuberc"), deny);
        assert!(!account.allows("aws", None, &[]));
    }

    #[test]
    fn allowed_link_runs_only_its_plugin() {
        let account = Account::new();
        account.kuberc(&["credlet-cache-aws", "credlet-cache"]);
        assert!(account.allows("aws", Some("credlet-cache-aws"), &[]));
        assert!(!account.allows("sh", Some("credlet-cache-aws"), &[]));
        for link in ["credlet-cache", "credlet-cache-sh", "credlet", "/tmp/credlet-cache-sh", "./credlet-cache-aws"] {
            assert!(!account.allows("sh", Some(link), &[]), "{link}");
        }
        assert!(!account.allows("aws", Some("./credlet-cache-aws"), &[]));
    }

    #[test]
    fn listed_path_is_independent_of_path_variable() {
        let account = Account::new();
        let evil = account.evil("bin");
        account.list(&format!("{}/bin/aws\n", account.home.path().display()));
        assert!(account.allows("aws", Some("credlet-cache-aws"), &[]));
        assert!(!account.allows("aws", Some("credlet-cache-aws"), &[("PATH", &evil)]));
        // A name is looked up in PATH, which a kubeconfig can set. SECURITY.md says so.
        account.list("aws\n");
        assert!(account.allows("aws", Some("credlet-cache-aws"), &[("PATH", &evil)]));
    }

    #[test]
    fn unusable_list_allows_nothing() {
        let account = Account::new();
        let path = account.home.path().join(CONFIG_IN_HOME).join("credlet/cache-allowlist");
        for text in ["", "# nothing\n", "./aws\n"] {
            account.list(text);
            assert!(!account.allows("aws", None, &[]), "{text:?}");
        }
        account.list("aws\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!account.allows("aws", None, &[]));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(!account.allows("aws", None, &[]));
    }
}
