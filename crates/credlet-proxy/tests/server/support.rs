//! A proxy in this process, an API server behind it, and a minimal client.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use credlet_api::exec::{Cluster, ExecCredentialStatus};
use credlet_exec::Platform;
use credlet_http::{CryptoBackend, HttpCredential};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    ControlClient, ProxyServer, ServerOptions, ShutdownReason, SocketProtocol, UpstreamTarget,
};
use credlet_proxy::sign::{BodyDigest, BodyDigestRule, SignFuture, Signer};
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer as Upstream;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A configurable signer.
#[derive(Debug, Default)]
pub(crate) struct FakeSigner {
    pub(crate) credential: HttpCredential,
    pub(crate) rule: Option<BodyDigestRule>,
    pub(crate) signed: AtomicU64,
}

impl FakeSigner {
    pub(crate) fn token(token: &str) -> Self {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        Self { credential: HttpCredential::new(1, Some(value), None), ..Self::default() }
    }

    pub(crate) fn nothing() -> Self {
        Self { credential: HttpCredential::new(1, None, None), ..Self::default() }
    }
}

impl Signer for FakeSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async { Ok(self.credential.clone()) })
    }

    fn body(&self, _: &Parts) -> BodyDigestRule {
        self.rule.unwrap_or(BodyDigestRule::Stream)
    }

    fn sign<'a>(&'a self, head: &'a mut Parts, body: BodyDigest) -> SignFuture<'a, ()> {
        self.signed.fetch_add(1, Relaxed);
        let told = match body {
            BodyDigest::Unknown => "unknown".to_owned(),
            BodyDigest::Sha256(hash) => credlet_api::hex(hash),
        };
        if self.rule.is_some() {
            head.headers.insert("x-digest", HeaderValue::from_str(&told).unwrap());
        }
        Box::pin(async { Ok(()) })
    }
}

/// A running proxy.
pub(crate) struct TestProxy {
    pub(crate) home: tempfile::TempDir,
    pub(crate) dir: ProxyDir,
    pub(crate) authority: String,
    pub(crate) answer: ExecCredentialStatus,
    pub(crate) port: Option<u16>,
    pub(crate) running: JoinHandle<ShutdownReason>,
}

pub(crate) fn cluster(upstream: &Upstream, ca: &TestCa) -> Cluster {
    Cluster { server: upstream.url(), certificate_authority_data: ca.pem().into(), ..Cluster::default() }
}

pub(crate) fn target(cluster: &Cluster) -> UpstreamTarget {
    UpstreamTarget::new(cluster, CryptoBackend::aws_lc_rs(), &Platform::system()).unwrap()
}

impl TestProxy {
    /// On a plain socket, without leases.
    pub(crate) async fn start(signer: impl Signer + 'static, upstream: &Upstream, ca: &TestCa) -> Self {
        Self::start_with(signer, &cluster(upstream, ca), |options| options.socket_protocol = SocketProtocol::Plain)
            .await
    }

    pub(crate) async fn start_with(
        signer: impl Signer + 'static,
        cluster: &Cluster,
        adjust: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        // Private like the real directory, which port sharing requires.
        let alone = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let home = tempfile::Builder::new().permissions(alone).tempdir().unwrap();
        let dir = ProxyDir::open(home.path().join("d")).unwrap();
        let mut options = ServerOptions::new(target(cluster), dir.clone());
        options.heeds_signals = false;
        adjust(&mut options);
        let server = ProxyServer::bind(Arc::new(signer), options).await.unwrap();
        let (answer, port) = (server.credential_status().unwrap(), server.port());
        let authority = cluster.server.strip_prefix("https://").unwrap().to_owned();
        Self { home, dir, authority, answer, port, running: tokio::spawn(server.run()) }
    }

    pub(crate) fn control(&self) -> ControlClient {
        ControlClient::new(&self.dir).unwrap()
    }

    pub(crate) async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.dir.socket()).await.unwrap()
    }

    /// Opens an HTTP/1.1 connection.
    pub(crate) async fn speak(&self) -> SendRequest<AnyBody> {
        speak(self.connect().await).await
    }

    /// Sends one request on a new connection.
    pub(crate) async fn send(&self, request: Request<AnyBody>) -> Response<Incoming> {
        self.speak().await.send_request(request).await.unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Request<AnyBody> {
        Request::get(path).header("host", &self.authority).body(empty()).unwrap()
    }

    /// Sends raw bytes and returns everything until the proxy closes the connection.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        within(stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

pub(crate) async fn speak<S>(stream: S) -> SendRequest<AnyBody>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

pub(crate) fn empty() -> AnyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn whole(text: impl Into<Bytes>) -> AnyBody {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) async fn text(response: Response<Incoming>) -> String {
    let bytes = within(response.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap()
}

/// A lock file as a client holds it.
pub(crate) fn locked(dir: &std::path::Path, name: &str) -> (std::fs::File, PathBuf) {
    let path = dir.join(name);
    let file = std::fs::File::create(&path).unwrap();
    file.lock().unwrap();
    (file, path)
}
