//! Certificates for the hop between a client and its proxy.

use std::collections::HashMap;
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use credlet_api::Secret;
use credlet_exec::OsError;
use credlet_http::CryptoBackend;
use credlet_platform::fs::{ReadError, create_private_file, read_private};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Size limit of the key file in bytes. It has about 3 KiB.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// Lifetime of a client certificate.
const CLIENT_CERT_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Certificate authorities of a proxy. There are two, so that neither kind of certificate can be used as the other:
///
/// - The server CA signs the proxy's certificate. Its key is then discarded, so pinning this CA pins this proxy.
/// - The client CA signs a certificate for each client. The proxy keeps its key.
///
/// On a socket a [generated](Self::generate) CA suffices, because a client that reaches a different proxy runs its
/// plugin again. For a port the CA is [stored](Self::load_or_create): the kubeconfig pins the server CA, and client-go
/// does not run its plugin again when a handshake rejects its certificate, until the certificate expires a day later. A
/// new daemon must therefore accept certificates of the previous one, and the key of the client CA is stored in a
/// private file. A process that can read the file can also run the plugin and get a certificate.
pub struct ProxyCa {
    ca_pem: String,
    leaf_pem: String,
    leaf_key: Secret,
    clients_pem: String,
    clients_key: Secret,
    clients: Issuer<'static, KeyPair>,
    issued: Mutex<HashMap<String, IssuedCertificate>>,
}

/// Client certificate and key.
#[derive(Clone, Debug)]
pub(super) struct IssuedCertificate {
    pub(super) certificate: String,
    pub(super) key: Secret,
    pub(super) not_after: Timestamp,
}

impl ProxyCa {
    /// Generates a CA for a proxy on `localhost` and its addresses.
    ///
    /// # Errors
    /// If key generation fails.
    pub fn generate(now: Timestamp) -> Result<Self, ProxyCaError> {
        let here = [std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()];
        let names = [SanType::DnsName("localhost".try_into()?)].into_iter().chain(here.map(SanType::IpAddress));
        Self::of(names.collect(), now)
    }

    /// Generates a CA for a proxy that uses the host name or address of the API server, as clients behind `proxy-url`
    /// expect.
    ///
    /// # Errors
    /// If the host is not valid in a certificate.
    pub fn generate_for_host(host: &str, now: Timestamp) -> Result<Self, ProxyCaError> {
        let name = match host.parse() {
            Ok(ip) => SanType::IpAddress(ip),
            // Names in certificates have no trailing dot.
            Err(_) => SanType::DnsName(host.trim_end_matches('.').try_into()?),
        };
        Self::of(vec![name], now)
    }

    fn of(names: Vec<SanType>, now: Timestamp) -> Result<Self, ProxyCaError> {
        const YEARS: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
        let (ca_key, leaf_key, clients_key) = (KeyPair::generate()?, KeyPair::generate()?, KeyPair::generate()?);

        let ca = authority("credlet proxy", now, YEARS);
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let mut leaf = params("credlet proxy on this machine", now, YEARS);
        leaf.subject_alt_names = names;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // Drops the issuer with the only copy of the server CA's key.
        let leaf_pem = leaf.signed_by(&leaf_key, &Issuer::new(ca, ca_key))?.pem();

        let clients_pem = authority(CLIENT_CA_NAME, now, YEARS).self_signed(&clients_key)?.pem();
        let clients_key = Secret::new(clients_key.serialize_pem());
        Self::new([ca_pem, leaf_pem, clients_pem], Secret::new(leaf_key.serialize_pem()), clients_key)
    }

    /// Reads the CA from this file, or [generates](Self::generate) it and creates the file with mode 0600.
    ///
    /// # Errors
    /// If the file is accessible to other users, invalid, or cannot be read or written.
    pub fn load_or_create(path: &Path, now: Timestamp) -> Result<Self, ProxyCaError> {
        Self::load_or_create_with(path, || Self::generate(now))
    }

    /// Like [`load_or_create`](Self::load_or_create), but generates the CA with
    /// [`generate_for_host`](Self::generate_for_host).
    ///
    /// # Errors
    /// See [`load_or_create`](Self::load_or_create) and [`generate_for_host`](Self::generate_for_host).
    pub fn load_or_create_for_host(host: &str, path: &Path, now: Timestamp) -> Result<Self, ProxyCaError> {
        Self::load_or_create_with(path, || Self::generate_for_host(host, now))
    }

