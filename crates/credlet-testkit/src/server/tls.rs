//! The server's TLS settings.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::CertificateDer;

use crate::ca::TestIdentity;

/// Treatment of client certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not requested.
    Off,
    /// Requested, but optional. An invalid certificate fails the handshake; kube-apiserver responds with 401 instead.
    Optional,
    /// Required for the handshake.
    Required,
}

/// Inputs of the TLS configuration, stored to rebuild it when the certificate is rotated.
pub(super) struct Tls {
    pub(super) identity: TestIdentity,
    pub(super) client_roots: Vec<CertificateDer<'static>>,
    pub(super) client_certificates: ClientCertificates,
    pub(super) alpn: Vec<Vec<u8>>,
    pub(super) tls12_only: bool,
}

/// Stateless tickets, so that sessions resume on any connection.
pub(super) fn ticketer() -> Arc<dyn ProducesTickets> {
    aws_lc_rs::Ticketer::new().expect("random numbers")
}

impl Tls {
    pub(super) fn config(&self, ticketer: Arc<dyn ProducesTickets>) -> Arc<ServerConfig> {
        // Never the process default: a test binary may have two providers compiled in, and libraries install none.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: &[_] = if self.tls12_only { &[&rustls::version::TLS12] } else { rustls::ALL_VERSIONS };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("versions the provider has");
        let builder = match self.client_certificates {
            ClientCertificates::Off => builder.with_no_client_auth(),
            asked => builder.with_client_cert_verifier(self.verifier(asked, provider)),
        };
        let mut config = builder
            .with_single_cert(vec![self.identity.cert_der()], self.identity.key_der())
            .expect("a certificate with its key");
        config.alpn_protocols.clone_from(&self.alpn);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = ticketer;
        Arc::new(config)
    }

    fn verifier(
        &self,
        asked: ClientCertificates,
        provider: Arc<CryptoProvider>,
    ) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        for root in &self.client_roots {
            roots.add(root.clone()).expect("a CA certificate");
        }
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        if asked == ClientCertificates::Optional {
            builder = builder.allow_unauthenticated();
        }
        builder.build().expect("a verifier")
    }
}
