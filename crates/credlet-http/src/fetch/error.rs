use std::time::Duration;

use http::{HeaderName, StatusCode};

/// A fetch that returned no usable response.
///
/// The variants are ordered by responsibility: configuration, network, server. No variant contains a path, a query, a
/// header, or anything else that was sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL is invalid.
    #[error("invalid address of `{host}`")]
    Address {
        /// Host of the URL, with control characters escaped.
        host: String,
        /// Defect of the address.
        #[source]
        source: crate::HttpError,
    },
    /// Path or query contain characters that are not allowed in a URL.
    #[error("invalid URL at {host}: characters that are not allowed in a path or query")]
    InvalidUrl {
        /// Server address as `host:port`.
        host: String,
    },
    /// A secret contains characters that are not allowed in a header.
    #[error("invalid value for the header `{name}`: characters that are not allowed in a header")]
    InvalidHeader {
        /// Name of the header.
        name: HeaderName,
    },
    /// The endpoint policy allows this host over https only.
    #[error("refused to send credentials to {host} over http")]
    InsecureScheme {
        /// Server address as `host:port`.
        host: String,
    },
    /// The endpoint policy does not allow this host: the secret may be sent to hosts of its issuer only.
    #[error("refused to send a secret to {host}, which is not a host of its issuer")]
    HostNotAllowed {
        /// Server address as `host:port`.
        host: String,
    },
    /// The connection failed.
    #[error(transparent)]
    Connection {
        /// Error with the name of the host.
        source: crate::HttpError,
    },
    /// The request timed out.
    #[error("request to {host} timed out after {} s", after.as_secs_f32())]
    TimedOut {
        /// Server address as `host:port`.
        host: String,
        /// Timeout that expired.
        after: Duration,
    },
    /// The server redirected to another server, or too often.
    #[error("refused to follow a redirect of {host}: credentials must stay on that server")]
    Redirected {
        /// Server address as `host:port`.
        host: String,
    },
    /// The response body exceeds the limit.
    #[error("response of {host} exceeds {} KiB", limit / 1024)]
    TooLarge {
        /// Server address as `host:port`.
        host: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// The response has an unexpected form.
    #[error("invalid response from {host} (status {}): {fault}", status.as_u16())]
    InvalidResponse {
        /// Server address as `host:port`.
        host: String,
        /// Status of the response.
        status: StatusCode,
        /// Description of the defect, without any part of the response.
        fault: &'static str,
    },
}

impl FetchError {
    /// Returns whether the response was HTML where JSON was expected: an error page or a login page.
    pub fn is_html_response(&self) -> bool {
        matches!(self, Self::InvalidResponse { fault, .. } if *fault == super::HTML_BODY)
    }

    /// Returns advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InsecureScheme { .. } => {
                Some("use https; http is allowed on this machine only (127.0.0.1, ::1, localhost)")
            }
            Self::HostNotAllowed { .. } => {
                Some("remove the endpoint from the environment (exec.env of the kubeconfig) and from the configuration")
            }
            Self::InvalidResponse { .. } | Self::Redirected { .. } => {
                Some("check whether a proxy or a login page of the network responded in place of the server")
            }
            Self::Connection { source: crate::HttpError::Certificate { .. } } => {
                Some("if a proxy intercepts TLS, add its certificate authority to the system's trust store")
            }
            Self::Connection { .. } | Self::TimedOut { .. } => {
                Some("check that the host can be reached from here, and the values of HTTPS_PROXY and NO_PROXY")
            }
            _ => None,
        }
    }
}
