use std::fmt;
use std::sync::Arc;

use credlet_api::Secret;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::asn1_rs::FromDer as _;
use x509_parser::certificate::X509Certificate;

use super::{CryptoBackend, HttpError};

/// Client certificate with a signer for its key.
#[derive(Clone)]
pub struct TlsIdentity {
    certified: Arc<CertifiedKey>,
}

impl TlsIdentity {
    /// Parses a certificate chain and a key (PKCS#8, PKCS#1 or SEC1) in PEM.
    ///
    /// # Errors
    /// [`HttpError::ClientCertificate`]. It does not quote the input.
    pub fn from_pem(certificate: &[u8], key: &Secret, crypto: &CryptoBackend) -> Result<Self, HttpError> {
        let invalid = |reason| HttpError::ClientCertificate { reason };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|_| invalid("not valid PEM"))?;
        if chain.is_empty() {
            return Err(invalid("missing CERTIFICATE block"));
        }
        let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|_| {
            // Both PEM forms of an encrypted key contain this word.
            match key.expose().contains("ENCRYPTED") {
                true => invalid("its key is encrypted: store it decrypted, or in a security module"),
                false => invalid("its key is not valid PEM"),
            }
        })?;
        let key = crypto.provider().key_provider.load_private_key(key);
        let key = key.map_err(|_| invalid("unsupported key type"))?;
        // rustls would compare the two as well, but parses X.509 version 3 only. `openssl x509 -req` creates version 1 by
        // default, and API servers accept it.
        let certified_key = public_key(&chain[0]).ok_or_else(|| invalid("not an X.509 certificate"))?;
        if key.public_key().is_some_and(|key| key.as_ref() != certified_key) {
            return Err(invalid("it does not match its key"));
        }
        Ok(Self { certified: Arc::new(CertifiedKey::new(chain, key)) })
    }

    /// Wraps a certificate with a key that is used through a signer, for example in a security module.
    pub fn from_certified_key(certified: Arc<CertifiedKey>) -> Self {
        Self { certified }
    }
}

/// The public key of a certificate as DER. All other fields are left to the server to verify.
fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let (rest, certificate) = X509Certificate::from_der(certificate).ok()?;
    rest.is_empty().then_some(certificate.tbs_certificate.subject_pki.raw)
}

/// Compares certificate chains. Equal certificates have equal keys, and a key in hardware cannot be compared.
impl PartialEq for TlsIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.certified.cert == other.certified.cert
    }
}

impl Eq for TlsIdentity {}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsIdentity({} certificates)", self.certified.cert.len())
    }
}

/// Presents a fixed identity, or none. Each generation has its own resolver, because rustls does not resume a session with
/// another resolver: with a mutable one, a resumed session would still have the old identity.
#[derive(Debug)]
pub(super) struct FixedIdentityResolver(pub(super) Option<TlsIdentity>);

impl ResolvesClientCert for FixedIdentityResolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.as_ref().map(|identity| identity.certified.clone())
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use credlet_testkit::ca::TestCa;
    use x509_parser::asn1_rs::Any;

    use super::*;

    const MISMATCH: &str = "invalid client certificate: it does not match its key";

    fn read(certificate: &str, key: &str) -> Result<TlsIdentity, String> {
        TlsIdentity::from_pem(certificate.as_bytes(), &Secret::new(key), &CryptoBackend::aws_lc_rs())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn identities_compare_by_certificate() {
        let ca = TestCa::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let identity = read(one.cert_pem(), one.key_pem()).unwrap();
        assert_eq!(identity, read(one.cert_pem(), one.key_pem()).unwrap());
        assert_ne!(identity, read(two.cert_pem(), two.key_pem()).unwrap());
        assert_eq!(format!("{identity:?}"), "TlsIdentity(1 certificates)");
    }

    /// Converts a certificate to X.509 version 1: removes version and extensions. The signature is not verified here.
    fn version_1(pem: &str) -> String {
        let wrap = |content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[0x30, 0x82], &length, content].concat()
        };
        // Returns content and encoding of the first element, and the rest.
        let element = |der: &[u8]| {
            let (after, first) = Any::from_der(der).unwrap();
            (first.data.to_vec(), der[..der.len() - after.len()].to_vec(), after.to_vec())
        };
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (certificate, ..) = element(&der);
        let (signed, _, signature) = element(&certificate);
        let (_, version, mut rest) = element(&signed);
        assert_eq!(version, [0xa0, 3, 2, 1, 2]);
        let mut kept = Vec::new();
        // Serial number, algorithm, issuer, validity, subject and key.
        for _ in 0..6 {
            let (_, whole, after) = element(&rest);
            kept.extend(whole);
            rest = after;
        }
        let der = wrap(&[wrap(&kept), signature].concat());
        let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn accepts_x509_version_1() {
        let ca = TestCa::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let old = version_1(one.cert_pem());
        assert!(webpki::EndEntityCert::try_from(&CertificateDer::from_pem_slice(old.as_bytes()).unwrap()).is_err());
        assert!(read(&old, one.key_pem()).is_ok());
        assert_eq!(read(&old, two.key_pem()).unwrap_err(), MISMATCH);
    }

    #[test]
    fn rejects_truncated_certificates() {
        let der = CertificateDer::from_pem_slice(TestCa::new().client("one").issue().cert_pem().as_bytes()).unwrap();
        assert!(public_key(&der).is_some());
        for length in 0..der.len() {
            assert!(public_key(&der[..length]).is_none(), "{length}");
        }
    }

    #[test]
    fn errors_do_not_quote_certificate_or_key() {
        let ca = TestCa::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let error = |certificate: &str, key: &str| read(certificate, key).unwrap_err();
        assert_eq!(error(one.cert_pem(), two.key_pem()), MISMATCH);
        assert_eq!(error("", one.key_pem()), "invalid client certificate: missing CERTIFICATE block");
        let no_key = "invalid client certificate: its key is not valid PEM";
        assert_eq!(error(one.cert_pem(), one.cert_pem()), no_key);
        assert_eq!(error(one.cert_pem(), "hunter2"), no_key);
        for encrypted in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----\n",
        ] {
            assert!(error(one.cert_pem(), encrypted).contains("its key is encrypted"));
        }
        let cut = &one.cert_pem()[..one.cert_pem().len() / 2];
        assert_eq!(error(cut, one.key_pem()), "invalid client certificate: not valid PEM");
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(error(garbage, one.key_pem()), "invalid client certificate: not an X.509 certificate");
    }
}
