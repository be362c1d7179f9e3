//! Token requests: service account keys, refresh tokens, token exchange, impersonation.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use http::HeaderName;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::source::{AuthorizedUser, ExternalAccount, ServiceAccountKey, SubjectTokenSource};
use super::{AccessToken, CLOUD_PLATFORM, GoogleClient};
use crate::oauth::{self, IdentityToken, JwsAlgorithm, RsaSigningKey, TokenError, parse_token_response, rejected};
use credlet_http::fetch::{EndpointPolicy, FetchError, FetchRequest, percent_encode};

/// Lifetime of an assertion in seconds, the maximum that Google accepts.
const ASSERTION_LIFETIME: i64 = 3600;

/// A token of another identity provider, to be exchanged at Google's STS.
#[derive(Clone, Debug)]
pub struct TokenExchange<'a> {
    /// URL of the STS.
    pub token_url: &'a str,
    /// Full name of the workload identity provider.
    pub audience: &'a str,
    /// RFC 8693 type of the token, for example `urn:ietf:params:oauth:token-type:jwt`.
    pub subject_token_type: &'a str,
    /// The token to exchange.
    pub subject_token: &'a IdentityToken,
}

impl GoogleClient {
    /// Requests a token with an assertion signed by a service account key (RFC 7523).
    pub(super) async fn service_account_token(
        &self,
        account: &ServiceAccountKey,
        scopes: &[&str],
    ) -> Result<AccessToken, TokenError> {
        let what = format!("token of {}", account.client_email);
        let url = if account.token_uri.is_empty() { &self.token_url } else { &account.token_uri };
        let key =
            RsaSigningKey::from_pem(account.private_key.expose().as_bytes(), "private key of the service account")?;
        let now = self.platform.clock.now();
        let mut header = Map::new();
        if !account.private_key_id.is_empty() {
            header.insert("kid".into(), account.private_key_id.as_str().into());
        }
        let claims = json!({
            "iss": account.client_email,
            "scope": scopes.join(" "),
            "aud": url,
            "iat": now.as_second(),
            "exp": now.as_second() + ASSERTION_LIFETIME,
        });
        let assertion = key.sign_jwt(JwsAlgorithm::Rs256, header, &claims)?;
        let fields = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion.expose())];
        self.request_token(FetchRequest::post_form(url, &fields), &what, |code| match code {
            "invalid_grant" => Some("the key may have been deleted, or the local clock is wrong"),
            _ => None,
        })
        .await
    }

    /// Requests a token with the refresh token of a user login.
    pub(super) async fn refresh_user_token(&self, user: &AuthorizedUser) -> Result<AccessToken, TokenError> {
        let url = if user.token_uri.is_empty() { &self.token_url } else { &user.token_uri };
        let mut fields = vec![("grant_type", "refresh_token"), ("refresh_token", user.refresh_token.expose())];
        if !user.basic_auth {
            fields.extend([("client_id", user.client_id.as_str()), ("client_secret", user.client_secret.expose())]);
        }
        let what = "token of the gcloud login";
        let mut request = FetchRequest::post_form(url, &fields).policy(self.bearer_policy(url));
        if user.basic_auth {
            request = with_basic_auth(request, &user.client_id, &user.client_secret, what)?;
        }
        self.request_token(request, what, |code| match code {
            "invalid_grant" | "invalid_rapt" | "rapt_required" => {
                Some("the login has expired: log in again with `gcloud auth login`, or `gcloud auth application-default login`")
            }
            _ => None,
        })
        .await
    }

    pub(super) async fn external_account_token(
        &self,
        external: &ExternalAccount,
        subject: Option<&IdentityToken>,
        scopes: &[&str],
    ) -> Result<AccessToken, TokenError> {
        let subject_token = match subject {
            Some(token) => token.clone(),
            None => self.subject_token(external).await?,
        };
        let exchange = TokenExchange {
            token_url: &external.token_url,
            audience: &external.audience,
            subject_token_type: &external.subject_token_type,
            subject_token: &subject_token,
        };
        let impersonates = !external.service_account_impersonation_url.is_empty();
        let first: &[&str] = if impersonates { &[CLOUD_PLATFORM] } else { scopes };
        let project = Some(external.workforce_pool_user_project.as_str()).filter(|project| !project.is_empty());
        let client = Some((external.client_id.as_str(), &external.client_secret)).filter(|(id, _)| !id.is_empty());
        let token = self.exchange_token(&exchange, first, project, client).await?;
        if !impersonates {
            return Ok(token);
        }
        let life = external.service_account_impersonation.token_lifetime_seconds;
        let token = self.impersonate(&external.service_account_impersonation_url, &[], life, &token, scopes).await?;
        Ok(token.limit_expiry(subject_token.expires()))
    }

    /// Exchanges a token of another identity provider for a Google access token (RFC 8693).
    ///
    /// # Errors
    /// When the STS rejects the token, or the request fails.
    pub async fn exchange(&self, exchange: &TokenExchange<'_>, scopes: &[&str]) -> Result<AccessToken, TokenError> {
        self.exchange_token(exchange, scopes, None, None).await
    }

    async fn exchange_token(
        &self,
        exchange: &TokenExchange<'_>,
        scopes: &[&str],
        project: Option<&str>,
        client: Option<(&str, &Secret)>,
    ) -> Result<AccessToken, TokenError> {
        let what = "federated access token";
        let (scope, options) = (scopes.join(" "), project.map(|project| json!({ "userProject": project }).to_string()));
        let mut fields = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ("audience", exchange.audience),
            ("scope", &scope),
            ("subject_token_type", exchange.subject_token_type),
            ("subject_token", exchange.subject_token.expose()),
        ];
        if let Some(options) = &options {
            fields.push(("options", options));
        }
        let mut request = FetchRequest::post_form(exchange.token_url, &fields);
        if let Some((id, secret)) = client {
            request = with_basic_auth(request, id, secret, what)?;
        }
        let token = self.request_token(request, what, |code| match code {
            "invalid_grant" => {
                Some("the workload identity provider rejected the token: check its issuer, audience and expiry")
            }
            "invalid_target" | "invalid_request" => {
                Some("check the audience: it must name the workload identity pool and its provider")
            }
            _ => None,
        });
        Ok(token.await?.limit_expiry(exchange.subject_token.expires()))
    }

    /// Requests a token of the service account at `url` (see [`impersonation_url`](Self::impersonation_url)), authorized by `by`.
    /// `life` is its lifetime in seconds; default: one hour.
    ///
    /// # Errors
    /// When impersonation is denied, or the request fails.
    pub async fn impersonate(
        &self,
        url: &str,
        delegates: &[String],
        life: Option<u32>,
        by: &AccessToken,
        scopes: &[&str],
    ) -> Result<AccessToken, TokenError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Generated {
            access_token: Secret,
            expire_time: String,
        }
        let what = "token of the impersonated service account";
        let failed = |source: FetchError| TokenError::Request { what: what.to_owned(), source };
        let mut body = json!({ "scope": scopes, "lifetime": format!("{}s", life.unwrap_or(3600)) });
        if !delegates.is_empty() {
            body["delegates"] = delegates.into();
        }
        let bearer = Secret::new(format!("Bearer {}", by.token.expose()));
        let request = FetchRequest::post_json(url, &body).policy(self.bearer_policy(url));
        let request = request.secret_header(AUTHORIZATION, &bearer).map_err(failed)?;
        let response = self.fetcher.fetch(request).await.map_err(failed)?;
        if !response.status.is_success() {
            return Err(rejected(&response, what, |code| match code {
                "PERMISSION_DENIED" | "403" => {
                    Some("the caller needs the role `roles/iam.serviceAccountTokenCreator` on the impersonated account")
                }
                "NOT_FOUND" | "404" => Some("service account not found"),
                _ => None,
            }));
        }
        let generated: Generated = response.json().map_err(failed)?;
        let invalid = |fault| failed(response.invalid_response(fault));
        let expires: Timestamp = generated.expire_time.parse().map_err(|_| invalid("it has an invalid expireTime"))?;
        if generated.access_token.is_empty() {
            return Err(invalid("it has an empty token"));
        }
        AccessToken::new(generated.access_token, Some(expires)).ensure_valid(what, self.platform.clock.now())
    }

    /// Reads the token of the other identity provider from its file or URL. It must be a token of the configured type, because the
    /// configuration, which an environment variable can name, also determines its destination.
    pub(super) async fn subject_token(&self, external: &ExternalAccount) -> Result<IdentityToken, TokenError> {
        let (source, kind) = (&external.credential_source, &*external.subject_token_type);
        let what = "token of the external identity provider";
        let unsupported = |kind: &str| {
            TokenError::invalid_setting("credential_source of the external account", format!("{kind} is not supported"))
                .with_hint("use Google's plugin: `credlet cache -- gke-gcloud-auth-plugin`")
        };
        if !source.file.is_empty() {
            let text = oauth::read_text_file(Path::new(&source.file), what, oauth::FILE_LIMIT)?;
            let content =
                |reason| TokenError::InvalidFile { what: what.into(), path: source.file.clone().into(), reason };
            let token = subject(&text, source).ok_or_else(|| content("empty, or the configured field is missing"))?;
            return IdentityToken::parse_as(token.expose(), kind).map_err(content);
        }
        if source.executable.is_some() {
            return Err(unsupported("an executable"));
        }
        if source.certificate.is_some() {
            return Err(unsupported("a certificate"));
        }
        if !source.environment_id.is_empty() {
            return Err(unsupported("a signed AWS request"));
        }
        if source.url.is_empty() {
            return Err(TokenError::invalid_setting(
                "credential_source of the external account",
                "must have a file or a url",
            ));
        }
        let failed = |source: FetchError| TokenError::Request { what: what.to_owned(), source };
        let mut request = FetchRequest::get(&*source.url).policy(EndpointPolicy::metadata());
        for (name, value) in &source.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| {
                TokenError::invalid_setting("credential_source of the external account", "invalid header name")
            })?;
            request = request.secret_header(name, value).map_err(failed)?;
        }
        let response = self.fetcher.fetch(request).await.map_err(failed)?;
        if !response.status.is_success() {
            return Err(rejected(&response, what, |_| None));
        }
        let token = subject(response.text().map_err(failed)?, source);
        let token =
            token.ok_or_else(|| failed(response.invalid_response("it has no token in the configured field")))?;
        IdentityToken::parse_as(token.expose(), kind).map_err(|reason| TokenError::invalid_setting(what, reason))
    }

    async fn request_token(
        &self,
        request: FetchRequest,
        what: &str,
        hint: fn(&str) -> Option<&'static str>,
    ) -> Result<AccessToken, TokenError> {
        let requested_at = self.platform.clock.now();
        let response = self
            .fetcher
            .fetch(request)
            .await
            .map_err(|source| TokenError::Request { what: what.to_owned(), source })?;
        parse_token_response(&response, what, requested_at, hint)
    }
}

/// Adds client id and secret as an `Authorization: Basic` header (RFC 6749, section 2.3.1).
fn with_basic_auth(request: FetchRequest, id: &str, secret: &Secret, what: &str) -> Result<FetchRequest, TokenError> {
    let pair = Zeroizing::new(format!("{}:{}", *percent_encode(id), *percent_encode(secret.expose())));
    let basic = Secret::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))));
    request.secret_header(AUTHORIZATION, &basic).map_err(|source| TokenError::Request { what: what.to_owned(), source })
}

/// The token in a text: the whole text, or a field of a JSON object.
fn subject(text: &str, source: &SubjectTokenSource) -> Option<Secret> {
    let token = match source.format.kind.as_str() {
        "json" => {
            let mut document: Value = serde_json::from_str(text).ok()?;
            match document.get_mut(&source.format.subject_token_field_name)?.take() {
                Value::String(token) => Secret::new(token),
                _ => return None,
            }
        }
        _ => Secret::new(text.trim()),
    };
    (!token.is_empty()).then_some(token)
}
