//! Login flows, verification of ID tokens, and stored logins.

mod authorization_code;
mod browser;
mod cache_key;
mod callback_query;
mod device_code;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod id_token;
mod issuer;
mod listener;
mod login_cache;
mod login_record;
mod logins;
mod loopback;
mod options;
mod random;
mod result_page;
mod settings;
mod token_flow;

use std::sync::Arc;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_exec::{Env, Platform};

pub use self::cache_key::directory;
pub use self::error::{OidcError, plugin_failure};
pub use self::id_token::IdTokenError;
use self::issuer::IssuerClient;
use self::login_cache::LoginCache;
pub use self::logins::{LoginSession, LogoutResult, log_out_all, sessions};
pub use self::options::{GrantType, OidcOptions, PkceMethod, TokenStorage, UnsupportedOptions};
pub use self::settings::{CLIENT_SECRET_ENV, OidcSettings};
use self::token_flow::TokenFlow;
use crate::{IssuerRequestError, OidcEndpoint};

/// Shows progress and instructions to the user. This crate does not print.
pub trait UserOutput: Send + Sync {
    /// Prints one line, which never contains a secret.
    fn print_line(&self, line: &str);
}

/// Discards all output.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOutput;

impl UserOutput for NoOutput {
    fn print_line(&self, _: &str) {}
}

/// The client's request for a token.
#[derive(Clone, Debug, Default)]
pub struct LoginRequest {
    /// URL of the API server, if the client states it. The page after the login shows it.
    pub cluster: Option<String>,
    /// Whether the user is at a terminal. A browser is then opened even within the cooldown after a failed login.
    pub interactive: bool,
}

impl LoginRequest {
    /// Returns the request of a Kubernetes client.
    pub fn from_exec_info(info: &ExecInfo, env: &dyn Env) -> Self {
        let cluster = info.spec.cluster.as_ref().map(|cluster| cluster.server.clone());
        Self { cluster, interactive: info.spec.interactive || env.stdin_is_terminal() }
    }
}

/// Returns a token for the API server: the stored one, a refreshed one, or that of a new login. The returned expiry is never
/// later than the token's own.
///
/// # Errors
/// If the settings are invalid, the login fails or the issuer cannot be reached. [`OidcError::hint`] tells what to do.
pub async fn token(
    settings: &OidcSettings,
    request: &LoginRequest,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
) -> Result<ExecCredentialStatus, OidcError> {
    let cache = LoginCache::open(settings, &**output);
    TokenFlow { settings, request, platform, output, cache }.token().await
}

/// Lets the user log in now, even if a valid token is stored or the last login failed.
///
/// # Errors
/// As for [`token`].
pub async fn log_in(
    settings: &OidcSettings,
    request: &LoginRequest,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
) -> Result<LoginSession, OidcError> {
    let cache = LoginCache::open(settings, &**output);
    let flow = TokenFlow { settings, request, platform, output, cache };
    let _lock = flow.cache.lock(settings.timeout, &*platform.clock, &**output).await?;
    let mut record = flow.cache.read().unwrap_or_default();
    let issuer = IssuerClient::discover(settings, platform).await?;
    flow.log_in(&issuer, &mut record).await?;
    Ok(LoginSession::from_record(&record, platform.clock.now()))
}

/// Revokes the refresh token of a login at the issuer (RFC 7009) and removes the login.
///
/// # Errors
/// If there is no such login. A failed revocation is not an error: it is reported in [`LogoutResult::revoked`].
pub async fn log_out(
    settings: &OidcSettings,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
) -> Result<LogoutResult, OidcError> {
    let cache = LoginCache::open(settings, &**output);
    let _lock = cache.lock(settings.timeout, &*platform.clock, &**output).await?;
    let record = cache.read().ok_or(OidcError::NotLoggedIn)?;
    let revoked = logins::revoke(settings, &record, platform).await;
    cache.remove();
    Ok(LogoutResult { session: LoginSession::from_record(&record, platform.clock.now()), revoked })
}
