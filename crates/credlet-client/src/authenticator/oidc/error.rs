use credlet_api::DocumentError;
use credlet_http::ServerAddr;
use credlet_http::fetch::FetchError;
use credlet_oidc::{IssuerRequestError, OidcEndpoint};
use credlet_platform::fs::ReadError;
use http::StatusCode;

/// Failed refresh of an ID token. Variants are ordered by cause: kubeconfig, login of the user, network, issuer, shutdown.
///
/// No variant holds a token, a client secret or other data of an issuer's response.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// A setting that a refresh needs is missing.
    #[error(
        "failed to refresh the id-token: `{0}` is missing in the user's auth-provider; log in again, \
         or use `exec` with kubelogin or with `credlet plugin oidc`"
    )]
    Missing(&'static str),
    /// The issuer URL is invalid; it must be `https`.
    #[error(
        "failed to refresh the id-token: `idp-issuer-url` in the user's auth-provider {0}; correct it, \
         or use `exec` with kubelogin or with `credlet plugin oidc`"
    )]
    AuthenticatorSource(&'static str),
    /// The file with the issuer's certificate authority cannot be read.
    #[error("invalid `idp-certificate-authority` in the user's auth-provider: the file {0}")]
    AuthorityFile(ReadError),
    /// The certificate authority of the issuer is invalid.
    #[error("invalid `{field}` in the user's auth-provider: it {reason}")]
    Authority {
        /// The setting.
        field: &'static str,
        /// The problem.
        reason: &'static str,
    },
    /// The issuer rejected client ID or client secret.
    #[error(
        "the issuer {host} rejected the client: correct `client-id` and `client-secret` in the user's auth-provider"
    )]
    Client {
        /// Host of the issuer.
        host: String,
    },
    /// The refresh token was used, revoked or has expired.
    #[error(
        "the issuer {host} rejected the `refresh-token` in the user's auth-provider: log in again, \
         or use `exec` with kubelogin or with `credlet plugin oidc`"
    )]
    RefreshToken {
        /// Host of the issuer.
        host: String,
    },
    /// The connection failed.
    #[error("failed to fetch the issuer's {endpoint}")]
    Connection {
        /// The endpoint.
        endpoint: OidcEndpoint,
        /// The cause.
        #[source]
        source: credlet_http::HttpError,
    },
    /// The issuer did not respond in time.
    #[error("refreshing the id-token timed out after {} seconds", super::REFRESH_TIMEOUT.as_secs())]
    TimedOut,
    /// The response has an unexpected status.
    #[error("unexpected response of the issuer's {endpoint} at {host}: {status}{}", .code.map(|code| format!(" ({code})")).unwrap_or_default())]
    Status {
        /// The endpoint.
        endpoint: OidcEndpoint,
        /// Host of the endpoint.
        host: String,
        /// The status.
        status: StatusCode,
        /// The error code of the response, if RFC 6749 defines it.
        code: Option<&'static str>,
    },
    /// The response is a redirect to another server, which must not get credentials.
    #[error("unexpected redirect of the issuer's {endpoint} at {host} to another server")]
    Redirected {
        /// The endpoint.
        endpoint: OidcEndpoint,
        /// Host of the endpoint.
        host: String,
    },
    /// The response is larger than 1 MiB.
    #[error("response of the issuer's {endpoint} at {host} is too large: more than 1 MiB")]
    TooLarge {
        /// The endpoint.
        endpoint: OidcEndpoint,
        /// Host of the endpoint.
        host: String,
    },
    /// The response cannot be decoded.
    #[error("invalid response of the issuer's {endpoint} at {host}: {fault}")]
    InvalidResponse {
        /// The endpoint.
        endpoint: OidcEndpoint,
        /// Host of the endpoint.
        host: String,
        /// The problem.
        fault: DocumentError,
    },
    /// The discovery document has no valid token endpoint.
    #[error("invalid `token_endpoint` of the issuer {host}: it {reason}")]
    TokenEndpoint {
        /// Host of the issuer.
        host: String,
        /// The problem.
        reason: &'static str,
    },
    /// The response has no ID token.
    #[error(
        "missing id_token in the response of the issuer {host}: log in again with the scope `openid`, \
         or ask the issuer's operator for id_tokens on refresh"
    )]
    NoIdToken {
        /// Host of the issuer.
        host: String,
    },
    /// The async runtime was shut down during the refresh.
    #[error("failed to refresh the id-token: the async runtime was shut down")]
    Abandoned,
}

impl OidcError {
    /// Converts the error of a request; `issuer` is the host of the issuer.
    pub(super) fn from_request(error: IssuerRequestError, issuer: &ServerAddr) -> Self {
        let (endpoint, source) = match error {
            // 304, which the fetcher returns as a response.
            IssuerRequestError::ErrorStatus { what: endpoint, host, status, .. } if status.is_redirection() => {
                return Self::Redirected { endpoint, host };
            }
            IssuerRequestError::ErrorStatus { what: endpoint, host, status, code } => {
                return Self::Status { endpoint, host, status, code };
            }
            IssuerRequestError::InvalidResponse { what: endpoint, host, fault } => {
                return Self::InvalidResponse { endpoint, host, fault };
            }
            IssuerRequestError::NoResponse { what, source } => (what, source),
        };
        match source {
            FetchError::Connection { source } => Self::Connection { endpoint, source },
            FetchError::TimedOut { .. } => Self::TimedOut,
            FetchError::Redirected { host } => Self::Redirected { endpoint, host },
            FetchError::TooLarge { host, .. } => Self::TooLarge { endpoint, host },
            _ if endpoint == OidcEndpoint::Token => {
                Self::TokenEndpoint { host: issuer.to_string(), reason: "is not a URL" }
            }
            _ => Self::AuthenticatorSource("is not a URL"),
        }
    }
}
