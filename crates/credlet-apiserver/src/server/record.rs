//! Recorded requests.

use std::fmt;

use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A request as the server received it, credentials included. `Debug` omits the values of headers that carry credentials.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedRequest {
    /// Number of the request over all connections, from 1.
    pub number: usize,
    /// Number of its connection, from 1.
    pub connection: usize,
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// ALPN protocol: `h2`, `http/1.1`, or `None` if the client offered none.
    pub alpn: Option<String>,
    /// Whether the connection resumed a TLS session.
    pub resumed: bool,
    /// The client certificate; in a resumed session, that of the original handshake.
    pub peer: Option<PeerCertificate>,
}

impl RecordedRequest {
    /// Returns the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        Some(&header.1)
    }

    /// Returns the token of `Authorization: Bearer`.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// Returns the common name of the client certificate.
    pub fn common_name(&self) -> Option<&str> {
        Some(&self.peer.as_ref()?.common_name)
    }

    /// Returns the path without the query.
    pub fn path_only(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, connection, method, path, headers, alpn, resumed, peer } = self;
        let is_secret = |name: &str| matches!(name, "authorization" | "cookie" | "proxy-authorization");
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), if is_secret(name) { "[redacted]" } else { value.as_str() }))
            .collect();
        f.debug_struct("RecordedRequest")
            .field("number", number)
            .field("connection", connection)
            .field("method", method)
            .field("path", path)
            .field("headers", &headers)
            .field("alpn", alpn)
            .field("resumed", resumed)
            .field("peer", peer)
            .finish()
    }
}

/// Subject and serial number of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PeerCertificate {
    /// Common name: the user name. Empty if the certificate has none.
    pub common_name: String,
    /// Organizations: the groups.
    pub organizations: Vec<String>,
    /// Serial number, in the format of [`Identity::serial`](crate::ca::Identity::serial).
    pub serial: String,
}

impl PeerCertificate {
    /// Parses a certificate. Returns `None` if it is invalid, which is possible if the handshake did not verify it.
    pub(super) fn from_der(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        Some(Self {
            common_name: subject.iter_common_name().find_map(|name| name.as_str().ok()).unwrap_or_default().to_owned(),
            organizations: subject
                .iter_organization()
                .filter_map(|name| name.as_str().ok())
                .map(str::to_owned)
                .collect(),
            serial: credlet_api::hex(certificate.raw_serial()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_omits_credentials() {
        let request = RecordedRequest {
            number: 1,
            connection: 1,
            method: "GET".into(),
            path: "/readyz?verbose".into(),
            headers: vec![("authorization".into(), "Bearer s3cret".into()), ("accept".into(), "*/*".into())],
            alpn: None,
            resumed: false,
            peer: None,
        };
        let text = format!("{request:?}");
        assert!(!text.contains("s3cret") && text.contains("*/*"), "{text}");
        assert_eq!((request.bearer(), request.path_only()), (Some("s3cret"), "/readyz"));
    }
}