    fn load_or_create_with(
        path: &Path,
        make: impl FnOnce() -> Result<Self, ProxyCaError>,
    ) -> Result<Self, ProxyCaError> {
        if let Some(stored) = Self::read(path)? {
            return Ok(stored);
        }
        let generate = make()?;
        let text = Secret::new(
            [
                &generate.ca_pem,
                &generate.leaf_pem,
                &generate.clients_pem,
                generate.leaf_key.expose(),
                generate.clients_key.expose(),
            ]
            .concat(),
        );
        // Concurrent processes use the file of the first one.
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        let _ = std::fs::remove_file(&draft);
        let mut file = create_private_file(&draft)?;
        file.write_all(text.expose().as_bytes()).and_then(|()| file.sync_all())?;
        let put = match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            // Without hard links the last process wins, and the other uses its own CA until it exits.
            Err(_) => std::fs::rename(&draft, path),
            linked => linked,
        };
        let _ = std::fs::remove_file(&draft);
        put?;
        Self::read(path)?.ok_or(ProxyCaError::InvalidFile { reason: "was removed by another process" })
    }

    /// Returns `None` if the file does not exist. Owner and mode are checked on the open file, so that another user
    /// cannot replace it in between.
    fn read(path: &Path) -> Result<Option<Self>, ProxyCaError> {
        let invalid = |reason| Err(ProxyCaError::InvalidFile { reason });
        let bytes = match read_private(path, MAX_FILE_SIZE) {
            Err(ReadError::NotFound) => return Ok(None),
            Err(ReadError::PermissionDenied) => return invalid("is owned by or accessible to other users"),
            Err(ReadError::Directory | ReadError::NotRegular) => return invalid("is not a regular file"),
            Err(ReadError::TooLarge { .. }) => return invalid("has an unexpected format"),
            read => read.map_err(|error| ProxyCaError::File(std::io::Error::from(error.kind()).into()))?,
        };
        let Ok(text) = std::str::from_utf8(&bytes) else { return invalid("has an unexpected format") };
        let text = Secret::new(text);
        let begins: Vec<usize> = text.expose().match_indices("-----BEGIN ").map(|(at, _)| at).collect();
        let &[0, b, c, d, e] = begins.as_slice() else { return invalid("has an unexpected format") };
        let part = |from: usize, to: usize| text.expose()[from..to].to_owned();
        let certificates = [part(0, b), part(b, c), part(c, d)];
        let (leaf_key, clients_key) = (Secret::new(part(d, e)), Secret::new(part(e, text.expose().len())));
        Self::new(certificates, leaf_key, clients_key).map(Some)
    }

    fn new(certificates: [String; 3], leaf_key: Secret, clients_key: Secret) -> Result<Self, ProxyCaError> {
        let [ca_pem, leaf_pem, clients_pem] = certificates;
        // An issuer contributes only its name and key identifier to certificates, so the validity does not matter.
        let name = authority(CLIENT_CA_NAME, Timestamp::UNIX_EPOCH, CLIENT_CERT_LIFETIME);
        let clients = Issuer::new(name, KeyPair::from_pem(clients_key.expose())?);
        Ok(Self { ca_pem, leaf_pem, leaf_key, clients_pem, clients_key, clients, issued: Mutex::default() })
    }

    /// Server CA certificate to pin, as PEM.
    pub fn certificate(&self) -> &str {
        &self.ca_pem
    }

    /// TLS configuration of the proxy: TLS 1.3 with client certificates.
    pub(super) fn server_config(&self, crypto: &CryptoBackend) -> Result<Arc<ServerConfig>, ProxyCaError> {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.clients_pem)?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto.provider().clone())
            .build()
            .map_err(|_| ProxyCaError::InvalidFile { reason: "has no valid client CA" })?;
        let key = PrivateKeyDer::from_pem_slice(self.leaf_key.expose().as_bytes())
            .map_err(|_| ProxyCaError::InvalidFile { reason: "has no valid server key" })?;
        let mut config = ServerConfig::builder_with_provider(crypto.provider().clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![der(&self.leaf_pem)?], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Returns a certificate for clients of the proxy of this name. It is reused for half of its lifetime, because
    /// client-go closes all connections, including watches, when its plugin returns a different certificate.
    pub(super) fn client(&self, of: &str, now: Timestamp) -> Result<IssuedCertificate, ProxyCaError> {
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) =
            issued.get(of).filter(|client| client.not_after.duration_since(now) > CLIENT_CERT_LIFETIME / 2)
        {
            return Ok(client.clone());
        }
        let key = KeyPair::generate()?;
        let mut params = params("a client of credlet proxy", now, CLIENT_CERT_LIFETIME);
        params.distinguished_name.push(DnType::OrganizationalUnitName, of);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.clients)?.pem();
        let client = IssuedCertificate {
            certificate,
            key: Secret::new(key.serialize_pem()),
            not_after: now + CLIENT_CERT_LIFETIME,
        };
        issued.insert(of.to_owned(), client.clone());
        Ok(client)
    }
}

/// Returns the name of the daemon that issued a client certificate.
pub(super) fn issuing_daemon(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = read.subject().iter_organizational_unit().next()?.as_str().ok()?;
    Some(name.to_owned())
}

/// Omits the keys.
impl fmt::Debug for ProxyCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyCa")
    }
}

const CLIENT_CA_NAME: &str = "clients of credlet proxy";

fn params(name: &str, now: Timestamp, life: SignedDuration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // Allow for clock skew.
    let begins = now.saturating_sub(SignedDuration::from_mins(5)).unwrap_or(now);
    params.not_before = std::time::SystemTime::from(begins).into();
    params.not_after = std::time::SystemTime::from(now.saturating_add(life).unwrap_or(now)).into();
    params
}

fn authority(name: &str, now: Timestamp, life: SignedDuration) -> CertificateParams {
    let mut params = params(name, now, life);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn der(pem: &str) -> Result<CertificateDer<'static>, ProxyCaError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| ProxyCaError::InvalidFile { reason: "is not valid PEM" })
}

/// A CA that cannot be loaded or generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyCaError {
    /// The stored file is invalid. Removing it generates a new CA.
    #[error("invalid key file of the proxy: it {reason}")]
    InvalidFile {
        /// What is invalid.
        reason: &'static str,
    },
    /// The file cannot be read or written.
    #[error("failed to access the key file of the proxy: {0}")]
    File(OsError),
    /// A key or certificate could not be generated.
    #[error("failed to generate a certificate for the proxy")]
    Generate,
}

impl From<std::io::Error> for ProxyCaError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error.into())
    }
}

/// The source errors are dropped, because they may quote keys.
impl From<rcgen::Error> for ProxyCaError {
    fn from(_: rcgen::Error) -> Self {
        Self::Generate
    }
}

impl From<rustls::Error> for ProxyCaError {
    fn from(_: rustls::Error) -> Self {
        Self::Generate
    }
}
