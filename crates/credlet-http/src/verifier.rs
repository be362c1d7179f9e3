use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Verifies server certificates by rules that webpki does not have.
#[derive(Debug)]
pub(super) enum ServerVerifier {
    /// Trusts certificates issued by the bundle's authorities and, as Go does, the certificates in the bundle themselves: many
    /// clusters publish the server certificate as their certificate authority.
    PinnedLeaf { webpki: Arc<dyn ServerCertVerifier>, bundle: Vec<CertificateDer<'static>> },
    /// Accepts a certificate that one of two verifiers accepts, for HTTPS proxies. Go verifies them with the cluster's
    /// authorities only and so rejects a proxy with a public certificate.
    Either(Arc<dyn ServerCertVerifier>, Arc<dyn ServerCertVerifier>),
    /// Accepts every certificate (`insecure-skip-tls-verify`).
    Unchecked(Arc<CryptoProvider>),
}

impl ServerVerifier {
    /// Returns the verifier of handshake signatures. Both verifiers of [`Either`](Self::Either) use the same crypto provider.
    ///
    /// `None`: without verification a peer may present any certificate, so also one of its own. Verifying the signature would prove
    /// nothing and reject certificates that webpki cannot parse.
    fn signatures(&self) -> Option<&dyn ServerCertVerifier> {
        match self {
            Self::PinnedLeaf { webpki: first, .. } | Self::Either(first, _) => Some(&**first),
            Self::Unchecked(_) => None,
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |verifier: &dyn ServerCertVerifier| verifier.verify_server_cert(leaf, chain, name, ocsp, now);
        match self {
            Self::PinnedLeaf { webpki, bundle } => verify(&**webpki).or_else(|error| {
                if !is_only_issuer_unknown(&error) || !bundle.iter().any(|pinned| pinned.as_ref() == leaf.as_ref()) {
                    return Err(error);
                }
                verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
                Ok(ServerCertVerified::assertion())
            }),
            Self::Either(first, second) => verify(&**first).or_else(|error| verify(&**second).map_err(|_| error)),
            Self::Unchecked(_) => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let unchecked = || Ok(HandshakeSignatureValid::assertion());
        self.signatures().map_or_else(unchecked, |verifier| verifier.verify_tls12_signature(message, cert, dss))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let unchecked = || Ok(HandshakeSignatureValid::assertion());
        self.signatures().map_or_else(unchecked, |verifier| verifier.verify_tls13_signature(message, cert, dss))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self {
            Self::PinnedLeaf { webpki: first, .. } | Self::Either(first, _) => first.supported_verify_schemes(),
            Self::Unchecked(crypto) => crypto.signature_verification_algorithms.supported_schemes(),
        }
    }
}

/// Whether a certificate is valid except for its issuer.
///
/// webpki checks dates, CA flag, purpose and issuer in this order. So with these two errors the dates are valid, and with the first
/// one the purpose is as well. The tests below verify this order.
fn is_only_issuer_unknown(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use credlet_testkit::ca::TestCa;
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;

    use super::*;

    type Der = CertificateDer<'static>;

    /// Whether webpki, and whether [`ServerVerifier::PinnedLeaf`], accepts the certificate.
    fn verify(served: &Der, bundle: &Der, name: &str) -> (bool, bool) {
        let mut roots = RootCertStore::empty();
        roots.add(bundle.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let accepts = |verifier: &dyn ServerCertVerifier| {
            verifier.verify_server_cert(served, &[], &name, &[], UnixTime::now()).is_ok()
        };
        let webpki = accepts(&*inner);
        (webpki, accepts(&ServerVerifier::PinnedLeaf { webpki: inner, bundle: vec![bundle.clone()] }))
    }

    fn self_signed(is_ca: IsCa, expired: bool) -> Der {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if expired {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    const HOST: &str = "localhost";

    #[test]
    fn trusts_certificate_of_bundled_authority() {
        let ca = TestCa::new();
        assert_eq!(verify(&ca.server().issue().cert_der(), &ca.der(), HOST), (true, true));
    }

    #[test]
    fn trusts_bundled_leaf() {
        let leaf = TestCa::new().server().issue().cert_der();
        assert_eq!(verify(&leaf, &leaf, HOST), (false, true));
    }

    #[test]
    fn bundled_leaf_does_not_vouch_for_others() {
        let ca = TestCa::new();
        let (served, pinned) = (ca.server().issue().cert_der(), ca.server().issue().cert_der());
        assert_eq!(verify(&served, &pinned, HOST), (false, false));
    }

    #[test]
    fn rejects_expired_bundled_leaf() {
        let leaf = TestCa::new().server().expired().issue().cert_der();
        assert_eq!(verify(&leaf, &leaf, HOST), (false, false));
    }

    #[test]
    fn rejects_bundled_leaf_for_another_name() {
        let leaf = TestCa::new().server().issue().cert_der();
        assert_eq!(verify(&leaf, &leaf, "api.example"), (false, false));
    }

    #[test]
    fn rejects_bundled_client_certificate() {
        let leaf = TestCa::new().client("jane").for_host(HOST).issue().cert_der();
        assert_eq!(verify(&leaf, &leaf, HOST), (false, false));
    }

    #[test]
    fn trusts_self_signed_without_ca_flag() {
        let leaf = self_signed(IsCa::NoCa, false);
        assert_eq!(verify(&leaf, &leaf, HOST), (true, true));
    }

    #[test]
    fn trusts_self_signed_with_ca_flag_false() {
        let leaf = self_signed(IsCa::ExplicitNoCa, false);
        assert_eq!(verify(&leaf, &leaf, HOST), (true, true));
    }

    #[test]
    fn trusts_self_signed_authority_as_leaf() {
        let ca = self_signed(IsCa::Ca(BasicConstraints::Unconstrained), false);
        assert_eq!(verify(&ca, &ca, HOST), (false, true));
        assert_eq!(verify(&ca, &ca, "api.example"), (false, false));
    }

    #[test]
    fn rejects_expired_authority_as_leaf() {
        let ca = self_signed(IsCa::Ca(BasicConstraints::Unconstrained), true);
        assert_eq!(verify(&ca, &ca, HOST), (false, false));
    }
}
