//! Single sign-on: reads and refreshes the token of `aws sso login`, and exchanges it for role credentials at the SSO portal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::digest;
use credlet_api::Secret;
use credlet_platform::fs::ReadError;
use http::{HeaderName, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::resolve::SsoProfile;
use super::{AwsCredentials, AwsError, CredentialChain, profiles, time};
use credlet_exec::store::StoreError;
use credlet_http::fetch::{FetchRequest, percent_encode};

const BEARER: HeaderName = HeaderName::from_static("x-amz-sso_bearer_token");

/// A token with less remaining lifetime is refreshed.
const MARGIN: Duration = Duration::from_secs(300);

impl CredentialChain {
    /// Returns the access token of the SSO login, refreshed if necessary and possible.
    pub(super) async fn sso_token(&self, sso: &SsoProfile) -> Result<Secret, AwsError> {
        let path = self.sso_path(sso).ok_or_else(|| login_required(sso, "is missing"))?;
        let token = read_sso_token(&path, sso)?;
        let now = self.platform.clock.now();
        let left =
            token.expires().map_or(Duration::ZERO, |at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        if left > MARGIN {
            return Ok(token.access_token);
        }
        match self.refresh_sso_token(sso, &token, now).await {
            Some(new) => {
                if let Err(error) = write_sso_token(&path, &new) {
                    tracing::warn!(%error, "failed to store the refreshed SSO token");
                }
                Ok(new.access_token)
            }
            None if left > Duration::ZERO => Ok(token.access_token),
            None => Err(login_required(sso, "has expired")),
        }
    }

    pub(super) async fn sso_credentials(&self, sso: &SsoProfile, token: &Secret) -> Result<AwsCredentials, AwsError> {
        let what = || format!("the SSO role {} in account {}", sso.role_name, sso.account_id);
        let failed = |source| AwsError::Request { what: what(), source };
        let (endpoint, policy) = self.settings.sso(&sso.region);
        let (role, account) = (percent_encode(&sso.role_name), percent_encode(&sso.account_id));
        let url = format!("{}/federation/credentials?role_name={}&account_id={}", endpoint.url, *role, *account);
        let request = FetchRequest::get(url).policy(policy).secret_header(BEARER, token).map_err(failed)?;
        let response = self.fetcher.fetch(request).await.map_err(failed)?;
        self.check_clock_skew(&response)?;
        match response.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(login_required(sso, "was rejected")),
            status => {
                let code = if status == StatusCode::FORBIDDEN { "ForbiddenException" } else { status.as_str() };
                let (host, code) = (response.host.clone(), code.to_owned());
                return Err(AwsError::Rejected { host, what: what(), code, message: None });
            }
        }
        let given: RoleCredentialsResponse = response.json().map_err(failed)?;
        let given = given.role_credentials;
        let expires = Timestamp::from_millisecond(given.expiration)
            .map_err(|_| failed(response.invalid_response("it has an invalid expiration")))?;
        Ok(AwsCredentials::new(given.access_key_id, given.secret_access_key, Some(given.session_token))
            .expiring(Some(expires)))
    }

    /// Refreshes the token. `None`: the login has no refresh token, or the service rejects it.
    async fn refresh_sso_token(&self, sso: &SsoProfile, token: &SsoToken, now: Timestamp) -> Option<SsoToken> {
        // The legacy form has no refresh token.
        sso.session.as_ref()?;
        let registered = time::parse(token.registration_expires_at.as_deref()?)?;
        if registered <= now {
            return None;
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct RefreshRequest<'a> {
            client_id: &'a str,
            client_secret: &'a str,
            grant_type: &'static str,
            refresh_token: &'a str,
        }
        let refresh = RefreshRequest {
            client_id: token.client_id.as_ref()?.expose(),
            client_secret: token.client_secret.as_ref()?.expose(),
            grant_type: "refresh_token",
            refresh_token: token.refresh_token.as_ref()?.expose(),
        };
        let (endpoint, policy) = self.settings.sso_oidc(&sso.region);
        let request = FetchRequest::post_json(format!("{}/token", endpoint.url), &refresh).policy(policy);
        let response = match self.fetcher.fetch(request).await {
            Ok(response) if response.status == StatusCode::OK => response,
            Ok(response) => {
                tracing::debug!(status = %response.status, "failed to refresh the SSO token");
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "failed to refresh the SSO token");
                return None;
            }
        };
        let new: RefreshedSsoToken = response.json().ok()?;
        let expires = now.checked_add(Duration::from_secs(new.expires_in)).ok()?;
        Some(SsoToken {
            start_url: Some(sso.start_url.clone()),
            region: Some(sso.region.clone()),
            access_token: new.access_token,
            expires_at: Some(whole_second(expires)),
            refresh_token: new.refresh_token.or_else(|| token.refresh_token.clone()),
            client_id: token.client_id.clone(),
            client_secret: token.client_secret.clone(),
            registration_expires_at: token.registration_expires_at.clone(),
        })
    }

    /// The token's file in `~/.aws/sso/cache/`: the SHA-1 of the session name or of the start URL, as in awscli. `None`: the
    /// home directory is unknown.
    fn sso_path(&self, sso: &SsoProfile) -> Option<PathBuf> {
        let name = sso.session.as_ref().unwrap_or(&sso.start_url);
        let name = credlet_api::hex(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, name.as_bytes()).as_ref());
        Some(self.platform.env.home_dir()?.join(".aws/sso/cache").join(format!("{name}.json")))
    }
}

