use credlet_api::Secret;
use jiff::Timestamp;

use crate::exec_proxy::PluginProxy;

/// A validated credential of a plugin: a token, a client certificate, a proxy, or a combination of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Credential {
    /// Bearer token for the `Authorization` header.
    pub token: Option<Secret>,
    /// Client certificate for TLS.
    pub certificate: Option<ClientCertificate>,
    /// Exec proxy (KEP-2718) that receives the requests instead of the API server.
    pub proxy: Option<PluginProxy>,
}

/// A client certificate with its private key.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCertificate {
    /// The certificate, followed by intermediates, as PEM.
    pub chain_pem: String,
    /// The private key as PEM.
    pub key_pem: Secret,
    /// Validity period of the certificate.
    pub validity: CertificateValidity,
}

/// Validity period of a certificate, for metrics on rotation. The expiry of a credential is set by the plugin and does
/// not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateValidity {
    /// Start of the validity period.
    pub not_before: Timestamp,
    /// End of the validity period.
    pub not_after: Timestamp,
}
