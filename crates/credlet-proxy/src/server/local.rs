//! Certificates for the hop between a client and its proxy, on one machine and for one user.

use std::collections::HashMap;
use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use credlet_api::Secret;
use credlet_client::conn::Crypto;
use credlet_core::OsError;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// How long a client's certificate is good.
const CLIENT: SignedDuration = SignedDuration::from_hours(24);

/// Who the proxy is, and whom it lets in. Two authorities, so that neither can pass for the other:
///
/// - One for the proxy's own certificate. Its key signs that certificate and is gone: nobody can make another one, so
///   whoever pins this authority pins this very proxy.
/// - One for clients. Its key stays, because every client is given a certificate when it asks.
///
/// **Kept or not.** On a socket an authority [of the moment](Self::fresh) will do: a client that meets another proxy
/// than before runs its plugin again. The port is another matter. The kubeconfig pins the first authority, so that one
/// is [kept](Self::kept_in). And a client-go whose certificate is refused in the handshake gets no `401`, so it does not
/// run its plugin until the certificate expires, a day later; hence a new daemon must accept the certificates of
/// the one before, and the key of the second authority is kept too, where only this user reads it. Whoever can read
/// it can run the plugin as well, and be given a certificate without it.
pub struct Authority {
    ca_pem: String,
    leaf_pem: String,
    leaf_key: Secret,
    clients_pem: String,
    clients_key: Secret,
    clients: Issuer<'static, KeyPair>,
    given: Mutex<HashMap<String, Client>>,
}

/// What a client is given.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) certificate: String,
    pub(super) key: Secret,
    pub(super) not_after: Timestamp,
}