/// Reads the token that `aws sso login` stored.
fn read_sso_token(path: &Path, sso: &SsoProfile) -> Result<SsoToken, AwsError> {
    let text = match profiles::read_file(path) {
        Err(AwsError::ReadFile { reason: ReadError::NotFound, .. }) => return Err(login_required(sso, "is missing")),
        other => other?,
    };
    serde_json::from_str(&text).map_err(|_| login_required(sso, "has an invalid token file"))
}

/// Formats a time in whole seconds, like awscli.
fn whole_second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// The token file that awscli and the SDKs share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SsoToken {
    start_url: Option<String>,
    region: Option<String>,
    pub(super) access_token: Secret,
    expires_at: Option<String>,
    refresh_token: Option<Secret>,
    client_id: Option<Secret>,
    client_secret: Option<Secret>,
    registration_expires_at: Option<String>,
}

impl SsoToken {
    pub(super) fn expires(&self) -> Option<Timestamp> {
        time::parse(self.expires_at.as_deref()?)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefreshedSsoToken {
    access_token: Secret,
    expires_in: u64,
    refresh_token: Option<Secret>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentialsResponse {
    role_credentials: RoleCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentials {
    access_key_id: Secret,
    secret_access_key: Secret,
    session_token: Secret,
    /// Unix time in milliseconds.
    expiration: i64,
}

fn login_required(sso: &SsoProfile, reason: &'static str) -> AwsError {
    AwsError::SsoLoginRequired { profile: sso.profile.clone(), reason }
}

/// Replaces the token file atomically, so that awscli never reads half of it. A refresh token may be valid only once, so a lost
/// replacement would require a new login.
fn write_sso_token(path: &Path, token: &SsoToken) -> Result<(), StoreError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct SsoTokenJson<'a> {
        start_url: Option<&'a str>,
        region: Option<&'a str>,
        access_token: &'a str,
        expires_at: Option<&'a str>,
        client_id: Option<&'a str>,
        client_secret: Option<&'a str>,
        registration_expires_at: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        refresh_token: Option<&'a str>,
    }
    let written = SsoTokenJson {
        start_url: token.start_url.as_deref(),
        region: token.region.as_deref(),
        access_token: token.access_token.expose(),
        expires_at: token.expires_at.as_deref(),
        client_id: token.client_id.as_ref().map(Secret::expose),
        client_secret: token.client_secret.as_ref().map(Secret::expose),
        registration_expires_at: token.registration_expires_at.as_deref(),
        refresh_token: token.refresh_token.as_ref().map(Secret::expose),
    };
    // Serializing strings cannot fail.
    credlet_exec::store::replace_file(path, &Zeroizing::new(serde_json::to_vec(&written).unwrap_or_default()))
}
