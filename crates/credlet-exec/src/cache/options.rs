//! Options of `credlet cache`, and their parser for the hot path.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use credlet_api::duration;

use crate::Env;
use crate::store::cache_dir;

/// The plugin and how its output is cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Session variables that are part of the key although they are excluded by default. A trailing `*` matches any suffix.
    pub env: Vec<String>,
    /// Additional files that are part of the key.
    pub watch: Vec<PathBuf>,
    /// How long a credential without a known expiry is served.
    pub default_ttl: Duration,
    /// How long any credential is served at most.
    pub max_age: Duration,
    /// Whether failed logins delay further ones.
    pub storm_guard: StormGuard,
    /// Store nothing: for tokens that are valid for one request.
    pub no_store: bool,
    /// Run the plugin even if a valid entry is stored.
    pub force_refresh: bool,
    /// Store entries encrypted, with the key in the kernel's keyring. Without a keyring nothing is stored.
    pub encrypt: bool,
    /// Parent of the cache directory, see [`directory`].
    pub cache_dir: Option<PathBuf>,
    /// Name or path of the plugin.
    pub command: String,
    /// Arguments of the plugin.
    pub args: Vec<String>,
}

/// Whether a failed login delays further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StormGuard {
    /// Failures of plugins that are known to open a browser, and of runs that took at least 30 s.
    #[default]
    Auto,
    /// All failures delay the next run.
    On,
    /// No failure delays the next run.
    Off,
}

impl std::str::FromStr for StormGuard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err("must be auto, on or off".to_owned()),
        }
    }
}

impl CacheOptions {
    /// As long as the API server caches a successful token authentication.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

    /// Default limit for any credential.
    pub const MAX_AGE: Duration = Duration::from_secs(3600);

    /// Returns the default options for this plugin.
    pub fn new(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            env: Vec::new(),
            watch: Vec::new(),
            default_ttl: Self::DEFAULT_TTL,
            max_age: Self::MAX_AGE,
            storm_guard: StormGuard::default(),
            no_store: false,
            force_refresh: false,
            encrypt: false,
            cache_dir: None,
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
        }
    }

    /// Parses `[options] -- PLUGIN ARGS…`. Returns `None` for anything else; clap then parses it again and reports errors.
    pub fn parse(args: &[OsString]) -> Option<Self> {
        let mut args = args.iter().map(|arg| arg.to_str());
        let mut options = Self::new("", [""; 0]);
        loop {
            let arg = args.next()??;
            if arg == "--" {
                break;
            }
            let (name, attached) = arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
            let flag = match name {
                "--no-store" => &mut options.no_store,
                "--force-refresh" => &mut options.force_refresh,
                "--encrypt" => &mut options.encrypt,
                _ => {
                    let value = match attached {
                        Some(value) => value,
                        // `--watch --` lacks a value.
                        None => args.next()?.filter(|value| !value.starts_with('-'))?,
                    };
                    match name {
                        "--env" => options.env.push(value.to_owned()),
                        "--watch" => options.watch.push(value.into()),
                        "--default-ttl" => options.default_ttl = duration::parse_or_seconds(value).ok()?,
                        "--max-age" => options.max_age = duration::parse_or_seconds(value).ok()?,
                        "--storm-guard" => options.storm_guard = value.parse().ok()?,
                        "--cache-dir" => options.cache_dir = Some(value.into()),
                        _ => return None,
                    }
                    continue;
                }
            };
            if attached.is_some() || std::mem::replace(flag, true) {
                return None;
            }
        }
        options.command = args.next()??.to_owned();
        options.args = args.map(|arg| arg.map(str::to_owned)).collect::<Option<_>>()?;
        Some(options)
    }
}

/// Directory of the entries below the one of `--cache-dir` or `CREDLET_CACHE_DIR`.
const SUBDIRECTORY: &str = "credlet-exec";

/// Returns the directory of the entries: `credlet-exec` in that of `--cache-dir` or `CREDLET_CACHE_DIR`, else `credlet/exec` in
/// the user's [cache directory](credlet_platform::dirs). `None` if neither is set. A shared directory such as `/tmp` is never used.
///
/// Option and variable may come from a kubeconfig and name any directory of the user, such as `~/.ssh`. So only the
/// subdirectory is created in it, and its mode is not changed.
pub fn directory(options_dir: Option<&PathBuf>, env: &dyn Env) -> Option<PathBuf> {
    let named = || env.var("CREDLET_CACHE_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
    match options_dir.cloned().or_else(named) {
        Some(chosen) if chosen.is_absolute() => Some(chosen.join(SUBDIRECTORY)),
        Some(chosen) => Some(env.current_dir()?.join(chosen).join(SUBDIRECTORY)),
        None => default_directory(env),
    }
}

/// Returns `credlet/exec` in the user's cache directory.
pub(super) fn default_directory(env: &dyn Env) -> Option<PathBuf> {
    cache_dir(env, "exec")
}

#[cfg(test)]
mod tests {
    use credlet_platform::dirs::CACHE_IN_HOME;

    use super::*;

    fn parsed(line: &str) -> Option<CacheOptions> {
        CacheOptions::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_precede_the_plugin() {
        assert_eq!(parsed("-- aws eks --force-refresh"), Some(CacheOptions::new("aws", ["eks", "--force-refresh"])));
        let line = "--env A --env=B* --watch f --default-ttl 5 --max-age=15m --storm-guard off \
                    --no-store --force-refresh --encrypt --cache-dir /d -- p -- --x";
        let expected = CacheOptions {
            env: vec!["A".into(), "B*".into()],
            watch: vec!["f".into()],
            default_ttl: Duration::from_secs(5),
            max_age: Duration::from_secs(900),
            storm_guard: StormGuard::Off,
            no_store: true,
            force_refresh: true,
            encrypt: true,
            cache_dir: Some("/d".into()),
            ..CacheOptions::new("p", ["--", "--x"])
        };
        assert_eq!(parsed(line), Some(expected));
    }

    #[test]
    fn invalid_options_are_left_to_clap() {
        for line in
            ["", "--", "aws", "--help -- aws", "--watch -- aws", "--max-age x -- aws", "--encrypt=yes -- aws", "ls"]
        {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn directory_is_never_shared() {
        let default = PathBuf::from("/h").join(CACHE_IN_HOME).join("credlet/exec");
        let dir = |vars: &[(&str, &str)]| directory(None, &crate::FixedEnv::new(vars.iter().copied()));
        assert_eq!(dir(&[("HOME", "/h")]), Some(default.clone()));
        assert_eq!(dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/credlet/exec".into()));
        assert_eq!(dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]), Some(default.clone()));
        assert_eq!(dir(&[("HOME", "/h"), ("CREDLET_CACHE_DIR", "/c")]), Some("/c/credlet-exec".into()));
        assert_eq!(dir(&[("HOME", "/h"), ("CREDLET_CACHE_DIR", "c")]), None);
        let env = crate::FixedEnv::default().in_dir("/w");
        assert_eq!(directory(Some(&"c".into()), &env), Some("/w/c/credlet-exec".into()));
        assert_eq!(dir(&[("TMPDIR", "/tmp")]), None);
    }
}
