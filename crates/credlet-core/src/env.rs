use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// The process's surroundings, given to whoever needs them.
pub trait Env: fmt::Debug + Send + Sync {
    /// A variable of the environment. Set but empty is `Some`.
    fn var(&self, name: &str) -> Option<OsString>;

    /// All variables, in the process's own order.
    fn vars(&self) -> Vec<(OsString, OsString)>;

    /// Whether a person could answer on standard input.
    fn stdin_is_terminal(&self) -> bool;

    /// The directory relative paths start from. `None`: it is gone or out of reach.
    fn current_dir(&self) -> Option<PathBuf>;

    /// The person's own directory, as Go finds it: `$HOME`. `None`: unset or empty.
    fn home_dir(&self) -> Option<PathBuf> {
        self.var("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }
}

/// The surroundings of this very process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEnv;

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
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
}

/// Surroundings of the caller's making: for tests, and for programs that serve several users at once.
///
/// ```
/// use credlet_core::{Env, FixedEnv};
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
}

impl FixedEnv {
    /// These variables and no others, no terminal, no current directory.
    pub fn new<N: AsRef<OsStr>, V: AsRef<OsStr>>(vars: impl IntoIterator<Item = (N, V)>) -> Self {
        let vars = vars.into_iter().map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()));
        Self { vars: vars.collect(), ..Self::default() }
    }

    /// With a person at a terminal, or without.
    #[must_use]
    pub fn terminal(self, terminal: bool) -> Self {
        Self { terminal, ..self }
    }

    /// Relative paths start here.
    #[must_use]
    pub fn in_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { current_dir: Some(dir.into()), ..self }
    }
}

/// Values of variables are often secrets: only names are shown.
impl fmt::Debug for FixedEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedEnv")
            .field("vars", &self.vars.keys().collect::<Vec<_>>())
            .field("terminal", &self.terminal)
            .field("current_dir", &self.current_dir)
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
}
