//! TLS settings of the server.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ProducesTickets, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::StartError;
use crate::ca::Identity;

/// Treatment of client certificates in the TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// Not requested.
    Off,
    /// Requested, optional and not verified in the handshake, as by kube-apiserver: the
    /// [`Authenticator`](crate::authn::Authenticator) verifies the certificate of each request, so that an invalid one leads to a
    /// `401`. The client must have the private key.
    Unverified,
    /// Requested and optional. An invalid certificate fails the handshake.
    Optional,
    /// Required. A missing or invalid certificate fails the handshake.
    Required,
}

/// Inputs of the TLS configuration, stored to rebuild it when the certificate is rotated.
pub(super) struct TlsSettings {
    pub(super) identity: Identity,
    pub(super) client_root: CertificateDer<'static>,
    pub(super) client_certificates: ClientCertificates,
    pub(super) alpn: Vec<Vec<u8>>,
    pub(super) tls12_only: bool,
}

/// Returns an encoder of stateless tickets, so that sessions resume on any connection.
pub(super) fn ticketer() -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    aws_lc_rs::Ticketer::new()
}

impl TlsSettings {
    pub(super) fn config(&self, ticketer: Arc<dyn ProducesTickets>) -> Result<Arc<ServerConfig>, StartError> {
        // Never the process default: a program may have two providers compiled in, and libraries install none.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = if self.tls12_only { &[&rustls::version::TLS12] } else { rustls::ALL_VERSIONS };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let builder = match self.client_certificates {
            ClientCertificates::Off => builder.with_no_client_auth(),
            ClientCertificates::Unverified => {
                builder.with_client_cert_verifier(Arc::new(AcceptAnyClientCert(provider)))
            }
            verified => {
                let optional = verified == ClientCertificates::Optional;
                builder.with_client_cert_verifier(verifier(self.client_root.clone(), optional, provider)?)
            }
        };
        let mut config = builder.with_single_cert(vec![self.identity.cert_der()], self.identity.key_der())?;
        config.alpn_protocols.clone_from(&self.alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ticketer;
        Ok(Arc::new(config))
    }
}

/// Returns the verifier of client certificates: signed by this CA, for client authentication, not expired.
pub(crate) fn verifier(
    root: CertificateDer<'static>,
    optional: bool,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let mut roots = RootCertStore::empty();
    // A root that is rejected here leaves the store empty, which `build` reports.
    let _ = roots.add(root);
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build()
}

/// Accepts any certificate of which the client has the private key, or none.
#[derive(Debug)]
struct AcceptAnyClientCert(Arc<CryptoProvider>);

impl ClientCertVerifier for AcceptAnyClientCert {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Empty: a client that receives names of CAs might not send a certificate of another CA.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
