use std::fmt;
use std::sync::Arc;

use credlet_api::Secret;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, SignatureScheme};

use super::{Crypto, Error};

/// The certificate we show to the server, and something that can sign with its key.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
}

impl Identity {
    /// From PEM, as a plugin or a kubeconfig gives it: a certificate with its chain, and a key of any of the usual
    /// forms (PKCS#8, PKCS#1, SEC1).
    ///
    /// # Errors
    /// [`Error::Identity`], without any of the texts.
    pub fn from_pem(certificate: &[u8], key: &Secret, crypto: &Crypto) -> Result<Self, Error> {
        let wrong = |reason| Error::Identity { reason };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|_| wrong("is not readable as PEM"))?;
        if chain.is_empty() {
            return Err(wrong("is missing: there is no CERTIFICATE block"));
        }
        let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())
            .map_err(|_| wrong("comes with a key that is not readable as PEM"))?;
        let certified = CertifiedKey::from_der(chain, key, crypto.provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => wrong("does not belong to its key"),
            rustls::Error::InvalidCertificate(_) => wrong("is not a certificate"),
            _ => wrong("comes with a key of an unknown kind"),
        })?;
        Ok(Self { certified: Arc::new(certified) })
    }

    /// With a key that lives elsewhere, in a security module for example.
    pub fn from_certified_key(certified: Arc<CertifiedKey>) -> Self {
        Self { certified }
    }
}

/// By certificate chain. Equal certificates have equal keys, and a key elsewhere could not be compared.
impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates)", self.certified.cert.len())
    }
}

/// Shows one identity, or none, for ever. The TLS library refuses to resume a session when the resolver is another
/// object, so every generation has one of its own: with a resolver that changes inside, a resumed session would go on
/// to show the old identity.
#[derive(Debug)]
pub(super) struct Resolver(pub(super) Option<Identity>);

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.as_ref().map(|identity| identity.certified.clone())
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use credlet_testkit::ca::Ca;

    use super::*;

    fn read(certificate: &str, key: &str) -> Result<Identity, String> {
        Identity::from_pem(certificate.as_bytes(), &Secret::new(key), &Crypto::aws_lc_rs())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_pair_is_read_compared_and_never_shown() {
        let ca = Ca::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let identity = read(one.cert_pem(), one.key_pem()).unwrap();
        assert_eq!(identity, read(one.cert_pem(), one.key_pem()).unwrap());
        assert_ne!(identity, read(two.cert_pem(), two.key_pem()).unwrap());
        assert_eq!(format!("{identity:?}"), "Identity(1 certificates)");
    }

    #[test]
    fn what_is_wrong_with_a_pair_is_said_without_quoting_it() {
        let ca = Ca::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let wrong = |certificate: &str, key: &str| read(certificate, key).unwrap_err();
        assert_eq!(wrong(one.cert_pem(), two.key_pem()), "the client certificate does not belong to its key");
        assert_eq!(wrong("", one.key_pem()), "the client certificate is missing: there is no CERTIFICATE block");
        let no_key = "the client certificate comes with a key that is not readable as PEM";
        assert_eq!(wrong(one.cert_pem(), one.cert_pem()), no_key);
        assert_eq!(wrong(one.cert_pem(), "hunter2"), no_key);
        let cut = &one.cert_pem()[..one.cert_pem().len() / 2];
        assert_eq!(wrong(cut, one.key_pem()), "the client certificate is not readable as PEM");
        let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(wrong(rubbish, one.key_pem()), "the client certificate is not a certificate");
    }
}
