//! HTTP client for an issuer: discovery, keys, tokens and revocation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::oidc::{self, DISCOVERY_PATH, IdTokenClaims, JwkSet, ProviderMetadata, TokenResponse};
use credlet_exec::Platform;
use http::StatusCode;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::id_token::{ExpectedClaims, verify};
use super::settings::OidcSettings;
use super::{OidcEndpoint, OidcError};
use credlet_http::fetch::{FetchRequest, FetchResponse, HttpFetcher, percent_encode};

/// An issuer with its discovery document.
pub(super) struct IssuerClient<'a> {
    pub(super) settings: &'a OidcSettings,
    pub(super) metadata: ProviderMetadata,
    web: HttpFetcher,
}

impl<'a> IssuerClient<'a> {
    pub(super) async fn discover(settings: &'a OidcSettings, platform: &Platform) -> Result<Self, OidcError> {
        let web = HttpFetcher::new(platform.clock.clone(), platform.env.clone()).with_roots(settings.roots.clone());
        let what = OidcEndpoint::Discovery;
        let url = format!("{}{DISCOVERY_PATH}", settings.issuer.strip_suffix('/').unwrap_or(&settings.issuer));
        let response = ok(what, fetch(settings, &web, what, FetchRequest::get(url)).await?)?;
        let metadata = ProviderMetadata::decode(response.body()).map_err(|fault| OidcError::InvalidResponse {
            what,
            host: response.host.clone(),
            fault,
        })?;
        // OpenID Connect Discovery, section 4.3: otherwise a server could pass off tokens of another issuer.
        if metadata.issuer != settings.issuer {
            let found = credlet_api::escape_line(&metadata.issuer);
            return Err(OidcError::IssuerMismatch { expected: settings.issuer.clone(), found });
        }
        Ok(Self { settings, metadata, web })
    }

    /// The URL of an endpoint. Fails if the discovery document does not contain it.
    pub(super) fn endpoint(&self, what: OidcEndpoint) -> Result<&str, OidcError> {
        let metadata = &self.metadata;
        let url = match what {
            OidcEndpoint::Discovery => &self.settings.issuer,
            OidcEndpoint::Keys => &metadata.jwks_uri,
            OidcEndpoint::Authorization => &metadata.authorization_endpoint,
            OidcEndpoint::Token => &metadata.token_endpoint,
            OidcEndpoint::Device => &metadata.device_authorization_endpoint,
            OidcEndpoint::Revocation => &metadata.revocation_endpoint,
        };
        if url.is_empty() {
            return Err(OidcError::NotSupported { issuer: self.settings.issuer.clone(), what });
        }
        Ok(url)
    }

    /// Requests tokens. `grant` names the grant in errors.
    pub(super) async fn tokens(
        &self,
        grant: &'static str,
        fields: &[(&str, &str)],
    ) -> Result<TokenResponse, OidcError> {
        let what = OidcEndpoint::Token;
        let response = self.post(what, fields).await?;
        if !response.status.is_success() {
            return Err(self.error_response(what, grant, response));
        }
        TokenResponse::decode(response.body()).map_err(|fault| OidcError::InvalidResponse {
            what,
            host: response.host,
            fault,
        })
    }

    /// Sends a form with the client's credentials: in the body for `client_secret_post` and public clients, else in the
    /// `Authorization` header (`client_secret_basic`).
    pub(super) async fn post(&self, what: OidcEndpoint, fields: &[(&str, &str)]) -> Result<FetchResponse, OidcError> {
        let url = self.endpoint(what)?;
        let (id, secret) = (self.settings.client_id.as_str(), &self.settings.client_secret);
        let mut fields = fields.to_vec();
        let methods = &self.metadata.token_endpoint_auth_methods_supported;
        let offered = |method: &str| methods.iter().any(|offered| offered == method);
        let in_form = secret.is_empty() || (offered("client_secret_post") && !offered("client_secret_basic"));
        if in_form {
            fields.push(("client_id", id));
            if !secret.is_empty() {
                fields.push(("client_secret", secret.expose()));
            }
            return fetch(self.settings, &self.web, what, FetchRequest::post_form(url, &fields)).await;
        }
        let request = FetchRequest::post_form(url, &fields).secret_header(AUTHORIZATION, &basic(id, secret));
        fetch(self.settings, &self.web, what, request.map_err(|source| OidcError::RequestFailed { what, source })?)
            .await
    }

    /// Converts an error response of the issuer.
    pub(super) fn error_response(&self, what: OidcEndpoint, grant: &'static str, response: FetchResponse) -> OidcError {
        let (status, host) = (response.status, response.host.clone());
        match oidc::token_error_code(response.body()) {
            Some("invalid_grant") => OidcError::GrantRejected { host, what: grant },
            Some("invalid_client" | "unauthorized_client") => OidcError::ClientRejected { host },
            Some("access_denied") => OidcError::Denied { code: Some("access_denied") },
            Some("expired_token") => OidcError::CodeExpired,
            None if status == StatusCode::UNAUTHORIZED => OidcError::ClientRejected { host },
            code => OidcError::ErrorStatus { what, host, status, code },
        }
    }

    /// Verifies an ID token. The keys are fetched for each verification, because issuers rotate them.
    pub(super) async fn verify(
        &self,
        id_token: &Secret,
        nonce: Option<&Secret>,
        subject: Option<&str>,
        now: impl Fn() -> Timestamp,
    ) -> Result<IdTokenClaims, OidcError> {
        let what = OidcEndpoint::Keys;
        let response = ok(what, fetch(self.settings, &self.web, what, FetchRequest::get(self.endpoint(what)?)).await?)?;
        let keys = JwkSet::decode(response.body()).map_err(|fault| OidcError::InvalidResponse {
            what,
            host: response.host.clone(),
            fault,
        })?;
        let expected =
            ExpectedClaims { issuer: &self.settings.issuer, client_id: &self.settings.client_id, nonce, subject };
        Ok(verify(id_token, &keys, &expected, now())?)
    }

    /// Returns host and port of the issuer for messages.
    pub(super) fn host(&self) -> String {
        credlet_http::ServerAddr::parse(&self.settings.issuer).map(|server| server.to_string()).unwrap_or_default()
    }
}

async fn fetch(
    settings: &OidcSettings,
    web: &HttpFetcher,
    what: OidcEndpoint,
    mut request: FetchRequest,
) -> Result<FetchResponse, OidcError> {
    for (name, value) in &settings.headers {
        request =
            request.secret_header(name.clone(), value).map_err(|source| OidcError::RequestFailed { what, source })?;
    }
    web.fetch(request).await.map_err(|source| OidcError::RequestFailed { what, source })
}

fn ok(what: OidcEndpoint, response: FetchResponse) -> Result<FetchResponse, OidcError> {
    if response.status == StatusCode::OK {
        return Ok(response);
    }
    Err(OidcError::ErrorStatus { what, host: response.host, status: response.status, code: None })
}

/// The `Basic` credentials. RFC 6749 section 2.3.1: both parts are form-encoded first.
fn basic(id: &str, secret: &Secret) -> Secret {
    let pair = Zeroizing::new(format!("{}:{}", *percent_encode(id), *percent_encode(secret.expose())));
    Secret::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_credentials_are_form_encoded() {
        let header = basic("my client", &Secret::new("a:b%"));
        assert_eq!(header.expose(), format!("Basic {}", STANDARD.encode("my%20client:a%3Ab%25")));
    }
}
