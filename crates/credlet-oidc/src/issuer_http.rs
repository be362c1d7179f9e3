//! Requests that every client of an issuer sends: the discovery document and forms with client credentials.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::oidc::{DISCOVERY_PATH, ProviderMetadata};
use credlet_api::{DocumentError, Secret};
use credlet_http::fetch::{FetchError, FetchLimits, FetchRequest, FetchResponse, HttpFetcher, encode_form_with};
use http::header::AUTHORIZATION;
use http::{HeaderName, StatusCode};
use zeroize::Zeroizing;

/// Sends requests to an issuer.
#[derive(Clone, Debug)]
pub struct IssuerHttp {
    /// Connects to the issuer.
    pub fetcher: HttpFetcher,
    /// Limits of each request.
    pub limits: FetchLimits,
    /// Headers of each request.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Encodes the values of forms and of the `Basic` header: [`percent_encode`](credlet_http::fetch::percent_encode) or
    /// [`query_escape`](credlet_http::fetch::query_escape).
    pub encode: fn(&str) -> Zeroizing<String>,
}

/// Client id and secret.
#[derive(Clone, Copy, Debug)]
pub struct ClientCredentials<'a> {
    /// Client id.
    pub id: &'a str,
    /// Client secret. Empty for a public client.
    pub secret: &'a Secret,
    /// Whether both are sent in the form (`client_secret_post`) instead of a `Basic` header (`client_secret_basic`).
    pub in_form: bool,
}

impl IssuerHttp {
    /// Fetches the discovery document. The caller checks its `issuer`.
    ///
    /// # Errors
    /// If the request fails, or if the response is not such a document.
    pub async fn metadata(&self, issuer: &str) -> Result<ProviderMetadata, IssuerRequestError> {
        let what = OidcEndpoint::Discovery;
        let url = format!("{}{DISCOVERY_PATH}", issuer.strip_suffix('/').unwrap_or(issuer));
        self.get(what, &url, ProviderMetadata::decode).await
    }

    /// Fetches and decodes a document.
    ///
    /// # Errors
    /// If the request fails, or if the response is not such a document.
    pub async fn get<T>(
        &self,
        what: OidcEndpoint,
        url: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, DocumentError>,
    ) -> Result<T, IssuerRequestError> {
        let response = self.send(what, FetchRequest::get(url)).await?;
        if response.status != StatusCode::OK {
            return Err(IssuerRequestError::of_status(what, response, None));
        }
        decode_response(what, &response, decode)
    }

    /// Sends a form with the client's credentials. Every status is a response.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn post(
        &self,
        what: OidcEndpoint,
        url: &str,
        fields: &[(&str, &str)],
        client: ClientCredentials<'_>,
    ) -> Result<FetchResponse, IssuerRequestError> {
        let mut fields = fields.to_vec();
        if client.in_form {
            fields.push(("client_id", client.id));
            if !client.secret.is_empty() {
                fields.push(("client_secret", client.secret.expose()));
            }
        }
        let mut request = FetchRequest::post_encoded_form(url, &encode_form_with(&fields, self.encode));
        if !client.in_form {
            request = request
                .secret_header(AUTHORIZATION, &self.basic(client))
                .map_err(|source| IssuerRequestError::NoResponse { what, source })?;
        }
        self.send(what, request).await
    }

    async fn send(&self, what: OidcEndpoint, request: FetchRequest) -> Result<FetchResponse, IssuerRequestError> {
        let sent = async {
            let mut request = request.limits(self.limits);
            for (name, value) in &self.headers {
                request = request.secret_header(name.clone(), value)?;
            }
            self.fetcher.fetch(request).await
        };
        sent.await.map_err(|source| IssuerRequestError::NoResponse { what, source })
    }

    /// The `Basic` credentials. RFC 6749 section 2.3.1: both parts are form-encoded first.
    fn basic(&self, client: ClientCredentials<'_>) -> Secret {
        let pair = Zeroizing::new(format!("{}:{}", *(self.encode)(client.id), *(self.encode)(client.secret.expose())));
        Secret::new(format!("Basic {}", *Zeroizing::new(STANDARD.encode(pair.as_bytes()))))
    }
}

/// Decodes a response.
///
/// # Errors
/// [`IssuerRequestError::InvalidResponse`].
pub fn decode_response<T>(
    what: OidcEndpoint,
    response: &FetchResponse,
    decode: impl FnOnce(&[u8]) -> Result<T, DocumentError>,
) -> Result<T, IssuerRequestError> {
    let invalid = |fault| IssuerRequestError::InvalidResponse { what, host: response.host.clone(), fault };
    decode(response.body()).map_err(invalid)
}

/// A request to an issuer failed. No variant contains content of the request or of the response.
#[derive(Debug, thiserror::Error)]
pub enum IssuerRequestError {
    /// A request to the issuer failed without a response.
    #[error("failed to request the issuer's {what}")]
    NoResponse {
        /// The requested endpoint.
        what: OidcEndpoint,
        /// Why the request failed.
        #[source]
        source: FetchError,
    },
    /// The issuer responded with an error status.
    #[error("unexpected status {status} of the issuer's {what} at {host}{}", .code.map(|code| format!(" ({code})")).unwrap_or_default())]
    ErrorStatus {
        /// The requested endpoint.
        what: OidcEndpoint,
        /// Host of the endpoint.
        host: String,
        /// HTTP status of the response.
        status: StatusCode,
        /// The issuer's error code, if a specification defines it.
        code: Option<&'static str>,
    },
    /// The issuer's response is malformed.
    #[error("invalid response of the issuer's {what} at {host}: {fault}")]
    InvalidResponse {
        /// The requested endpoint.
        what: OidcEndpoint,
        /// Host of the endpoint.
        host: String,
        /// The error of the document.
        fault: DocumentError,
    },
}

impl IssuerRequestError {
    /// Returns the error for a response with an unexpected status.
    pub(crate) fn of_status(what: OidcEndpoint, response: FetchResponse, code: Option<&'static str>) -> Self {
        Self::ErrorStatus { what, host: response.host, status: response.status, code }
    }
}

/// An endpoint of an issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OidcEndpoint {
    /// `/.well-known/openid-configuration`.
    Discovery,
    /// `jwks_uri`: the public keys.
    Keys,
    /// `authorization_endpoint`: the login page.
    Authorization,
    /// `token_endpoint`: exchanges a code or a refresh token for tokens.
    Token,
    /// `device_authorization_endpoint` (RFC 8628).
    Device,
    /// `revocation_endpoint` (RFC 7009).
    Revocation,
}

impl std::fmt::Display for OidcEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Discovery => "discovery document",
            Self::Keys => "list of public keys",
            Self::Authorization => "authorization endpoint",
            Self::Token => "token endpoint",
            Self::Device => "device authorization endpoint",
            Self::Revocation => "revocation endpoint",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use credlet_exec::{FixedEnv, SystemClock};
    use credlet_http::fetch::percent_encode;

    use super::*;

    #[test]
    fn basic_credentials_are_form_encoded() {
        let fetcher = HttpFetcher::new(Arc::new(SystemClock::new()), Arc::new(FixedEnv::default()));
        let http = IssuerHttp { fetcher, limits: FetchLimits::default(), headers: Vec::new(), encode: percent_encode };
        let header = http.basic(ClientCredentials { id: "my client", secret: &"a:b%".into(), in_form: false });
        assert_eq!(header.expose(), format!("Basic {}", STANDARD.encode("my%20client:a%3Ab%25")));
    }
}
