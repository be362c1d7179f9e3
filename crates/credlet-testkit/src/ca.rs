//! A certificate authority for servers and clients: that of [`credlet_apiserver::ca`], with panics instead of errors.

use credlet_apiserver::ca::{CertificateAuthority, CertificateRequest};
pub use credlet_apiserver::ca::{Identity as TestIdentity, KeyType};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;

/// A certificate authority. Two instances are unrelated, even with the same name.
pub struct TestCa(CertificateAuthority);

impl TestCa {
    /// Creates a CA with a unique name.
    pub fn new() -> Self {
        Self::named(&format!("credlet test CA {:016x}", fastrand::u64(..)))
    }

    /// Creates a CA with this common name.
    pub fn named(common_name: &str) -> Self {
        Self(CertificateAuthority::new(common_name).expect("a CA certificate"))
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        self.0.pem()
    }

    /// Its certificate.
    pub fn der(&self) -> CertificateDer<'static> {
        self.0.der()
    }

    /// Returns a request for a certificate of a server at 127.0.0.1 and localhost.
    pub fn server(&self) -> Request<'_> {
        Request(self.0.server())
    }

    /// Returns a request for a client certificate. The common name is the user.
    pub fn client(&self, common_name: &str) -> Request<'_> {
        Request(self.0.client(common_name))
    }

    pub(crate) fn authority(&self) -> &CertificateAuthority {
        &self.0
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

/// A certificate to be issued.
pub struct Request<'a>(CertificateRequest<'a>);

impl Request<'_> {
    /// Sets the groups (organizations) of the user: at most two. Default: none.
    pub fn organisations<'s>(self, organisations: impl IntoIterator<Item = &'s str>) -> Self {
        Self(self.0.organizations(organisations))
    }

    /// Sets the validity period, in whole seconds. Default: one day, from an hour ago.
    pub fn valid(self, from: Timestamp, until: Timestamp) -> Self {
        Self(self.0.valid(from, until))
    }

    /// Sets a validity that ended an hour ago.
    pub fn expired(self) -> Self {
        Self(self.0.expired())
    }

    /// Sets the key type. Default: ECDSA on P-256.
    pub fn key_type(self, key_type: KeyType) -> Self {
        Self(self.0.key_type(key_type))
    }

    /// Sets a DNS name instead of 127.0.0.1 and localhost.
    pub fn for_host(self, host: &str) -> Self {
        Self(self.0.for_host(host))
    }

    /// Generates a key and issues the certificate.
    pub fn issue(self) -> TestIdentity {
        self.0.issue().expect("a certificate")
    }
}
