//! The last failure of a plugin, for callers that waited for it, and to limit repeated logins.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use zeroize::Zeroizing;

use super::protection::FileProtection;
use super::{CacheKey, CacheOptions, StormGuard};
use crate::store::{Store, StoreError};

const MAGIC: &str = "credlet-failed 1";

/// A plugin that takes at least this long before it fails has waited for a login.
const LOGIN_DURATION: Duration = Duration::from_secs(30);

/// Time after a failed login before the next attempt. It doubles with each failure up to [`MAX_COOLDOWN`].
const INITIAL_COOLDOWN: Duration = Duration::from_secs(60);
const MAX_COOLDOWN: Duration = Duration::from_secs(30 * 60);

/// The last failed run of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PluginFailure {
    pub(super) at: Timestamp,
    /// Number of consecutive failures.
    pub(super) count: u32,
    /// Exit code of the plugin.
    pub(super) code: u8,
    /// Whether the run was a login, so that the next one may open a browser again.
    pub(super) login: bool,
    /// Sanitized end of the plugin's standard error.
    pub(super) message: String,
}

impl PluginFailure {
    /// Returns the last failure. Its message is empty if it could not be encrypted.
    pub(super) fn load(store: &Store, key: &CacheKey, protection: Option<&FileProtection>) -> Option<Self> {
        let name = file_name(key);
        let bytes = store.read(&name).ok()??;
        let plain = protection.and_then(|protection| protection.decode(&name, bytes.clone()));
        match plain {
            Some(plain) => Self::decode(&plain),
            None => Self::decode(&bytes).filter(|failure| failure.message.is_empty()),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut fields = text.strip_prefix(MAGIC)?.strip_prefix(' ')?.splitn(5, ' ');
        let mut number = || fields.next()?.parse::<i64>().ok();
        let at = Timestamp::from_millisecond(number()?).ok()?;
        let (count, code) = (u32::try_from(number()?).ok()?, u8::try_from(number()?).ok()?);
        Some(Self { at, count, code, login: number()? == 1, message: fields.next()?.to_owned() })
    }

    /// Stores the failure. Without `protection`, because the encryption key is missing, the message is left out.
    pub(super) fn save(
        &self,
        store: &Store,
        key: &CacheKey,
        protection: Option<&FileProtection>,
    ) -> Result<(), StoreError> {
        let Self { at, count, code, login, message } = self;
        let at = at.as_millisecond();
        let name = file_name(key);
        let encode = |message: &str| {
            Zeroizing::new(format!("{MAGIC} {at} {count} {code} {} {message}", u8::from(*login)).into_bytes())
        };
        let protected = protection.and_then(|protection| protection.encode(&name, encode(message)).ok());
        store.write(&name, &protected.unwrap_or_else(|| encode("")))
    }

    pub(super) fn clear(store: &Store, key: &CacheKey) -> Result<bool, StoreError> {
        store.remove(&file_name(key))
    }

    /// The remaining cooldown of a failed login. `None`: the plugin may be run.
    pub(super) fn cooldown(&self, now: Timestamp) -> Option<Duration> {
        if !self.login {
            return None;
        }
        let pause = INITIAL_COOLDOWN.saturating_mul(1 << self.count.saturating_sub(1).min(10)).min(MAX_COOLDOWN);
        // Negative if the clock was set back: no cooldown then.
        let since = Duration::try_from(now.duration_since(self.at)).ok()?;
        pause.checked_sub(since).filter(|left| !left.is_zero())
    }
}

pub(super) fn file_name(key: &CacheKey) -> String {
    format!("{key}.failed")
}

/// Whether a failed run counts as a login.
pub(super) fn was_login_attempt(options: &CacheOptions, took: Duration) -> bool {
    match options.storm_guard {
        StormGuard::On => true,
        StormGuard::Off => false,
        StormGuard::Auto => took >= LOGIN_DURATION || opens_browser(options),
    }
}

/// Whether the plugin is known to open a browser for logins.
pub(super) fn opens_browser(options: &CacheOptions) -> bool {
    let name = Path::new(&options.command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has = |word: &str| options.args.iter().any(|arg| arg == word);
    match name {
        "kubectl-oidc_login" | "credlet-oidc" | "tsh" => true,
        // Azure's plugin of the same name also has non-interactive modes.
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

    fn failure(count: u32, login: bool) -> PluginFailure {
        PluginFailure { at: at(0), count, code: 3, login, message: "two\nlines".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + second).unwrap()
    }

    #[test]
    fn failure_is_saved_and_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(&dir.path().join("s")).unwrap(), CacheKey::from_name(&"a".repeat(64)));
        let plain = Some(&FileProtection::Plain);
        assert_eq!(PluginFailure::load(&store, &key, plain), None);
        failure(2, true).save(&store, &key, plain).unwrap();
        assert_eq!(PluginFailure::load(&store, &key, plain), Some(failure(2, true)));
        assert_eq!(PluginFailure::load(&store, &key, None), None, "not encrypted");
        assert!(PluginFailure::clear(&store, &key).unwrap());
        assert_eq!(PluginFailure::load(&store, &key, plain), None);
        store.write(&file_name(&key), b"credlet-failed 1 x").unwrap();
        assert_eq!(PluginFailure::load(&store, &key, plain), None);
    }

    #[test]
    fn message_is_omitted_without_encryption_key() {
        let dir = tempfile::tempdir().unwrap();
        let (store, key) = (Store::open(&dir.path().join("s")).unwrap(), CacheKey::from_name(&"a".repeat(64)));
        failure(2, true).save(&store, &key, None).unwrap();
        let loaded = PluginFailure::load(&store, &key, None);
        assert_eq!(loaded, Some(PluginFailure { message: String::new(), ..failure(2, true) }));
    }

    #[test]
    fn cooldown_doubles_up_to_a_limit() {
        let minutes = |count| failure(count, true).cooldown(at(0)).map(|pause| pause.as_secs() / 60);
        assert_eq!([1, 2, 3, 5, 6, 900].map(minutes), [1, 2, 4, 16, 30, 30].map(Some));
        assert_eq!(failure(1, true).cooldown(at(59)).map(|left| left.as_secs()), Some(1));
        assert_eq!(failure(1, true).cooldown(at(60)), None);
        assert_eq!(failure(1, true).cooldown(at(-60)), None);
        assert_eq!(failure(9, false).cooldown(at(0)), None);
    }

    #[test]
    fn only_interactive_plugins_count_as_login() {
        let browser = |command: &str, args: &[&str]| opens_browser(&CacheOptions::new(command, args.iter().copied()));
        assert!(browser("/opt/bin/kubelogin", &["get-token"]));
        assert!(browser("kubelogin", &["get-token", "-l", "devicecode"]));
        assert!(!browser("kubelogin", &["get-token", "--login", "msi"]));
        assert!(browser("kubectl", &["oidc-login", "get-token"]));
        assert!(browser("credlet", &["plugin", "oidc"]));
        assert!(!browser("aws", &["eks", "get-token"]));
        let auto = CacheOptions::new("aws", [""; 0]);
        assert!(!was_login_attempt(&auto, Duration::from_secs(5)) && was_login_attempt(&auto, Duration::from_secs(60)));
        let off = CacheOptions { storm_guard: StormGuard::Off, ..auto };
        assert!(!was_login_attempt(&off, Duration::from_secs(600)));
    }
}
