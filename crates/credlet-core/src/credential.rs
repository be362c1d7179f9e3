use credlet_api::Secret;
use jiff::Timestamp;

use crate::exec_proxy::Proxy;

/// What a plugin gave, checked: a token, a client certificate, a proxy, or several of them; equal when all of it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Credential {
    /// For the `Authorization` header.
    pub token: Option<Secret>,
    /// For the TLS handshake.
    pub certificate: Option<ClientCertificate>,
    /// KEP-2718: where to send requests instead.
    pub proxy: Option<Proxy>,
}

/// A client certificate and the key that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCertificate {
    /// The certificate and then its intermediates, as PEM.
    pub chain_pem: String,
    /// The key, as PEM.
    pub key_pem: Secret,
    /// What the certificate says of itself.
    pub leaf: Leaf,
}

/// What a certificate says of itself, for those who watch rotations. Whether a credential is still good is decided by
/// its plugin and by the server, not by these dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// When its life begins.
    pub not_before: Timestamp,
    /// When its life ends.
    pub not_after: Timestamp,
}
