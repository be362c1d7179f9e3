//! Port sharing between the daemons of one user.
//!
//! A kubeconfig names one port, but its clients may need different daemons: `AWS_PROFILE` may differ between two
//! terminals, and one must not use the other's credential. All daemons listen on the port (`SO_REUSEPORT`, which the
//! kernel allows for processes of one user), and the kernel distributes connections among them. A client's certificate
//! names the daemon that issued it. A daemon that accepts a connection of another daemon's client hands over the
//! decrypted stream.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use credlet_platform::local_socket::LocalStream;
use rustls::ServerConnection;
use tokio::net::TcpListener;

use super::ServeError;
use super::listener;
use super::options::{BridgeMode, LoopbackOptions};
use super::proxy_ca::{self, ProxyCa};
use crate::dir::ProxyDir;

/// A port that sibling daemons may share.
#[derive(Debug)]
pub(super) struct SharedPort {
    pub(super) listener: TcpListener,
    pub(super) number: u16,
    pub(super) siblings: Arc<SiblingDaemons>,
    _lock: Option<PortLock>,
}

impl SharedPort {
    /// Opens the port for the daemon in this directory.
    pub(super) fn open(options: &LoopbackOptions, dir: &ProxyDir) -> Result<Self, ServeError> {
        let parent_dir = dir.parent_dir();
        let lock = match &parent_dir {
            // An ephemeral port is not shared.
            Some(parent_dir) if options.port != 0 => Some(PortLock::acquire(parent_dir.clone(), options)?),
            _ => None,
        };
        let (listener, number) = listener::loopback(options.port, lock.is_some())?;
        let siblings = Arc::new(SiblingDaemons { own: dir.name().to_owned(), parent_dir });
        Ok(Self { listener, number, siblings, _lock: lock })
    }
}

/// The other daemons of this user.
#[derive(Debug)]
pub(super) struct SiblingDaemons {
    own: String,
    parent_dir: Option<ProxyDir>,
}

/// Daemon that issued a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CertificateIssuer {
    Own,
    Sibling(String),
}

impl SiblingDaemons {
    /// Returns the daemon that issued the client's certificate, or `None` if the certificate names none.
    pub(super) fn issuer_of(&self, connection: &ServerConnection) -> Option<CertificateIssuer> {
        let name = proxy_ca::issuing_daemon(connection.peer_certificates()?.first()?)?;
        Some(if name == self.own { CertificateIssuer::Own } else { CertificateIssuer::Sibling(name) })
    }

    /// Connects to the sibling of this name.
    ///
    /// # Errors
    /// If the sibling is not running, in particular.
    pub(super) async fn connect(&self, name: &str) -> io::Result<LocalStream> {
        let sibling = self.parent_dir.as_ref().and_then(|parent_dir| parent_dir.sibling(name));
        LocalStream::connect_own(&sibling.ok_or(io::ErrorKind::NotFound)?.handover_socket()).await
    }
}

/// Shared lock on a port for daemons that present the same certificate. Clients of one would not trust the certificate
/// of another.
///
/// The lock file contains the owner's id, and each daemon holds a shared lock on it. A daemon that finds it unlocked
/// writes its own id.
#[derive(Debug)]
struct PortLock {
    parent_dir: ProxyDir,
    name: String,
    file: File,
}

impl PortLock {
    fn acquire(parent_dir: ProxyDir, options: &LoopbackOptions) -> Result<Self, ServeError> {
        let LoopbackOptions { port, mode, authority } = options;
        let name = ProxyDir::port_lock_name(*port);
        let owner = owner_id(*mode, authority);
        loop {
            let file = parent_dir.lock_file(&name)?;
            match Self::try_join(&file, &owner) {
                // The last owner removed the file meanwhile.
                Ok(_) if !parent_dir.is_current(&name, &file) => {}
                Ok(true) => return Ok(Self { parent_dir, name, file }),
                Ok(false) => return Err(ServeError::OtherProxy { port: *port }),
                Err(error) => return Err(ServeError::Port { port: *port, reason: error.into() }),
            }
        }
    }

    /// Takes a shared lock and returns whether the file has this owner. An exclusive lock is held only while writing.
    fn try_join(mut file: &File, owner: &str) -> io::Result<bool> {
        if file.try_lock().is_ok() {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(owner.as_bytes())?;
        }
        // Converting the lock may release it briefly, and another daemon may write the file meanwhile.
        file.lock_shared()?;
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(owner.len() as u64 + 1).read_to_end(&mut found)?;
        Ok(found == owner.as_bytes())
    }
}

/// Removes the file with the last lock.
impl Drop for PortLock {
    fn drop(&mut self) {
        self.parent_dir.remove_unlocked(&self.name, &self.file);
    }
}

/// Identifies what clients see on the port: mode and certificate.
fn owner_id(mode: BridgeMode, authority: &ProxyCa) -> String {
    format!("{mode:?}\n{}", authority.certificate())
}
