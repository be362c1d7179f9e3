//! A request as the server saw it.

use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::ca::hex;

/// What the server noted of a request, secrets included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Seen {
    /// Counted over all connections; the first is 1.
    pub number: usize,
    /// On which connection it came; the first is 1.
    pub connection: usize,
    /// `GET` and so on.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// In the order in which they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// `h2`, `http/1.1`, or `None` if client and server did not agree on one.
    pub alpn: Option<String>,
    /// Whether the connection resumed a TLS session.
    pub resumed: bool,
    /// The client's certificate: in a resumed session the one with which the session began.
    pub peer: Option<Peer>,
}

impl Seen {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        Some(&header.1)
    }

    /// The token in `Authorization: Bearer`.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// The common name of the client's certificate.
    pub fn common_name(&self) -> Option<&str> {
        Some(&self.peer.as_ref()?.common_name)
    }
}

/// The holder of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Peer {
    /// The user.
    pub common_name: String,
    /// The user's groups.
    pub organisations: Vec<String>,
    /// As [`Identity::serial`](crate::ca::Identity::serial) has it.
    pub serial: String,
}

impl Peer {
    pub(super) fn of(certificate: &[u8]) -> Self {
        let (_, certificate) = X509Certificate::from_der(certificate).expect("rustls has verified it");
        let subject = certificate.subject();
        let text = |part: &x509_parser::x509::AttributeTypeAndValue<'_>| part.as_str().unwrap_or_default().to_owned();
        Self {
            common_name: subject.iter_common_name().next().map(text).unwrap_or_default(),
            organisations: subject.iter_organization().map(text).collect(),
            serial: hex(certificate.raw_serial()),
        }
    }
}
