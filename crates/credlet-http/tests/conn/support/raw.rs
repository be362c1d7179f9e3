//! A server that writes HTTP/2 frame by frame, from a script per connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use credlet_testkit::ca::TestCa;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) struct RawServer {
    pub(crate) ca: TestCa,
    pub(crate) at: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl RawServer {
    /// Runs the script for each connection, with its number from 1. The connection is dropped at the end of the script,
    /// without close_notify.
    pub(crate) async fn start<F: Future<Output = ()> + Send + 'static>(
        script: impl Fn(usize, Conn) -> F + Send + Sync + 'static,
    ) -> Self {
        let (ca, accepted, script) = (TestCa::new(), Arc::new(AtomicUsize::new(0)), Arc::new(script));
        let own = ca.server().issue();
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert_der()], own.key_der())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let count = accepted.clone();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, SeqCst) + 1;
                let (acceptor, script) = (acceptor.clone(), script.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(tcp).await {
                        script(number, Conn { stream }).await;
                    }
                });
            }
        });
        Self { ca, at, accepted }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.at)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

pub(crate) struct Conn {
    pub(crate) stream: TlsStream<TcpStream>,
}

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;

impl Conn {
    /// Reads the preface and sends SETTINGS with this stream limit.
    pub(crate) async fn hello(&mut self, streams: u32) {
        let mut preface = [0; 24];
        self.stream.read_exact(&mut preface).await.unwrap();
        self.settings(streams).await;
    }

    pub(crate) async fn settings(&mut self, streams: u32) {
        let mut payload = vec![0, 3];
        payload.extend(streams.to_be_bytes());
        self.write(SETTINGS, 0, 0, &payload).await;
    }

    /// Waits for the next request, responds to other frames, and returns its stream. `None`: the client closed.
    pub(crate) async fn request(&mut self) -> Option<u32> {
        loop {
            let (frame, payload) = self.read().await?;
            match frame.kind {
                HEADERS => return Some(frame.stream),
                SETTINGS if frame.flags & 1 == 0 => self.write(SETTINGS, 1, 0, &[]).await,
                PING if frame.flags & 1 == 0 => self.write(PING, 1, 0, &payload).await,
                _ => {}
            }
        }
    }

    /// Sends status 200, and the body unless it is sent later.
    pub(crate) async fn answer(&mut self, stream: u32, body: Option<&[u8]>) {
        // `:status: 200` in the static table of HPACK.
        self.write(HEADERS, 4, stream, &[0x88]).await;
        if let Some(body) = body {
            self.write(DATA, 1, stream, body).await;
        }
    }

    pub(crate) async fn data(&mut self, stream: u32, body: &[u8]) {
        self.write(DATA, 0, stream, body).await;
    }

    pub(crate) async fn reset(&mut self, stream: u32, code: u32) {
        self.write(RESET, 0, stream, &code.to_be_bytes()).await;
    }

    pub(crate) async fn goaway(&mut self, last: u32, code: u32) {
        self.write(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat()).await;
    }

    /// Responds to all requests.
    pub(crate) async fn be_good(&mut self) {
        while let Some(stream) = self.request().await {
            self.answer(stream, Some(b"good")).await;
        }
    }

    /// Reads until the client closes, without a response.
    pub(crate) async fn be_silent(&mut self) {
        while self.read().await.is_some() {}
    }

    /// Sends close_notify.
    pub(crate) async fn close(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    async fn read(&mut self) -> Option<(Frame, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((Frame { kind: head[3], flags: head[4], stream }, payload))
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        // The client may have closed already.
        let _ = self.stream.write_all(&frame).await;
        let _ = self.stream.flush().await;
    }
}
