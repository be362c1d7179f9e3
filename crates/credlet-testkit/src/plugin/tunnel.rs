//! A proxy that a plugin becomes or starts. It forwards bytes from its socket to the server, over TLS with a client certificate.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::ca::{TestCa, TestIdentity};
use crate::server::FakeApiServer;

/// Address and upstream of a proxy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TunnelProxy {
    socket: PathBuf,
    mode: u32,
    server: SocketAddr,
    server_authority: String,
    identity: Pair,
    /// TLS on the socket: server identity and the CA of accepted clients.
    local: Option<(Pair, String)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pair {
    certificate: String,
    key: String,
}

impl From<&TestIdentity> for Pair {
    fn from(identity: &TestIdentity) -> Self {
        Self { certificate: identity.cert_pem().to_owned(), key: identity.key_pem().to_owned() }
    }
}

impl TunnelProxy {
    /// Forwards from a socket in `dir`, an existing private directory, to `server`, with the client certificate `identity`.
    pub fn new(dir: &Path, server: &FakeApiServer, ca: &TestCa, identity: &TestIdentity) -> Self {
        Self {
            socket: dir.join("s.sock"),
            mode: 0o600,
            server: server.address(),
            server_authority: ca.pem().to_owned(),
            identity: identity.into(),
            local: None,
        }
    }

    /// Uses TLS on the socket and accepts only clients with a certificate of `ca`.
    pub fn with_tls(mut self, identity: &TestIdentity, ca: &TestCa) -> Self {
        self.local = Some((identity.into(), ca.pem().to_owned()));
        self
    }

    /// Sets the mode of the socket.
    pub fn with_mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The URL of the socket, as a plugin prints it.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Listens and serves until the process exits.
    pub(super) fn start(&self) -> io::Result<()> {
        // A killed proxy leaves its socket behind.
        let _ = std::fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket)?;
        std::fs::set_permissions(&self.socket, std::fs::Permissions::from_mode(self.mode))?;
        listener.set_nonblocking(true)?;
        let (server, upstream, local) = (self.server, self.upstream()?, self.local()?);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::from_std(listener).expect("a listener");
                while let Ok((stream, _)) = listener.accept().await {
                    let (upstream, local) = (upstream.clone(), local.clone());
                    tokio::spawn(async move {
                        let served = match local {
                            Some(local) => match local.accept(stream).await {
                                Ok(stream) => pass_on(stream, server, upstream).await,
                                Err(error) => Err(error),
                            },
                            None => pass_on(stream, server, upstream).await,
                        };
                        // Tests close one side in the middle of a request.
                        drop(served);
                    });
                }
            });
        });
        Ok(())
    }

    fn upstream(&self) -> io::Result<TlsConnector> {
        let (chain, key) = self.identity.read()?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(&self.server_authority)?)
            .with_client_auth_cert(chain, key)
            .map_err(io::Error::other)?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn local(&self) -> io::Result<Option<TlsAcceptor>> {
        let Some((pair, authority)) = &self.local else { return Ok(None) };
        let (chain, key) = pair.read()?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authority)?), provider())
            .build()
            .map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(io::Error::other)?;
        Ok(Some(TlsAcceptor::from(Arc::new(config))))
    }
}

async fn pass_on(
    mut local: impl AsyncRead + AsyncWrite + Unpin,
    server: SocketAddr,
    upstream: TlsConnector,
) -> io::Result<()> {
    let tcp = TcpStream::connect(server).await?;
    tcp.set_nodelay(true)?;
    let mut remote = upstream.connect(ServerName::from(server.ip()), tcp).await?;
    copy_bidirectional(&mut local, &mut remote).await.map(drop)
}

impl Pair {
    fn read(&self) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect::<Result<_, _>>();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        Ok((chain.map_err(io::Error::other)?, key.map_err(io::Error::other)?))
    }
}

fn roots(pem: &str) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(io::Error::other)?;
    roots.add(authority).map_err(io::Error::other)?;
    Ok(roots)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
