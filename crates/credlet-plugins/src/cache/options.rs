//! What a person can say about a cache, and the reader of it that costs nothing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use credlet_core::Env;

/// How to cache which plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// More variables that say who is asking. A `*` at the end stands for anything.
    pub env: Vec<String>,
    /// More files that say who is asking.
    pub watch: Vec<PathBuf>,
    /// How long to keep a credential that says nothing about its end.
    pub default_ttl: Duration,
    /// How long to keep any credential at most.
    pub max_age: Duration,
    /// Whether failed logins hold up further ones.
    pub storm_guard: StormGuard,
    /// Keep nothing: for tokens that are good for one request.
    pub no_store: bool,
    /// Ask the plugin whatever is there.
    pub force_refresh: bool,
    /// Keep entries encrypted, with the key in the system's keyring.
    pub encrypt: bool,
    /// Where to keep them, instead of the [usual place](directory).
    pub cache_dir: Option<PathBuf>,
    /// The plugin.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Whether failed logins hold up further ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StormGuard {
    /// Those of plugins that are known to open a browser, and those that waited long enough to have been waiting for a
    /// person.
    #[default]
    Auto,
    /// Every failure.
    On,
    /// None.
    Off,
}

impl std::str::FromStr for StormGuard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err("give auto, on or off".to_owned()),
        }
    }
}

impl Options {
    /// The API server itself remembers for this long that a token is good.
    pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

    /// Whatever a plugin says, it is asked again after this long.
    pub const MAX_AGE: Duration = Duration::from_secs(3600);

    /// A cache around this plugin, as if no option was given.
    pub fn around(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
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

    /// Reads `[options] -- PLUGIN ARGS…`. `None`: anything else, which a real parser should explain.
    pub fn parse(words: &[OsString]) -> Option<Self> {
        let mut words = words.iter().map(|word| word.to_str());
        let mut options = Self::around("", [""; 0]);
        loop {
            let word = words.next()??;
            if word == "--" {
                break;
            }
            let (name, attached) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let flag = match name {
                "--no-store" => &mut options.no_store,
                "--force-refresh" => &mut options.force_refresh,
                "--encrypt" => &mut options.encrypt,
                _ => {
                    let value = match attached {
                        Some(value) => value,
                        // `--watch --` is a mistake, not a file.
                        None => words.next()?.filter(|value| !value.starts_with('-'))?,
                    };
                    match name {
                        "--env" => options.env.push(value.to_owned()),
                        "--watch" => options.watch.push(value.into()),
                        "--default-ttl" => options.default_ttl = parse_duration(value).ok()?,
                        "--max-age" => options.max_age = parse_duration(value).ok()?,
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
        options.command = words.next()??.to_owned();
        options.args = words.map(|word| word.map(str::to_owned)).collect::<Option<_>>()?;
        Some(options)
    }
}

/// `90`, `90s`, `15m`, `1h`.
///
/// # Errors
/// Says what to write.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    let seconds = number.parse::<u32>().map_err(|_| "give seconds, or a number and a unit: 30, 90s, 15m, 1h")?;
    Ok(Duration::from_secs(u64::from(seconds) * unit))
}

/// Where entries are kept: `CREDLET_CACHE_DIR`, else `credlet/exec` in the user's directory for such things. `None`: this
/// user has none. Never a shared one such as `/tmp`.
pub fn directory(options_dir: Option<&PathBuf>, env: &dyn Env) -> Option<PathBuf> {
    let named = |name| env.var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let usual = || {
        let caches = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        caches.or_else(|| env.home_dir().map(|home| home.join(".cache"))).map(|caches| caches.join("credlet/exec"))
    };
    options_dir.cloned().or_else(|| named("CREDLET_CACHE_DIR")).or_else(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Options> {
        Options::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_come_before_the_plugin_and_nothing_after_it_is_ours() {
        assert_eq!(parsed("-- aws eks --force-refresh"), Some(Options::around("aws", ["eks", "--force-refresh"])));
        let line = "--env A --env=B* --watch f --default-ttl 5 --max-age=15m --storm-guard off \
                    --no-store --force-refresh --encrypt --cache-dir /d -- p -- --x";
        let expected = Options {
            env: vec!["A".into(), "B*".into()],
            watch: vec!["f".into()],
            default_ttl: Duration::from_secs(5),
            max_age: Duration::from_secs(900),
            storm_guard: StormGuard::Off,
            no_store: true,
            force_refresh: true,
            encrypt: true,
            cache_dir: Some("/d".into()),
            ..Options::around("p", ["--", "--x"])
        };
        assert_eq!(parsed(line), Some(expected));
    }

    #[test]
    fn anything_odd_is_left_to_the_real_parser() {
        for line in
            ["", "--", "aws", "--help -- aws", "--watch -- aws", "--max-age x -- aws", "--encrypt=yes -- aws", "ls"]
        {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn entries_are_never_kept_in_a_shared_directory() {
        let dir = |vars: &[(&str, &str)]| directory(None, &credlet_core::FixedEnv::new(vars.iter().copied()));
        assert_eq!(dir(&[("HOME", "/h")]), Some("/h/.cache/credlet/exec".into()));
        assert_eq!(dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/credlet/exec".into()));
        assert_eq!(dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]), Some("/h/.cache/credlet/exec".into()));
        assert_eq!(dir(&[("HOME", "/h"), ("CREDLET_CACHE_DIR", "/c")]), Some("/c".into()));
        assert_eq!(dir(&[("TMPDIR", "/tmp")]), None);
    }
}
