//! Logins of `gcloud auth login`, read from gcloud's files without gcloud.
//!
//! The account is determined in each run, like in gcloud: flag, environment variable, active configuration. A change of account or
//! configuration and a revoked account therefore take effect at once.

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_exec::Env;
use jiff::Timestamp;
use jiff::civil::DateTime;

use super::source::{ParseProblem, unsupported};
use super::{AccessToken, GoogleClient, GoogleCredentialSource, sqlite};
use crate::ini;
use crate::oauth::{self, IdentityToken, TokenError};
use crate::plugin_runner::env_var;

/// Minimum remaining lifetime of a stored token in seconds.
const MARGIN: i64 = 60;

const ACCESS_TOKEN: &str = "access token";

/// Selects an account of gcloud.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GcloudLogin {
    /// Account to use. `None`: that of the active configuration.
    pub account: Option<String>,
    /// Service account to impersonate, preceded by its delegates, separated by commas.
    pub impersonate: Option<String>,
}

/// Returns the directory of gcloud's configuration: `$CLOUDSDK_CONFIG` or `~/.config/gcloud`.
pub fn directory(env: &dyn Env) -> Option<PathBuf> {
    let configured = env_var(env, "CLOUDSDK_CONFIG").map(PathBuf::from);
    configured.or_else(|| Some(env.home_dir()?.join(".config/gcloud")))
}

impl GcloudLogin {
    /// Returns the access token that gcloud would print. Needs a tokio runtime with time and io enabled, unless a stored token is
    /// still valid.
    ///
    /// # Errors
    /// When the login is missing or revoked.
    pub async fn token(&self, google: &GoogleClient, scopes: &[&str]) -> Result<AccessToken, TokenError> {
        let env = &*google.platform.env;
        let config = GcloudConfig::read(env);
        let property = |section, name| config.property(env, section, name);
        let impersonate = self.impersonate.clone().or_else(|| property("auth", "impersonate_service_account"));
        let file = |section, name| property(section, name).map(PathBuf::from);
        if let Some(path) = file("auth", "access_token_file") {
            let token = oauth::read_token_file(&path, ACCESS_TOKEN)?;
            if !token.expose().starts_with("ya29.") && IdentityToken::parse(token.expose()).is_err() {
                // A kubeconfig can set the path (`exec.env`), and the token is sent to that kubeconfig's server.
                let reason = "not a Google access token, not sent";
                return Err(TokenError::InvalidFile { what: ACCESS_TOKEN.to_owned(), path, reason });
            }
            let token = AccessToken::new(token, None);
            return match impersonate.and_then(|chain| google.impersonation(&chain)) {
                Some((url, delegates)) => google.impersonate(&url, &delegates, None, &token, scopes).await,
                None => Ok(token),
            };
        }
        if let Some(path) = file("auth", "credential_file_override") {
            let source = GoogleCredentialSource::file(&path)?;
            return google.token(&google.with_impersonation(source, impersonate.as_deref()), scopes).await;
        }
        let account = self.account.clone().or_else(|| property("core", "account"));
        let Some(account) = account.filter(|account| !account.is_empty()) else {
            let source = GoogleCredentialSource::Metadata { account: "default".into() };
            let token = google.token(&google.with_impersonation(source, impersonate.as_deref()), scopes).await;
            return token.map_err(|error| no_account(&config, error));
        };
        if impersonate.is_none()
            && let Some(token) = config.stored_token(&account, google.platform.clock.now())
        {
            return Ok(token);
        }
        let source = match config.credentials(&account)? {
            Some(source) => source,
            None => GoogleCredentialSource::Metadata { account: account.clone() },
        };
        let is_metadata = matches!(source, GoogleCredentialSource::Metadata { .. });
        let token = google.token(&google.with_impersonation(source, impersonate.as_deref()), scopes).await;
        token.map_err(|error| if is_metadata { unknown_account(&account, error) } else { error })
    }
}

