//! What `gcloud auth login` leaves on a disk, read without gcloud.
//!
//! **Which account** is decided anew in each run, as gcloud decides it: a flag, a variable, the active configuration. So a
//! switch of account or configuration is seen at once, and a revoked account is gone at once.

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_core::Env;
use jiff::Timestamp;
use jiff::civil::DateTime;

use super::source::{Problem, unsupported};
use super::{AccessToken, Google, Source, sqlite};
use crate::harness::var;
use crate::ini;
use crate::oauth::{self, Error};

/// What must be left of a stored token's life.
const MARGIN: i64 = 60;

/// What a person can say about the account.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Login {
    /// The account; `None`: that of the active configuration.
    pub account: Option<String>,
    /// The service account to become, with those on the way before it, separated by commas.
    pub impersonate: Option<String>,
}

/// The directory of gcloud's configuration: `$CLOUDSDK_CONFIG` or `~/.config/gcloud`.
pub fn directory(env: &dyn Env) -> Option<PathBuf> {
    let configured = var(env, "CLOUDSDK_CONFIG").map(PathBuf::from);
    configured.or_else(|| Some(env.home_dir()?.join(".config/gcloud")))
}

impl Login {
    /// The access token that gcloud would print. It needs a tokio runtime with time and io only if there is none that is
    /// still good.
    ///
    /// # Errors
    /// When nobody is logged in, or no longer.
    pub async fn token(&self, google: &Google, scopes: &[&str]) -> Result<AccessToken, Error> {
        let env = &*google.world.env;
        let config = Config::read(env);
        let property = |section, name| config.property(env, section, name);
        let impersonate = self.impersonate.clone().or_else(|| property("auth", "impersonate_service_account"));
        let file = |section, name| property(section, name).map(PathBuf::from);
        if let Some(path) = file("auth", "access_token_file") {
            let token = oauth::token_file(&path, "the access token")?;
            let token = AccessToken::new(token, None);
            return match impersonate.and_then(|chain| google.impersonation(&chain)) {
                Some((url, delegates)) => google.impersonate(&url, &delegates, None, &token, scopes).await,
                None => Ok(token),
            };
        }
        if let Some(path) = file("auth", "credential_file_override") {
            let source = Source::file(&path)?;
            return google.token(&google.impersonating(source, impersonate.as_deref()), scopes).await;
        }
        let account = self.account.clone().or_else(|| property("core", "account"));
        let Some(account) = account.filter(|account| !account.is_empty()) else {
            let source = Source::Metadata { account: "default".into() };
            let token = google.token(&google.impersonating(source, impersonate.as_deref()), scopes).await;
            return token.map_err(|error| nobody(&config, error));
        };
        if impersonate.is_none()
            && let Some(token) = config.stored(&account, google.world.clock.now())
        {
            return Ok(token);
        }
        let source = match config.credentials(&account)? {
            Some(source) => source,
            None => Source::Metadata { account: account.clone() },
        };
        let is_metadata = matches!(source, Source::Metadata { .. });
        let token = google.token(&google.impersonating(source, impersonate.as_deref()), scopes).await;
        token.map_err(|error| if is_metadata { unknown(&account, error) } else { error })
    }
}

/// gcloud's files.
struct Config {
    dir: Option<PathBuf>,
    name: String,
    sections: Vec<ini::Section>,
}

impl Config {
    fn read(env: &dyn Env) -> Self {
        let dir = directory(env);
        let text = |path: &str| std::fs::read_to_string(dir.as_ref()?.join(path)).ok();
        let active = || text("active_config").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let name = var(env, "CLOUDSDK_ACTIVE_CONFIG_NAME").or_else(active).unwrap_or_else(|| "default".to_owned());
        // A name, and not a way to another file.
        let plain = name != "NONE" && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let sections = plain.then(|| text(&format!("configurations/config_{name}"))).flatten();
        let sections = sections.map(|text| ini::read(&text)).unwrap_or_default();
        Self { dir, name, sections }
    }

    /// A variable, or a line of the active configuration.
    fn property(&self, env: &dyn Env, section: &str, name: &str) -> Option<String> {
        let variable = format!("CLOUDSDK_{}_{}", section.to_ascii_uppercase(), name.to_ascii_uppercase());
        var(env, &variable).or_else(|| {
            let mut sections = self.sections.iter().rev().filter(|found| found.title == section);
            sections.find_map(|section| section.value(name)).map(str::to_owned)
        })
    }

    /// The access token that gcloud had last, if it is still good.
    fn stored(&self, account: &str, now: Timestamp) -> Option<AccessToken> {
        let row = sqlite::row(&self.dir.as_ref()?.join("access_tokens.db"), "access_tokens", account)?;
        let [_, Some(token), Some(expiry), ..] = &*row else { return None };
        // Python writes it in UTC and does not say so.
        let expires: DateTime = expiry.parse().ok()?;
        let expires = expires.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let fresh = expires.as_second() > now.as_second() + MARGIN && !token.is_empty();
        fresh.then(|| AccessToken::new(Secret::new(token.as_str()), Some(expires)))
    }

    /// What new tokens of this account are got with.
    fn credentials(&self, account: &str) -> Result<Option<Source>, Error> {
        let Some(path) = self.dir.as_ref().map(|dir| dir.join("credentials.db")) else { return Ok(None) };
        let Some(row) = sqlite::row(&path, "credentials", account) else { return Ok(None) };
        let Some(Some(text)) = row.get(1) else { return Ok(None) };
        Source::parse(text).map(Some).map_err(|problem| match problem {
            Problem::Content(reason) => {
                Error::Content { what: format!("gcloud's credentials of {account}"), path, reason }
            }
            Problem::Kind(kind) => unsupported(&kind, &path),
        })
    }
}

/// No account, and no machine that has one.
fn nobody(config: &Config, error: Error) -> Error {
    match error {
        Error::NoCredentials { cloud, tried, hint } => {
            let reason = format!("gcloud's configuration `{}` names no account", credlet_api::visible(&config.name));
            Error::NoCredentials { cloud, tried: [vec![reason], tried].concat(), hint }
        }
        error => error,
    }
}

fn unknown(account: &str, error: Error) -> Error {
    let account = credlet_api::visible(account);
    match error {
        Error::NoCredentials { cloud, tried, .. } => {
            let reason = format!("gcloud knows no login of {account}");
            let hint = "log in with `gcloud auth login ACCOUNT`, or choose one of `gcloud auth list`";
            Error::NoCredentials { cloud, tried: [vec![reason], tried].concat(), hint }
        }
        error => error,
    }
}
