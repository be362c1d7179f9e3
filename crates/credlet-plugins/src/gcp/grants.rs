//! What Google's token endpoints take in exchange for an access token.

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

use super::source::{CredentialSource, External, ServiceAccount, User};
use super::{AccessToken, CLOUD_PLATFORM, Google};
use crate::oauth::{self, Algorithm, Error, RsaKey, granted, refused};
use crate::web::{Ask, WebError, escaped};

/// How long an assertion is good: the longest that Google takes.
const ASSERTION: i64 = 3600;

/// A token of another identity provider, for Google's STS.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    /// The address of the STS.
    pub token_url: &'a str,
    /// The workload identity provider that knows the issuer.
    pub audience: &'a str,
    /// What kind of token it is, for example `urn:ietf:params:oauth:token-type:jwt`.
    pub subject_token_type: &'a str,
    /// The token.
    pub subject_token: &'a Secret,
}

impl Google {
    /// A key of a service account signs an assertion (RFC 7523).
    pub(super) async fn by_key(&self, account: &ServiceAccount, scopes: &[&str]) -> Result<AccessToken, Error> {
        let what = format!("the token of {}", account.client_email);
        let url = if account.token_uri.is_empty() { &self.token_url } else { &account.token_uri };
        let key = RsaKey::from_pem(account.private_key.expose().as_bytes(), "the private key of the service account")?;
        let now = self.world.clock.now();
        let mut header = Map::new();
        if !account.private_key_id.is_empty() {
            header.insert("kid".into(), account.private_key_id.as_str().into());
        }
        let claims = json!({
            "iss": account.client_email,
            "scope": scopes.join(" "),
            "aud": url,
            "iat": now.as_second(),
            "exp": now.as_second() + ASSERTION,
        });
        let assertion = key.jwt(Algorithm::Rs256, header, &claims)?;
        let fields = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion.expose())];
        self.ask(Ask::post_form(url, &fields), &what, |code| match code {
            "invalid_grant" => Some("the key may have been deleted, or this machine's clock is wrong"),
            _ => None,
        })
        .await
    }

    /// A refresh token of a person who has logged in.
    pub(super) async fn by_refresh_token(&self, user: &User) -> Result<AccessToken, Error> {
        let url = if user.token_uri.is_empty() { &self.token_url } else { &user.token_uri };
        let mut fields = vec![("grant_type", "refresh_token"), ("refresh_token", user.refresh_token.expose())];
        if !user.basic {
            fields.extend([("client_id", user.client_id.as_str()), ("client_secret", user.client_secret.expose())]);
        }
        let what = "a token for this login";
        let mut ask = Ask::post_form(url, &fields);
        if user.basic {
            ask = introduced(ask, &user.client_id, &user.client_secret, what)?;
        }
        self.ask(ask, what, |code| match code {
            "invalid_grant" | "invalid_rapt" | "rapt_required" => {
                Some("the login has ended: log in again with `gcloud auth login`, or `gcloud auth application-default login`")
            }
            _ => None,
        })
        .await
    }

    pub(super) async fn by_foreign_token(&self, external: &External, scopes: &[&str]) -> Result<AccessToken, Error> {
        let subject_token = self.subject_token(&external.credential_source).await?;
        let exchange = Exchange {
            token_url: &external.token_url,
            audience: &external.audience,
            subject_token_type: &external.subject_token_type,
            subject_token: &subject_token,
        };
        let impersonates = !external.service_account_impersonation_url.is_empty();
        let first: &[&str] = if impersonates { &[CLOUD_PLATFORM] } else { scopes };
        let project = Some(external.workforce_pool_user_project.as_str()).filter(|project| !project.is_empty());
        let client = Some((external.client_id.as_str(), &external.client_secret)).filter(|(id, _)| !id.is_empty());
        let token = self.exchanged(&exchange, first, project, client).await?;
        if !impersonates {
            return Ok(token);
        }
        let life = external.service_account_impersonation.token_lifetime_seconds;
        self.impersonate(&external.service_account_impersonation_url, &[], life, &token, scopes).await
    }

    /// Exchanges a token of another identity provider for one of Google's (RFC 8693).
    ///
    /// # Errors
    /// When Google does not trust it.
    pub async fn exchange(&self, exchange: &Exchange<'_>, scopes: &[&str]) -> Result<AccessToken, Error> {
        self.exchanged(exchange, scopes, None, None).await
    }

    async fn exchanged(
        &self,
        exchange: &Exchange<'_>,
        scopes: &[&str],
        project: Option<&str>,
        client: Option<(&str, &Secret)>,
    ) -> Result<AccessToken, Error> {
        let what = "a token of Google's for that of the other identity provider";
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
        let mut ask = Ask::post_form(exchange.token_url, &fields);
        if let Some((id, secret)) = client {
            ask = introduced(ask, id, secret, what)?;
        }
        self.ask(ask, what, |code| match code {
            "invalid_grant" => {
                Some("the workload identity provider does not accept the token: see its issuer, audience and age")
            }
            "invalid_target" | "invalid_request" => {
                Some("see the audience: it names the workload identity pool and its provider")
            }
            _ => None,
        })
        .await
    }

    /// A token of a service account, for one who may act as it. `life` in seconds; usually an hour.
    ///
    /// # Errors
    /// When it may not.
    pub async fn impersonate(
        &self,
        url: &str,
        delegates: &[String],
        life: Option<u32>,
        by: &AccessToken,
        scopes: &[&str],
    ) -> Result<AccessToken, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Generated {
            access_token: Secret,
            expire_time: String,
        }
        let what = "a token of the service account to impersonate";
        let failed = |source: WebError| Error::Web { what: what.to_owned(), source };
        let mut question = json!({ "scope": scopes, "lifetime": format!("{}s", life.unwrap_or(3600)) });
        if !delegates.is_empty() {
            question["delegates"] = delegates.into();
        }
        let bearer = Secret::new(format!("Bearer {}", by.token.expose()));
        let ask = Ask::post_json(url, &question).secret_header(AUTHORIZATION, &bearer).map_err(failed)?;
        let answer = self.web.fetch(ask).await.map_err(failed)?;
        if !answer.status.is_success() {
            return Err(refused(&answer, what, |code| match code {
                "PERMISSION_DENIED" | "403" => {
                    Some("whoever impersonates needs the role `roles/iam.serviceAccountTokenCreator` on that account")
                }
                "NOT_FOUND" | "404" => Some("there is no such service account"),
                _ => None,
            }));
        }
        let generated: Generated = answer.json().map_err(failed)?;
        let wrong = |fault| failed(answer.nonsense(fault));
        let expires: Timestamp =
            generated.expire_time.parse().map_err(|_| wrong("that has an expireTime which is not a time"))?;
        if generated.access_token.is_empty() {
            return Err(wrong("that has an empty token in it"));
        }
        AccessToken::new(generated.access_token, Some(expires)).current(what, self.world.clock.now())
    }

    /// The token of the other identity provider, from its file or its address.
    async fn subject_token(&self, source: &CredentialSource) -> Result<Secret, Error> {
        let what = "the token of the other identity provider";
        let unsupported = |kind: &str| {
            Error::config(
                "the credential_source of the external account",
                format!("is {kind}, which is not known here"),
            )
            .advise("let `credlet cache -- gke-gcloud-auth-plugin` ask Google's own program")
        };
        if !source.file.is_empty() {
            let text = oauth::file(Path::new(&source.file), what)?;
            let token = subject(&text, source);
            let content = |reason| Error::Content { what: what.into(), path: source.file.clone().into(), reason };
            return token.ok_or_else(|| content("is empty, or not where the format says"));
        }
        if source.executable.is_some() {
            return Err(unsupported("a program"));
        }
        if source.certificate.is_some() {
            return Err(unsupported("a certificate"));
        }
        if !source.environment_id.is_empty() {
            return Err(unsupported("a signed request of another cloud's"));
        }
        if source.url.is_empty() {
            return Err(Error::config("the credential_source of the external account", "names no file and no url"));
        }
        let failed = |source: WebError| Error::Web { what: what.to_owned(), source };
        let mut ask = Ask::get(&*source.url);
        for (name, value) in &source.headers {
            let name = HeaderName::try_from(name.as_str()).map_err(|_| {
                Error::config("the credential_source of the external account", "has a header with a bad name")
            })?;
            ask = ask.secret_header(name, value).map_err(failed)?;
        }
        let answer = self.web.fetch(ask).await.map_err(failed)?;
        if !answer.status.is_success() {
            return Err(refused(&answer, what, |_| None));
        }
        let token = subject(answer.text().map_err(failed)?, source);
        token.ok_or_else(|| failed(answer.nonsense("that has no token where the format says")))
    }

    async fn ask(&self, ask: Ask, what: &str, hint: fn(&str) -> Option<&'static str>) -> Result<AccessToken, Error> {
        let asked_at = self.world.clock.now();
        let answer = self.web.fetch(ask).await.map_err(|source| Error::Web { what: what.to_owned(), source })?;
        granted(&answer, what, asked_at, hint)
    }
}

/// With the client's name and secret above the form.
fn introduced(ask: Ask, id: &str, secret: &Secret, what: &str) -> Result<Ask, Error> {
    let pair = Zeroizing::new(format!("{}:{}", *escaped(id), *escaped(secret.expose())));
    let basic = Secret::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))));
    ask.secret_header(AUTHORIZATION, &basic).map_err(|source| Error::Web { what: what.to_owned(), source })
}

/// The token in a text: all of it, or a member of it.
fn subject(text: &str, source: &CredentialSource) -> Option<Secret> {
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