/// The active configuration of gcloud.
struct GcloudConfig {
    dir: Option<PathBuf>,
    name: String,
    sections: Vec<ini::Section>,
}

impl GcloudConfig {
    fn read(env: &dyn Env) -> Self {
        let dir = directory(env);
        let text = |path: &str| {
            oauth::read_text_file(&dir.as_ref()?.join(path), "gcloud configuration", oauth::FILE_LIMIT).ok()
        };
        let active = || text("active_config").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let name = env_var(env, "CLOUDSDK_ACTIVE_CONFIG_NAME").or_else(active).unwrap_or_else(|| "default".to_owned());
        // The name must not lead to another directory.
        let plain = name != "NONE" && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        let sections = plain.then(|| text(&format!("configurations/config_{name}"))).flatten();
        let sections = sections.map(|text| ini::parse(&text)).unwrap_or_default();
        Self { dir, name, sections }
    }

    /// A property from its environment variable, else from the active configuration.
    fn property(&self, env: &dyn Env, section: &str, name: &str) -> Option<String> {
        let variable = format!("CLOUDSDK_{}_{}", section.to_ascii_uppercase(), name.to_ascii_uppercase());
        env_var(env, &variable).or_else(|| {
            let mut sections = self.sections.iter().rev().filter(|found| found.title == section);
            sections.find_map(|section| section.value(name)).map(str::to_owned)
        })
    }

    /// The access token that gcloud stored last, if it is still valid.
    fn stored_token(&self, account: &str, now: Timestamp) -> Option<AccessToken> {
        let row = sqlite::find_row(&self.dir.as_ref()?.join("access_tokens.db"), "access_tokens", account)?;
        let [_, Some(token), Some(expiry), ..] = &*row else { return None };
        // gcloud stores UTC without a zone.
        let expires: DateTime = expiry.parse().ok()?;
        let expires = expires.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let fresh = expires.as_second() > now.as_second() + MARGIN && !token.is_empty();
        fresh.then(|| AccessToken::new(Secret::new(token.as_str()), Some(expires)))
    }

    /// The stored credentials of an account.
    fn credentials(&self, account: &str) -> Result<Option<GoogleCredentialSource>, TokenError> {
        let Some(path) = self.dir.as_ref().map(|dir| dir.join("credentials.db")) else { return Ok(None) };
        let Some(row) = sqlite::find_row(&path, "credentials", account) else { return Ok(None) };
        let Some(Some(text)) = row.get(1) else { return Ok(None) };
        GoogleCredentialSource::parse(text).map(Some).map_err(|problem| match problem {
            ParseProblem::Content(reason) => {
                TokenError::InvalidFile { what: format!("gcloud credentials of {account}"), path, reason }
            }
            ParseProblem::Kind(kind) => unsupported(&kind, &path),
        })
    }
}

/// Adds to the error of the metadata server that no account is configured.
fn no_account(config: &GcloudConfig, error: TokenError) -> TokenError {
    match error {
        TokenError::NoCredentials { cloud, tried, hint } => {
            let reason =
                format!("gcloud configuration `{}` has no account", credlet_api::escape_control_chars(&config.name));
            TokenError::NoCredentials { cloud, tried: [vec![reason], tried].concat(), hint }
        }
        error => error,
    }
}

/// Adds to the error of the metadata server that gcloud has no login of this account.
fn unknown_account(account: &str, error: TokenError) -> TokenError {
    let account = credlet_api::escape_control_chars(account);
    match error {
        TokenError::NoCredentials { cloud, tried, .. } => {
            let reason = format!("gcloud has no login of {account}");
            let hint = "log in with `gcloud auth login ACCOUNT`, or select an account of `gcloud auth list`";
            TokenError::NoCredentials { cloud, tried: [vec![reason], tried].concat(), hint }
        }
        error => error,
    }
}
