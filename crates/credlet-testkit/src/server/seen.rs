//! Recorded requests.

use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer, X509Certificate};

/// A recorded request, secrets included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SeenRequest {
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
    /// ALPN protocol: `h2`, `http/1.1`, or `None` without agreement.
    pub alpn: Option<String>,
    /// Whether the connection resumed a TLS session.
    pub resumed: bool,
    /// The client certificate; in a resumed session, that of the original handshake.
    pub peer: Option<TlsPeer>,
}

impl SeenRequest {
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
}

/// Subject of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TlsPeer {
    /// Common name: the user name.
    pub common_name: String,
    /// Organizations: the groups.
    pub organisations: Vec<String>,
    /// Serial number, in the format of [`TestIdentity::serial`](crate::ca::TestIdentity::serial).
    pub serial: String,
}

impl TlsPeer {
    pub(super) fn of(certificate: &[u8]) -> Self {
        let (_, certificate) = X509Certificate::from_der(certificate).expect("rustls has verified it");
        let subject = certificate.subject();
        let text = |part: &x509_parser::x509::AttributeTypeAndValue<'_>| part.as_str().unwrap_or_default().to_owned();
        Self {
            common_name: subject.iter_common_name().next().map(text).unwrap_or_default(),
            organisations: subject.iter_organization().map(text).collect(),
            serial: credlet_api::hex(certificate.raw_serial()),
        }
    }
}
