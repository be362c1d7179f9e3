use std::sync::Arc;
use std::time::Duration;

use credlet_core::Clock;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};

use super::identity::Resolver;
use super::verifier::{Anyone, Either, PinnedLeaf};
use super::{Error, Identity};

/// The algorithms TLS is made of. It is passed to everything that needs it and never taken from the process: with two
/// providers in a program's dependencies the library's own choice panics.
#[derive(Clone, Debug)]
pub struct Crypto(Arc<CryptoProvider>);

impl Crypto {
    /// The provider of the program's choice.
    pub fn new(provider: Arc<CryptoProvider>) -> Self {
        Self(provider)
    }

    /// Amazon's libcrypto, the TLS library's default.
    pub fn aws_lc_rs() -> Self {
        Self(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
    }

    /// The provider itself.
    pub fn provider(&self) -> &Arc<CryptoProvider> {
        &self.0
    }
}

/// Whose word counts that a server is the right one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Roots {
    /// The authorities this system trusts.
    #[default]
    Platform,
    /// These certificates, and what they have issued. What is no certificate among them is skipped, as Go does.
    Pem(Vec<u8>),
    /// Nobody's: whoever answers is the server.
    Unchecked,
}

/// Makes the TLS configuration of each generation. What all generations share is made once.
#[derive(Debug)]
pub(super) struct Tls {
    crypto: Crypto,
    roots: Roots,
    verifier: Arc<dyn ServerCertVerifier>,
    time: Arc<Time>,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl Tls {
    pub(super) fn new(crypto: Crypto, roots: Roots, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Self::of_versions(DEFAULT_VERSIONS, crypto, roots, clock)
    }

    /// For somebody on the way who is of our own time: nothing older than version 1.3.
    pub(super) fn for_hop(crypto: Crypto, roots: Roots, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        static NEWEST: &[&SupportedProtocolVersion] = &[&TLS13];
        Self::of_versions(NEWEST, crypto, roots, clock)
    }

    fn of_versions(
        versions: &'static [&'static SupportedProtocolVersion],
        crypto: Crypto,
        roots: Roots,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let verifier = verifier(&crypto, &roots)?;
        let tls = Self { crypto, roots, verifier, time: Arc::new(Time(clock)), versions };
        // Now rather than with the first certificate: can the provider do TLS at all?
        tls.config(tls.verifier.clone(), None)?;
        Ok(tls)
    }

    /// For one generation: nothing that could resume a session is shared with another one.
    pub(super) fn session(&self, identity: Option<Identity>) -> Result<Session, Error> {
        let mut any = self.config(self.verifier.clone(), identity)?;
        any.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // An upgrade on HTTP/2 is lost without an error, so those who want one must not be offered h2. The clone keeps
        // resolver, verifier and session store.
        let mut http1 = any.clone();
        http1.alpn_protocols.remove(0);
        Ok(Session { any: Arc::new(any), http1: Arc::new(http1) })
    }

    /// For an HTTPS proxy: never with our certificate, which is for the server alone.
    pub(super) fn for_proxy(&self) -> Result<Arc<ClientConfig>, Error> {
        let verifier = match self.roots {
            Roots::Pem(_) => match verifier(&self.crypto, &Roots::Platform) {
                Ok(platform) => Arc::new(Either(self.verifier.clone(), platform)),
                Err(_) => self.verifier.clone(),
            },
            _ => self.verifier.clone(),
        };
        self.config(verifier, None).map(Arc::new)
    }

    fn config(&self, verifier: Arc<dyn ServerCertVerifier>, identity: Option<Identity>) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_details(self.crypto.0.clone(), self.time.clone())
            .with_protocol_versions(self.versions)
            .map_err(|error| unusable("go with a crypto provider that knows no TLS", error))?;
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(Resolver(identity)));
        config.resumption = Resumption::in_memory_sessions(16);
        Ok(config)
    }
}

/// The configurations of one generation.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// HTTP/2, or else HTTP/1.1.
    pub(super) any: Arc<ClientConfig>,
    /// HTTP/1.1 only.
    pub(super) http1: Arc<ClientConfig>,
}

fn verifier(crypto: &Crypto, roots: &Roots) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    match roots {
        Roots::Unchecked => Ok(Arc::new(Anyone(crypto.0.clone()))),
        Roots::Platform => match rustls_platform_verifier::Verifier::new(crypto.0.clone()) {
            Ok(verifier) => Ok(Arc::new(verifier)),
            Err(error) => Err(unusable("of this system cannot be used", error)),
        },
        Roots::Pem(pem) => {
            let bundle: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(bundle.iter().cloned());
            if roots.is_empty() {
                return Err(Error::Roots { reason: "hold no certificate in PEM", source: None });
            }
            let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto.0.clone())
                .build()
                .map_err(|error| Error::Roots { reason: "cannot be used", source: Some(Arc::new(error)) })?;
            Ok(Arc::new(PinnedLeaf { inner, bundle }))
        }
    }
}

fn unusable(reason: &'static str, error: rustls::Error) -> Error {
    Error::Roots { reason, source: Some(Arc::new(error)) }
}

/// The time of day by which certificates are judged.
#[derive(Debug)]
struct Time(Arc<dyn Clock>);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        let since = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(since)))
    }
}