impl Authority {
    /// One that nobody has seen before, for a proxy that is known by this machine's own names.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn fresh(now: Timestamp) -> Result<Self, AuthorityError> {
        let here = [std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()];
        let names = [SanType::DnsName("localhost".try_into()?)].into_iter().chain(here.map(SanType::IpAddress));
        Self::of(names.collect(), now)
    }

    /// The same for a proxy that is known by the name or address of the API server, because clients believe that they
    /// speak to that.
    ///
    /// # Errors
    /// When no certificate can be for such a host.
    pub fn fresh_for(host: &str, now: Timestamp) -> Result<Self, AuthorityError> {
        let name = match host.parse() {
            Ok(ip) => SanType::IpAddress(ip),
            // In certificates no name ends with a dot.
            Err(_) => SanType::DnsName(host.trim_end_matches('.').try_into()?),
        };
        Self::of(vec![name], now)
    }

    fn of(names: Vec<SanType>, now: Timestamp) -> Result<Self, AuthorityError> {
        const YEARS: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
        let (ca_key, leaf_key, clients_key) = (KeyPair::generate()?, KeyPair::generate()?, KeyPair::generate()?);

        let ca = authority("credlet proxy", now, YEARS);
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let mut leaf = params("credlet proxy on this machine", now, YEARS);
        leaf.subject_alt_names = names;
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // The issuer, and with it the only copy of the first authority's key, ends here.
        let leaf_pem = leaf.signed_by(&leaf_key, &Issuer::new(ca, ca_key))?.pem();

        let clients_pem = authority(CLIENTS, now, YEARS).self_signed(&clients_key)?.pem();
        let clients_key = Secret::new(clients_key.serialize_pem());
        Self::new([ca_pem, leaf_pem, clients_pem], Secret::new(leaf_key.serialize_pem()), clients_key)
    }

    /// The one in this file, which is made if it is missing, as [`fresh`](Self::fresh) makes it, and readable by this
    /// user only.
    ///
    /// # Errors
    /// When the file is open to others, is not one of ours, or cannot be read or written.
    pub fn kept_in(path: &Path, now: Timestamp) -> Result<Self, AuthorityError> {
        Self::kept(path, || Self::fresh(now))
    }

    /// The same, made as [`fresh_for`](Self::fresh_for) does.
    ///
    /// # Errors
    /// See both.
    pub fn kept_for(host: &str, path: &Path, now: Timestamp) -> Result<Self, AuthorityError> {
        Self::kept(path, || Self::fresh_for(host, now))
    }

    fn kept(path: &Path, make: impl FnOnce() -> Result<Self, AuthorityError>) -> Result<Self, AuthorityError> {
        if let Some(kept) = Self::read(path)? {
            return Ok(kept);
        }
        let fresh = make()?;
        let text = Secret::new(
            [&fresh.ca_pem, &fresh.leaf_pem, &fresh.clients_pem, fresh.leaf_key.expose(), fresh.clients_key.expose()]
                .concat(),
        );
        // Two may do this at once: the first to put its file there wins, and both use that one.
        let draft = path.with_extension(format!("draft-{}", std::process::id()));
        let _ = std::fs::remove_file(&draft);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.expose().as_bytes()).and_then(|()| file.sync_all())?;
        let put = match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            // There are file systems without links. There the last one wins, and the other has its own until it ends.
            Err(_) => std::fs::rename(&draft, path),
            linked => linked,
        };
        let _ = std::fs::remove_file(&draft);
        put?;
        Self::read(path)?.ok_or(AuthorityError::Kept { reason: "has gone again" })
    }

    fn read(path: &Path) -> Result<Option<Self>, AuthorityError> {
        let wrong = |reason| Err(AuthorityError::Kept { reason });
        let found = match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return wrong("is not a file of this user's");
        }
        if found.mode() & 0o077 != 0 {
            return wrong("is open to other users");
        }
        let text = Secret::new(std::fs::read_to_string(path)?);
        let begins: Vec<usize> = text.expose().match_indices("-----BEGIN ").map(|(at, _)| at).collect();
        let &[0, b, c, d, e] = begins.as_slice() else { return wrong("is not a proxy's authority") };
        let part = |from: usize, to: usize| text.expose()[from..to].to_owned();
        let certificates = [part(0, b), part(b, c), part(c, d)];
        let (leaf_key, clients_key) = (Secret::new(part(d, e)), Secret::new(part(e, text.expose().len())));
        Self::new(certificates, leaf_key, clients_key).map(Some)
    }

    fn new(certificates: [String; 3], leaf_key: Secret, clients_key: Secret) -> Result<Self, AuthorityError> {
        let [ca_pem, leaf_pem, clients_pem] = certificates;
        // What an issuer writes into certificates is its name and the number of its key, so the rest may differ.
        let name = authority(CLIENTS, Timestamp::UNIX_EPOCH, CLIENT);
        let clients = Issuer::new(name, KeyPair::from_pem(clients_key.expose())?);
        Ok(Self { ca_pem, leaf_pem, leaf_key, clients_pem, clients_key, clients, given: Mutex::default() })
    }

    /// The certificate to pin, as PEM.
    pub fn certificate(&self) -> &str {
        &self.ca_pem
    }

    /// What the proxy shows and asks for: TLS 1.3 with a certificate on both sides.
    pub(super) fn server_config(&self, crypto: &Crypto) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.clients_pem)?)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto.provider().clone())
            .build()
            .map_err(|_| AuthorityError::Kept { reason: "has no authority for clients" })?;
        let key = PrivateKeyDer::from_pem_slice(self.leaf_key.expose().as_bytes())
            .map_err(|_| AuthorityError::Kept { reason: "has no key for the proxy" })?;
        let mut config = ServerConfig::builder_with_provider(crypto.provider().clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![der(&self.leaf_pem)?], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A certificate for the clients of the proxy of this name. It is the same one for half of its life: client-go closes
    /// all its connections, the watches on them included, when its plugin gives it another.
    pub(super) fn client(&self, of: &str, now: Timestamp) -> Result<Client, AuthorityError> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = given.get(of).filter(|client| client.not_after.duration_since(now) > CLIENT / 2) {
            return Ok(client.clone());
        }
        let key = KeyPair::generate()?;
        let mut params = params("a client of credlet proxy", now, CLIENT);
        params.distinguished_name.push(DnType::OrganizationalUnitName, of);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.clients)?.pem();
        let client = Client { certificate, key: Secret::new(key.serialize_pem()), not_after: now + CLIENT };
        given.insert(of.to_owned(), client.clone());
        Ok(client)
    }
}

/// Which proxy has given out this certificate of a client's.
pub(super) fn given_by(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, read) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let name = read.subject().iter_organizational_unit().next()?.as_str().ok()?;
    Some(name.to_owned())
}

/// Without the keys.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

const CLIENTS: &str = "clients of credlet proxy";

fn params(name: &str, now: Timestamp, life: SignedDuration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // The reader's clock may be a little behind ours.
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

fn der(pem: &str) -> Result<CertificateDer<'static>, AuthorityError> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| AuthorityError::Kept { reason: "is not readable as PEM" })
}

/// Why there are no certificates for the local hop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The kept file is of no use. Whoever put it there must act; removing it makes a new one.
    #[error("the file with the proxy's own keys {reason}")]
    Kept {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The system does not let us read or write it.
    #[error("the file with the proxy's own keys cannot be used: {0}")]
    File(OsError),
    /// No key or certificate could be made.
    #[error("no certificate could be made for the way to the proxy")]
    Unmade,
}

impl From<std::io::Error> for AuthorityError {
    fn from(error: std::io::Error) -> Self {
        Self::File(error.into())
    }
}

/// Their texts may quote keys.
impl From<rcgen::Error> for AuthorityError {
    fn from(_: rcgen::Error) -> Self {
        Self::Unmade
    }
}

impl From<rustls::Error> for AuthorityError {
    fn from(_: rustls::Error) -> Self {
        Self::Unmade
    }
}
