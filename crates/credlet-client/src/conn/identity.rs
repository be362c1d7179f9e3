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
        let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|_| {
            // As the two ways to write such a key have it.
            match key.expose().contains("ENCRYPTED") {
                true => wrong("comes with a key that is encrypted: store it decrypted, or in a security module"),
                false => wrong("comes with a key that is not readable as PEM"),
            }
        })?;
        let key = crypto.provider().key_provider.load_private_key(key);
        let key = key.map_err(|_| wrong("comes with a key of an unknown kind"))?;
        // The TLS library would compare the two as well, but reads certificates of version 3 alone. Many a user has one of
        // version 1, which is what openssl makes of a request unless it is told otherwise, and API servers take them.
        let certified_key = public_key(&chain[0]).ok_or_else(|| wrong("is not a certificate"))?;
        if key.public_key().is_some_and(|key| key.as_ref() != certified_key) {
            return Err(wrong("does not belong to its key"));
        }
        Ok(Self { certified: Arc::new(CertifiedKey::new(chain, key)) })
    }

    /// With a key that lives elsewhere, in a security module for example.
    pub fn from_certified_key(certified: Arc<CertifiedKey>) -> Self {
        Self { certified }
    }
}

/// The key in a certificate, as DER. What else is in it is for the server to judge.
fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let (rest, certificate) = X509Certificate::from_der(certificate).ok()?;
    rest.is_empty().then_some(certificate.tbs_certificate.subject_pki.raw)
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
    use x509_parser::asn1_rs::Any;

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

    /// The same certificate as one of version 1 would be: without version and extensions, and with a signature that nobody
    /// here looks at.
    fn version_1(pem: &str) -> String {
        let wrap = |content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[0x30, 0x82], &length, content].concat()
        };
        // The content of the first element, all of it, and what follows.
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
        // Number, algorithm, issuer, validity, subject and key.
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
    fn a_certificate_of_version_1_is_one_too() {
        let ca = Ca::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let old = version_1(one.cert_pem());
        assert!(webpki::EndEntityCert::try_from(&CertificateDer::from_pem_slice(old.as_bytes()).unwrap()).is_err());
        assert!(read(&old, one.key_pem()).is_ok());
        assert_eq!(read(&old, two.key_pem()).unwrap_err(), "the client certificate does not belong to its key");
    }

    #[test]
    fn a_certificate_that_is_cut_anywhere_is_none_and_nothing_crashes() {
        let der = CertificateDer::from_pem_slice(Ca::new().client("one").issue().cert_pem().as_bytes()).unwrap();
        assert!(public_key(&der).is_some());
        for length in 0..der.len() {
            assert!(public_key(&der[..length]).is_none(), "{length}");
        }
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
        for encrypted in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END EC PRIVATE KEY-----\n",
        ] {
            assert!(wrong(one.cert_pem(), encrypted).contains("a key that is encrypted"));
        }
        let cut = &one.cert_pem()[..one.cert_pem().len() / 2];
        assert_eq!(wrong(cut, one.key_pem()), "the client certificate is not readable as PEM");
        let rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(wrong(rubbish, one.key_pem()), "the client certificate is not a certificate");
    }
}
