use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// Environment variables, terminal, working directory and home directory of a process.
pub trait Env: fmt::Debug + Send + Sync {
    /// Returns the value of a variable; `Some` if it is set but empty.
    fn var(&self, name: &str) -> Option<OsString>;

    /// Returns all variables, in the order of the process environment.
    fn vars(&self) -> Vec<(OsString, OsString)>;

    /// Whether standard input is a terminal.
    fn stdin_is_terminal(&self) -> bool;

    /// Returns the working directory. `None`: it was removed or is not accessible.
    fn current_dir(&self) -> Option<PathBuf>;

    /// Returns the home directory of the effective user in the account database, whatever the environment. Files that restrict
    /// what a kubeconfig may do are located through it, because a kubeconfig can set `HOME` for the plugins that it names.
    fn account_home(&self) -> Option<PathBuf>;

    /// Returns `$HOME`, or the home directory in the account database if `$HOME` is unset or not absolute. Never returns a
    /// relative path.
    fn home_dir(&self) -> Option<PathBuf> {
        let home = self.var("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        home.or_else(|| self.account_home())
    }
}

/// The environment of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnv;

#[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
impl Env for SystemEnv {
    fn var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }

    fn stdin_is_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    fn current_dir(&self) -> Option<PathBuf> {
        std::env::current_dir().ok()
    }

    fn account_home(&self) -> Option<PathBuf> {
        crate::account::home_dir()
    }
}

/// A constructed environment, for tests and for programs that serve several users.
///
/// ```
/// use credlet_platform::{Env, FixedEnv};
///
/// let env = FixedEnv::new([("HOME", "/home/ada"), ("PATH", "/usr/bin")]);
/// assert_eq!(env.var("PATH").unwrap(), "/usr/bin");
/// assert!(!env.stdin_is_terminal());
/// ```
#[derive(Clone, Default)]
pub struct FixedEnv {
    vars: BTreeMap<OsString, OsString>,
    terminal: bool,
    current_dir: Option<PathBuf>,
    account_home: Option<PathBuf>,
}

impl FixedEnv {
    /// Creates an environment with these variables only, without terminal, working directory and account.
    pub fn new<N: AsRef<OsStr>, V: AsRef<OsStr>>(vars: impl IntoIterator<Item = (N, V)>) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
        Self { vars: vars.collect(), ..Self::default() }
    }

    /// Sets whether standard input is a terminal.
    #[must_use]
    pub fn terminal(self, terminal: bool) -> Self {
        Self { terminal, ..self }
    }

    /// Sets the working directory.
    #[must_use]
    pub fn in_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { current_dir: Some(dir.into()), ..self }
    }

    /// Sets the home directory in the account database.
    #[must_use]
    pub fn with_account_home(self, home: impl Into<PathBuf>) -> Self {
        Self { account_home: Some(home.into()), ..self }
    }
}

/// Shows only the names of variables: values may be secrets.
impl fmt::Debug for FixedEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedEnv")
            .field("vars", &self.vars.keys().collect::<Vec<_>>())
            .field("terminal", &self.terminal)
            .field("current_dir", &self.current_dir)
            .field("account_home", &self.account_home)
            .finish()
    }
}

impl Env for FixedEnv {
    fn var(&self, name: &str) -> Option<OsString> {
        self.vars.get(OsStr::new(name)).cloned()
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        self.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn stdin_is_terminal(&self) -> bool {
        self.terminal
    }

    fn current_dir(&self) -> Option<PathBuf> {
        self.current_dir.clone()
    }

    fn account_home(&self) -> Option<PathBuf> {
        self.account_home.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_falls_back_to_the_account_database() {
        let home = |vars: &[(&str, &str)]| FixedEnv::new(vars.iter().copied()).with_account_home("/account").home_dir();
        assert_eq!(home(&[("HOME", "/home/ada")]), Some("/home/ada".into()));
        for vars in [&[][..], &[("HOME", "")], &[("HOME", "relative")]] {
            assert_eq!(home(vars), Some("/account".into()), "{vars:?}");
        }
        assert_eq!(FixedEnv::new([("HOME", ".")]).home_dir(), None);
    }
}
