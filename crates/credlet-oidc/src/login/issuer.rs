//! HTTP client for an issuer: discovery, keys, tokens and revocation.

use credlet_api::Secret;
use credlet_api::oidc::{self, IdTokenClaims, JwkSet, ProviderMetadata, TokenResponse};
use credlet_exec::Platform;
use http::StatusCode;
use jiff::Timestamp;

use super::id_token::{ExpectedClaims, verify};
use super::settings::OidcSettings;
use super::{IssuerRequestError, OidcEndpoint, OidcError};
use crate::{ClientCredentials, IssuerHttp, decode_response};
use credlet_http::fetch::{FetchLimits, FetchResponse, HttpFetcher, percent_encode};

/// An issuer with its discovery document.
pub(super) struct IssuerClient<'a> {
    pub(super) settings: &'a OidcSettings,
    pub(super) metadata: ProviderMetadata,
    http: IssuerHttp,
}

impl<'a> IssuerClient<'a> {
    pub(super) async fn discover(settings: &'a OidcSettings, platform: &Platform) -> Result<Self, OidcError> {
        let fetcher = HttpFetcher::new(platform.clock.clone(), platform.env.clone()).with_roots(settings.roots.clone());
        let (limits, headers) = (FetchLimits::default(), settings.headers.clone());
        let http = IssuerHttp { fetcher, limits, headers, encode: percent_encode };
        let metadata = http.metadata(&settings.issuer).await?;
        // OpenID Connect Discovery, section 4.3: otherwise a server could pass off tokens of another issuer.
        if metadata.issuer != settings.issuer {
            let found = credlet_api::escape_line(&metadata.issuer);
            return Err(OidcError::IssuerMismatch { expected: settings.issuer.clone(), found });
        }
        Ok(Self { settings, metadata, http })
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
        Ok(decode_response(what, &response, TokenResponse::decode)?)
    }

    /// Sends a form with the client's credentials: in the body for `client_secret_post` and public clients, else in the
    /// `Authorization` header (`client_secret_basic`).
    pub(super) async fn post(&self, what: OidcEndpoint, fields: &[(&str, &str)]) -> Result<FetchResponse, OidcError> {
        let url = self.endpoint(what)?;
        let (id, secret) = (self.settings.client_id.as_str(), &self.settings.client_secret);
        let methods = &self.metadata.token_endpoint_auth_methods_supported;
        let offered = |method: &str| methods.iter().any(|offered| offered == method);
        let in_form = secret.is_empty() || (offered("client_secret_post") && !offered("client_secret_basic"));
        Ok(self.http.post(what, url, fields, ClientCredentials { id, secret, in_form }).await?)
    }

    /// Converts an error response of the issuer.
    pub(super) fn error_response(&self, what: OidcEndpoint, grant: &'static str, response: FetchResponse) -> OidcError {
        let host = response.host.clone();
        match oidc::token_error_code(response.body()) {
            Some("invalid_grant") => OidcError::GrantRejected { host, what: grant },
            Some("invalid_client" | "unauthorized_client") => OidcError::ClientRejected { host },
            Some("access_denied") => OidcError::Denied { code: Some("access_denied") },
            Some("expired_token") => OidcError::CodeExpired,
            None if response.status == StatusCode::UNAUTHORIZED => OidcError::ClientRejected { host },
            code => IssuerRequestError::of_status(what, response, code).into(),
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
        let keys = self.http.get(what, self.endpoint(what)?, JwkSet::decode).await?;
        let expected =
            ExpectedClaims { issuer: &self.settings.issuer, client_id: &self.settings.client_id, nonce, subject };
        Ok(verify(id_token, &keys, &expected, now())?)
    }

    /// Returns host and port of the issuer for messages.
    pub(super) fn host(&self) -> String {
        credlet_http::ServerAddr::parse(&self.settings.issuer).map(|server| server.to_string()).unwrap_or_default()
    }
}
