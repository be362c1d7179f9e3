//! Single sign-on: `aws sso login` leaves a token in a file; the portal gives a role's credentials for it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::digest;
use credlet_api::Secret;
use http::{HeaderName, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::source::Sso;
use super::{AwsError, Chain, Credentials, profiles, sigv4, time};
use crate::store::StoreError;
use crate::web::{Ask, escaped};

const BEARER: HeaderName = HeaderName::from_static("x-amz-sso_bearer_token");

/// A login is renewed when it has less than this to live.
const MARGIN: Duration = Duration::from_secs(300);

impl Chain {
    /// The token of the login, renewed if that is needed and possible.
    pub(super) async fn sso_token(&self, sso: &Sso) -> Result<Secret, AwsError> {
        let path = self.sso_path(sso);
        let token = self.sso_token_at_hand(sso)?;
        let now = self.world.clock.now();
        let left =
            token.expires().map_or(Duration::ZERO, |at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        if left > MARGIN {
            return Ok(token.access_token);
        }
        match self.renewed(sso, &token, now).await {
            Some(new) => {
                if let Err(error) = save(&path, &new) {
                    tracing::warn!(%error, "the renewed SSO login cannot be kept");
                }
                Ok(new.access_token)
            }
            None if left > Duration::ZERO => Ok(token.access_token),
            None => Err(log_in(sso, "has expired")),
        }
    }

    /// As the file has it.
    pub(super) fn sso_token_at_hand(&self, sso: &Sso) -> Result<Token, AwsError> {
        let text = match profiles::file(&self.sso_path(sso)) {
            Err(AwsError::File { reason: io::ErrorKind::NotFound, .. }) => return Err(log_in(sso, "is missing")),
            other => other?,
        };
        serde_json::from_str(&text).map_err(|_| log_in(sso, "cannot be read"))
    }

    pub(super) async fn sso_credentials(&self, sso: &Sso, token: &Secret) -> Result<Credentials, AwsError> {
        let what = || format!("the SSO role {} in account {}", sso.role_name, sso.account_id);
        let failed = |source| AwsError::Web { what: what(), source };
        let endpoint = self.settings.sso(&sso.region);
        let (role, account) = (escaped(&sso.role_name), escaped(&sso.account_id));
        let url = format!("{}/federation/credentials?role_name={}&account_id={}", endpoint.url, *role, *account);
        let ask = Ask::get(url).plain(endpoint.plain()).secret_header(BEARER, token).map_err(failed)?;
        let answer = self.web.fetch(ask).await.map_err(failed)?;
        self.compare_clocks(&answer)?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(log_in(sso, "is no longer accepted")),
            status => {
                let code = if status == StatusCode::FORBIDDEN { "ForbiddenException" } else { status.as_str() };
                let (host, code) = (answer.host.clone(), code.to_owned());
                return Err(AwsError::Refused { host, what: what(), code, message: None });
            }
        }
        let given: Given = answer.json().map_err(failed)?;
        let given = given.role_credentials;
        let expires = Timestamp::from_millisecond(given.expiration)
            .map_err(|_| failed(answer.nonsense("that has an expiration which is not a time")))?;
        Ok(Credentials::new(given.access_key_id, given.secret_access_key, Some(given.session_token))
            .expiring(Some(expires)))
    }

    /// `None`: it cannot be renewed, or the service will not.
    async fn renewed(&self, sso: &Sso, token: &Token, now: Timestamp) -> Option<Token> {
        // The old form has no way to renew a login.
        sso.session.as_ref()?;
        let registered = time::parse(token.registration_expires_at.as_deref()?)?;
        if registered <= now {
            return None;
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Renew<'a> {
            client_id: &'a str,
            client_secret: &'a str,
            grant_type: &'static str,
            refresh_token: &'a str,
        }
        let renew = Renew {
            client_id: token.client_id.as_ref()?.expose(),
            client_secret: token.client_secret.as_ref()?.expose(),
            grant_type: "refresh_token",
            refresh_token: token.refresh_token.as_ref()?.expose(),
        };
        let endpoint = self.settings.sso_oidc(&sso.region);
        let ask = Ask::post_json(format!("{}/token", endpoint.url), &renew).plain(endpoint.plain());
        let answer = match self.web.fetch(ask).await {
            Ok(answer) if answer.status == StatusCode::OK => answer,
            Ok(answer) => {
                tracing::debug!(status = %answer.status, "the SSO login is not renewed");
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "the SSO login is not renewed");
                return None;
            }
        };
        let new: Renewed = answer.json().ok()?;
        let expires = now.checked_add(Duration::from_secs(new.expires_in)).ok()?;
        Some(Token {
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

    /// `~/.aws/sso/cache/`, by the name of the session or by the portal's address.
    fn sso_path(&self, sso: &Sso) -> PathBuf {
        let name = sso.session.as_ref().unwrap_or(&sso.start_url);
        let name = sigv4::hex(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, name.as_bytes()).as_ref());
        let home = self.world.env.home_dir().unwrap_or_default();
        home.join(".aws/sso/cache").join(format!("{name}.json"))
    }
}

/// Whole seconds, as awscli writes them.
fn whole_second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// The file that awscli and the SDKs share.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Token {
    start_url: Option<String>,
    region: Option<String>,
    pub(super) access_token: Secret,
    expires_at: Option<String>,
    refresh_token: Option<Secret>,
    client_id: Option<Secret>,
    client_secret: Option<Secret>,
    registration_expires_at: Option<String>,
}

impl Token {
    fn expires(&self) -> Option<Timestamp> {
        time::parse(self.expires_at.as_deref()?)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Renewed {
    access_token: Secret,
    expires_in: u64,
    refresh_token: Option<Secret>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    role_credentials: RoleCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentials {
    access_key_id: Secret,
    secret_access_key: Secret,
    session_token: Secret,
    /// Milliseconds since 1970.
    expiration: i64,
}

fn log_in(sso: &Sso, reason: &'static str) -> AwsError {
    AwsError::LogIn { profile: sso.profile.clone(), reason }
}

/// In one step, so that awscli never reads half of it. A refresh token may be good once only: losing the new one would
/// mean a login.
fn save(path: &Path, token: &Token) -> Result<(), StoreError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Written<'a> {
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
    let written = Written {
        start_url: token.start_url.as_deref(),
        region: token.region.as_deref(),
        access_token: token.access_token.expose(),
        expires_at: token.expires_at.as_deref(),
        client_id: token.client_id.as_ref().map(Secret::expose),
        client_secret: token.client_secret.as_ref().map(Secret::expose),
        registration_expires_at: token.registration_expires_at.as_deref(),
        refresh_token: token.refresh_token.as_ref().map(Secret::expose),
    };
    // Strings cannot fail to be written.
    crate::store::replace_file(path, &Zeroizing::new(serde_json::to_vec(&written).unwrap_or_default()))
}
