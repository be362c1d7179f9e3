//! The last failure of a plugin, for those who waited for it, and against storms of logins.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use super::{Key, Options, StormGuard};
use crate::store::{Store, StoreError};

const MAGIC: &str = "credlet-failed 1";

/// A plugin that takes longer before it fails has been waiting for a person.
const LONG: Duration = Duration::from_secs(30);

/// A person who did not log in is left alone for this long, then for twice as long, up to half an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// A failure, as those who come later hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) at: Timestamp,
    /// How many there were in a row.
    pub(super) count: u32,
    /// What the plugin exited with.
    pub(super) code: u8,
    /// Whether it was a login, so that another run may open another browser.
    pub(super) login: bool,
    /// The last of its standard error, made harmless.
    pub(super) message: String,
}

impl Failure {
    pub(super) fn load(store: &Store, key: &Key) -> Option<Self> {
        let bytes = store.read(&name(key)).ok()??;
        let text = std::str::from_utf8(&bytes).ok()?;
        let mut fields = text.strip_prefix(MAGIC)?.strip_prefix(' ')?.splitn(5, ' ');
        let mut number = || fields.next()?.parse::<i64>().ok();
        let at = Timestamp::from_millisecond(number()?).ok()?;
        let (count, code) = (u32::try_from(number()?).ok()?, u8::try_from(number()?).ok()?);
        Some(Self { at, count, code, login: number()? == 1, message: fields.next()?.to_owned() })
    }

    pub(super) fn save(&self, store: &Store, key: &Key) -> Result<(), StoreError> {
        let Self { at, count, code, login, message } = self;
        let at = at.as_millisecond();
        store.write(&name(key), format!("{MAGIC} {at} {count} {code} {} {message}", u8::from(*login)).as_bytes())
    }

    pub(super) fn forget(store: &Store, key: &Key) -> Result<bool, StoreError> {
        store.remove(&name(key))
    }

    /// For how long from `now` nobody is to be asked to log in again.
    pub(super) fn pause(&self, now: Timestamp) -> Option<Duration> {
        if !self.login {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.count.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
        // After the clock was set back it would be any length of time.
        let since = Duration::try_from(now.duration_since(self.at)).ok()?;
        pause.checked_sub(since).filter(|left| !left.is_zero())
    }
}

pub(super) fn name(key: &Key) -> String {
    format!("{key}.failed")
}

/// Whether a run that failed was a login.
pub(super) fn was_login(options: &Options, took: Duration) -> bool {
    match options.storm_guard {
        StormGuard::On => true,
        StormGuard::Off => false,
        StormGuard::Auto => took >= LONG || opens_a_browser(options),
    }
}

/// Plugins that are known to send people to a browser.
pub(super) fn opens_a_browser(options: &Options) -> bool {
    let name = Path::new(&options.command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has = |word: &str| options.args.iter().any(|arg| arg == word);
    match name {
        "kubectl-oidc_login" | "credlet-oidc" | "tsh" => true,
        // Azure's of the same name has modes that need nobody.
        "kubelogin" => {
            let mut args = options.args.iter();
            let mode = args.find_map(|arg| match &**arg {
                "-l" | "--login" => Some(None),
                arg => arg.strip_prefix("--login=").or_else(|| arg.strip_prefix("-l=")).map(Some),
            });
            let mode = mode.map(|attached| attached.or_else(|| args.next().map(String::as_str)).unwrap_or_default());
            mode.is_none_or(|mode| matches!(mode, "devicecode" | "interactive"))
        }
        "kubectl" | "oc" => has("oidc-login") || has("get-token"),
        "pinniped" | "credlet" => has("oidc"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(count: u32, login: bool) -> Failure {
        Failure { at: at(0), count, code: 3, login, message: "two\nlines".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + second).unwrap()
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(dir.path()).unwrap(), Key::of(&[]));
        assert_eq!(Failure::load(&store, &key), None);
        failure(2, true).save(&store, &key).unwrap();
        assert_eq!(Failure::load(&store, &key), Some(failure(2, true)));
        assert!(Failure::forget(&store, &key).unwrap());
        assert_eq!(Failure::load(&store, &key), None);
        store.write(&name(&key), b"credlet-failed 1 x").unwrap();
        assert_eq!(Failure::load(&store, &key), None);
    }

    #[test]
    fn the_pause_doubles_and_ends() {
        let minutes = |count| failure(count, true).pause(at(0)).map(|pause| pause.as_secs() / 60);
        assert_eq!([1, 2, 3, 5, 6, 900].map(minutes), [1, 2, 4, 16, 30, 30].map(Some));
        assert_eq!(failure(1, true).pause(at(59)).map(|left| left.as_secs()), Some(1));
        assert_eq!(failure(1, true).pause(at(60)), None);
        assert_eq!(failure(1, true).pause(at(-60)), None);
        assert_eq!(failure(9, false).pause(at(0)), None);
    }

    #[test]
    fn only_what_asks_people_is_a_login() {
        let browser = |command: &str, args: &[&str]| opens_a_browser(&Options::around(command, args.iter().copied()));
        assert!(browser("/opt/bin/kubelogin", &["get-token"]));
        assert!(browser("kubelogin", &["get-token", "-l", "devicecode"]));
        assert!(!browser("kubelogin", &["get-token", "--login", "msi"]));
        assert!(browser("kubectl", &["oidc-login", "get-token"]));
        assert!(browser("credlet", &["plugin", "oidc"]));
        assert!(!browser("aws", &["eks", "get-token"]));
        let auto = Options::around("aws", [""; 0]);
        assert!(!was_login(&auto, Duration::from_secs(5)) && was_login(&auto, Duration::from_secs(60)));
        let off = Options { storm_guard: StormGuard::Off, ..auto };
        assert!(!was_login(&off, Duration::from_secs(600)));
    }
}
