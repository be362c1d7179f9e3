use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Trusts what the bundle's authorities issued and, as Go does, the very certificates in the bundle: many clusters give
/// the server's own certificate as their "certificate authority".
#[derive(Debug)]
pub(super) struct PinnedLeaf {
    pub(super) inner: Arc<WebPkiServerVerifier>,
    pub(super) bundle: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for PinnedLeaf {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let error = match self.inner.verify_server_cert(leaf, chain, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        // webpki looks at dates, then at the CA flag, then at the purpose, and last for an issuer. So with these two
        // errors the dates are right, and with the first the purpose is as well. The tests below hold it to that.
        let only_the_issuer = match &error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
            Error::InvalidCertificate(CertificateError::Other(other)) => {
                matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
            }
            _ => false,
        };
        if only_the_issuer && self.bundle.iter().any(|pinned| pinned.as_ref() == leaf.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        Err(error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// `insecure-skip-tls-verify`: whoever answers is the server.
#[derive(Debug)]
pub(super) struct Anyone(pub(super) Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    // Whoever may show any certificate may as well show one to which he has the key: a check would prove nothing, and
    // would refuse certificates that are too old for the library to read.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// For an HTTPS proxy. Go checks it against the cluster's authorities, so a proxy with a public certificate fails
/// there; here it may be known to either.
#[derive(Debug)]
pub(super) struct Either(pub(super) Arc<dyn ServerCertVerifier>, pub(super) Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for Either {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0
            .verify_server_cert(leaf, chain, name, ocsp, now)
            .or_else(|error| self.1.verify_server_cert(leaf, chain, name, ocsp, now).map_err(|_| error))
    }

    // Both have the same crypto provider behind them.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use credlet_testkit::ca::Ca;
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use rustls::RootCertStore;

    use super::*;

    type Der = CertificateDer<'static>;

    /// What webpki alone says, and what we say, of this certificate for `localhost`.
    fn judged(served: &Der, bundle: &Der, name: &str) -> (bool, bool) {
        let mut roots = RootCertStore::empty();
        roots.add(bundle.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let verify = |verifier: &dyn ServerCertVerifier| {
            verifier.verify_server_cert(served, &[], &name, &[], UnixTime::now()).is_ok()
        };
        let alone = verify(&*inner);
        (alone, verify(&PinnedLeaf { inner, bundle: vec![bundle.clone()] }))
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
    fn what_an_authority_issued_is_trusted_with_the_authority_in_the_bundle() {
        let ca = Ca::new();
        assert_eq!(judged(&ca.server().issue().cert_der(), &ca.der(), HOST), (true, true));
    }

    #[test]
    fn a_leaf_in_the_bundle_is_trusted_itself_as_kubectl_does() {
        let leaf = Ca::new().server().issue().cert_der();
        assert_eq!(judged(&leaf, &leaf, HOST), (false, true));
    }

    #[test]
    fn a_leaf_in_the_bundle_vouches_for_no_other_leaf() {
        let ca = Ca::new();
        let (served, pinned) = (ca.server().issue().cert_der(), ca.server().issue().cert_der());
        assert_eq!(judged(&served, &pinned, HOST), (false, false));
    }

    #[test]
    fn an_expired_leaf_is_refused_although_it_is_in_the_bundle() {
        let leaf = Ca::new().server().expired().issue().cert_der();
        assert_eq!(judged(&leaf, &leaf, HOST), (false, false));
    }

    #[test]
    fn a_leaf_for_another_name_is_refused_although_it_is_in_the_bundle() {
        let leaf = Ca::new().server().issue().cert_der();
        assert_eq!(judged(&leaf, &leaf, "api.example"), (false, false));
    }

    #[test]
    fn a_leaf_for_clients_only_is_refused_although_it_is_in_the_bundle() {
        let leaf = Ca::new().client("jane").for_host(HOST).issue().cert_der();
        assert_eq!(judged(&leaf, &leaf, HOST), (false, false));
    }

    #[test]
    fn a_self_signed_certificate_without_the_ca_flag_is_trusted() {
        let leaf = self_signed(IsCa::NoCa, false);
        assert_eq!(judged(&leaf, &leaf, HOST), (true, true));
    }

    #[test]
    fn a_self_signed_certificate_that_denies_the_ca_flag_is_trusted() {
        let leaf = self_signed(IsCa::ExplicitNoCa, false);
        assert_eq!(judged(&leaf, &leaf, HOST), (true, true));
    }

    #[test]
    fn a_self_signed_authority_that_serves_itself_is_trusted() {
        let ca = self_signed(IsCa::Ca(BasicConstraints::Unconstrained), false);
        assert_eq!(judged(&ca, &ca, HOST), (false, true));
        assert_eq!(judged(&ca, &ca, "api.example"), (false, false));
    }

    #[test]
    fn an_expired_authority_that_serves_itself_is_refused() {
        let ca = self_signed(IsCa::Ca(BasicConstraints::Unconstrained), true);
        assert_eq!(judged(&ca, &ca, HOST), (false, false));
    }
}
