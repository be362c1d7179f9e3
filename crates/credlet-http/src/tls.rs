use std::sync::Arc;
use std::time::Duration;

use credlet_platform::Clock;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};

use super::identity::FixedIdentityResolver;
use super::verifier::ServerVerifier;
use super::{HttpError, TlsIdentity};

/// Cryptographic algorithms for TLS. It is always passed explicitly: rustls panics when it has to choose the process
/// default and the program links two providers.
#[derive(Clone, Debug)]
pub struct CryptoBackend(Arc<CryptoProvider>);

impl CryptoBackend {
    /// Uses this provider.
    pub fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }

    /// Uses AWS-LC, the default of rustls.
    pub fn aws_lc_rs() -> Self {
        Self(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
    }

    /// Returns the provider.
    pub fn provider(&self) -> &Arc<CryptoProvider> {
        &self.0
    }
}

/// Trust anchors for verifying server certificates.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum TrustRoots {
    /// Trust store of the system.
    #[default]
    Platform,
    /// PEM bundle. Server certificates in the bundle are trusted as well; invalid ones are skipped, as in Go.
    Pem(Vec<u8>),
    /// No verification: every certificate is accepted.
    Unchecked,
}

/// Builds the TLS configuration of each generation. The verifier is shared by all generations.
#[derive(Debug)]
pub(super) struct TlsFactory {
    crypto: CryptoBackend,
    roots: TrustRoots,
    verifier: Arc<dyn ServerCertVerifier>,
    time: Arc<ClockTimeProvider>,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl TlsFactory {
    pub(super) fn new(crypto: CryptoBackend, roots: TrustRoots, clock: Arc<dyn Clock>) -> Result<Self, HttpError> {
        Self::with_versions(DEFAULT_VERSIONS, crypto, roots, clock)
    }

    /// Creates a factory that allows TLS 1.3 only, for an exec proxy.
    pub(super) fn tls13(crypto: CryptoBackend, roots: TrustRoots, clock: Arc<dyn Clock>) -> Result<Self, HttpError> {
        static TLS13_ONLY: &[&SupportedProtocolVersion] = &[&TLS13];
        Self::with_versions(TLS13_ONLY, crypto, roots, clock)
    }

    fn with_versions(
        versions: &'static [&'static SupportedProtocolVersion],
        crypto: CryptoBackend,
        roots: TrustRoots,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, HttpError> {
        let verifier = verifier(&crypto, &roots)?;
        let tls = Self { crypto, roots, verifier, time: Arc::new(ClockTimeProvider(clock)), versions };
        // Reports a provider without TLS support now and not at the first request.
        tls.config(tls.verifier.clone(), None)?;
        Ok(tls)
    }

    /// Builds the configuration of one generation. The session store is not shared with other generations.
    pub(super) fn session(&self, identity: Option<TlsIdentity>) -> Result<TlsSession, HttpError> {
        let mut any = self.config(self.verifier.clone(), identity)?;
        any.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // HTTP/2 ignores `Upgrade` without an error, so upgrade requests must not offer h2. The clone shares resolver,
        // verifier and session store.
        let mut http1 = any.clone();
        http1.alpn_protocols.remove(0);
        Ok(TlsSession { any: Arc::new(any), http1: Arc::new(http1) })
    }

    /// Builds the configuration for an HTTPS proxy, without the client certificate, which is for the server only.
    pub(super) fn for_proxy(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let verifier = match self.roots {
            TrustRoots::Pem(_) => match verifier(&self.crypto, &TrustRoots::Platform) {
                Ok(platform) => Arc::new(ServerVerifier::Either(self.verifier.clone(), platform)),
                Err(_) => self.verifier.clone(),
            },
            _ => self.verifier.clone(),
        };
        self.config(verifier, None).map(Arc::new)
    }

    fn config(
        &self,
        verifier: Arc<dyn ServerCertVerifier>,
        identity: Option<TlsIdentity>,
    ) -> Result<ClientConfig, HttpError> {
        let builder = ClientConfig::builder_with_details(self.crypto.0.clone(), self.time.clone())
            .with_protocol_versions(self.versions)
            .map_err(|error| roots_error("the crypto provider does not support TLS", error))?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(FixedIdentityResolver(identity)));
        config.resumption = Resumption::in_memory_sessions(16);
        Ok(config)
    }
}

/// TLS configurations of one generation.
#[derive(Clone, Debug)]
pub(super) struct TlsSession {
    /// Offers HTTP/2 and HTTP/1.1.
    pub(super) any: Arc<ClientConfig>,
    /// Offers HTTP/1.1 only.
    pub(super) http1: Arc<ClientConfig>,
}

fn verifier(crypto: &CryptoBackend, roots: &TrustRoots) -> Result<Arc<dyn ServerCertVerifier>, HttpError> {
    match roots {
        TrustRoots::Unchecked => Ok(Arc::new(ServerVerifier::Unchecked(crypto.0.clone()))),
        TrustRoots::Platform => match rustls_platform_verifier::Verifier::new(crypto.0.clone()) {
            Ok(verifier) => Ok(Arc::new(verifier)),
            Err(error) => Err(roots_error("failed to load the trust store of the system", error)),
        },
        TrustRoots::Pem(pem) => {
            let bundle: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(bundle.iter().cloned());
            if roots.is_empty() {
                return Err(HttpError::TrustRoots { reason: "missing PEM certificate", source: None });
            }
            let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto.0.clone())
                .build()
                .map_err(|error| HttpError::TrustRoots {
                    reason: "failed to build the verifier",
                    source: Some(Arc::new(error)),
                })?;
            Ok(Arc::new(ServerVerifier::PinnedLeaf { webpki, bundle }))
        }
    }
}

fn roots_error(reason: &'static str, error: rustls::Error) -> HttpError {
    HttpError::TrustRoots { reason, source: Some(Arc::new(error)) }
}

/// Time source for certificate verification.
#[derive(Debug)]
struct ClockTimeProvider(Arc<dyn Clock>);

impl TimeProvider for ClockTimeProvider {
    fn current_time(&self) -> Option<UnixTime> {
        let since = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(since)))
    }
}
