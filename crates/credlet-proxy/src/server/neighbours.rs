//! One port, several proxies.
//!
//! A kubeconfig names one port, but its clients need not mean the same proxy: in two terminals `AWS_PROFILE` may differ,
//! and what the one may do is not for the other. So they all listen at that port, which the kernel allows processes of
//! one user (`SO_REUSEPORT`), dealing out connections among them as it likes. Which of them a client means is in the
//! certificate that it was given. A connection that has come to another one is handed over, as it is within its TLS.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use rustls::ServerConnection;
use tokio::net::{TcpListener, UnixStream};

use super::ServeError;
use super::listener;
use super::local::{self, Authority};
use super::options::{Guise, Loopback};
use super::peer;
use crate::dir::Dir;

/// A port, and who else may listen there.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) listener: TcpListener,
    pub(super) number: u16,
    pub(super) neighbours: Arc<Neighbours>,
    _claim: Option<Claim>,
}

impl Port {
    /// The one that is wanted by the proxy in this directory.
    pub(super) fn open(wanted: &Loopback, dir: &Dir) -> Result<Self, ServeError> {
        let street = dir.street();
        let claim = match &street {
            // Any free one is nobody else's.
            Some(street) if wanted.port != 0 => Some(Claim::make(street.clone(), wanted)?),
            _ => None,
        };
        let (listener, number) = listener::loopback(wanted.port, claim.is_some())?;
        let neighbours = Arc::new(Neighbours { own: dir.name().to_owned(), street });
        Ok(Self { listener, number, neighbours, _claim: claim })
    }
}

/// The other proxies of this user.
#[derive(Debug)]
pub(super) struct Neighbours {
    own: String,
    street: Option<Dir>,
}

/// Who has given a client its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GivenBy {
    Us,
    Neighbour(String),
}

impl Neighbours {
    /// Whose client this is. `None`: nobody's, though its certificate is good.
    pub(super) fn whose(&self, connection: &ServerConnection) -> Option<GivenBy> {
        let name = local::given_by(connection.peer_certificates()?.first()?)?;
        Some(if name == self.own { GivenBy::Us } else { GivenBy::Neighbour(name) })
    }

    /// A connection to the neighbour of this name.
    ///
    /// # Errors
    /// When it is not there, in the first place.
    pub(super) async fn call(&self, name: &str) -> io::Result<UnixStream> {
        let neighbour = self.street.as_ref().and_then(|street| street.neighbour(name));
        peer::connect(&neighbour.ok_or(io::ErrorKind::NotFound)?.beside()).await
    }
}

/// The right to a port, which those who show the same certificate there have together. The kernel would deal out the clients
/// of others to them as well, who would not believe them.
///
/// It is a file that says who they are, and a shared lock on it for each. Whoever finds it without a lock may write it.
#[derive(Debug)]
struct Claim {
    street: Dir,
    name: String,
    file: File,
}

impl Claim {
    fn make(street: Dir, wanted: &Loopback) -> Result<Self, ServeError> {
        let Loopback { port, guise, authority } = wanted;
        let name = Dir::claim(*port);
        let theirs = who(*guise, authority);
        loop {
            let file = street.lock_file(&name)?;
            match Self::join(&file, &theirs) {
                // Who left last has taken it away.
                Ok(_) if !street.is_in_place(&name, &file) => {}
                Ok(true) => return Ok(Self { street, name, file }),
                Ok(false) => return Err(ServeError::OtherProxy { port: *port }),
                Err(error) => return Err(ServeError::Port { port: *port, reason: error.into() }),
            }
        }
    }

    /// Whether the file is theirs, with a shared lock on it. Nobody holds the other kind for longer than this takes.
    fn join(mut file: &File, theirs: &str) -> io::Result<bool> {
        if file.try_lock().is_ok() {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(theirs.as_bytes())?;
        }
        // If it was ours, then not for a moment: somebody else may have written it again.
        file.lock_shared()?;
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.take(theirs.len() as u64 + 1).read_to_end(&mut found)?;
        Ok(found == theirs.as_bytes())
    }
}

/// Takes the file away with the last of them.
impl Drop for Claim {
    fn drop(&mut self) {
        self.street.remove_unlocked(&self.name, &self.file);
    }
}

/// What clients see of those who listen.
fn who(guise: Guise, authority: &Authority) -> String {
    format!("{guise:?}\n{}", authority.certificate())
}
