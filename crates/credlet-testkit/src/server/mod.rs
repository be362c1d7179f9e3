//! A TLS API server that reports what it saw and misbehaves on request.
//!
//! Real sockets, real TLS (aws-lc-rs, passed explicitly), HTTP/2 and HTTP/1.1 by ALPN. Everybody is let in until the
//! test names a token or client to accept; from then on all others get 401.
//!
//! | path | answer |
//! |---|---|
//! | `/version`, `/readyz`, `/api/v1/namespaces` | as the real one's, in short |
//! | `/echo` | any method: the request as the server saw it, a [`Seen`] with `body` added |
//! | `/watch?interval_ms=100&count=3` | JSON lines; for ever without `count`, at once and every 100 ms by default |
//! | `POST /apis/authentication.k8s.io/v1/selfsubjectreviews` | who the server takes the client for |
//!
//! ```
//! use credlet_testkit::{ca::Ca, server::Server};
//!
//! let ca = Ca::new();
//! let server = Server::setup(&ca).start_in_thread();
//! server.accept_token("a token");
//! assert_eq!(server.counts().requests, 0);
//! ```

mod answer;
mod body;
mod control;
mod seen;
mod serve;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use hyper::Request;
use hyper::body::Incoming;
use tokio::sync::oneshot;

use crate::ca::{Ca, Identity};

pub use answer::Answering;
pub use body::AnyBody;
pub use control::{Counts, Order};
pub use seen::{Peer, Seen};
pub use tls::ClientCertificates;

use control::{Command, Cut, Shared};
use tls::Tls;

/// A running server and the control over it. Dropping it closes its port and all its connections: at once if it has a
/// thread of its own, else as soon as the runtime gets to it.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// # Starting and stopping it
impl Server {
    /// A server with a certificate from this authority, which accepts its client certificates too.
    pub fn setup(ca: &Ca) -> Setup {
        Setup {
            tls: Tls {
                identity: ca.server().issue(),
                client_roots: vec![ca.der()],
                client_certificates: ClientCertificates::Optional,
                alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
                tls12_only: false,
            },
            max_concurrent_streams: 250,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            endpoint: None,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as a kubeconfig has it.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Stops it and returns when port and connections are closed.
    pub async fn stop(mut self) {
        self.stop = None;
        // An error means it is gone already.
        let _ = (&mut self.stopped).await;
    }
}

/// # Whom it lets in
impl Server {
    /// Lets in whoever has this bearer token.
    pub fn accept_token(&self, token: impl Into<String>) {
        self.accept_token_as(token, "token-user");
    }

    /// Lets in whoever has this bearer token, as this user.
    pub fn accept_token_as(&self, token: impl Into<String>, username: impl Into<String>) {
        self.shared.access().tokens.insert(token.into(), username.into());
        self.shared.access().restricted = true;
    }

    /// No longer lets in whoever has this token.
    pub fn revoke_token(&self, token: &str) {
        self.shared.access().tokens.remove(token);
        self.shared.access().restricted = true;
    }

    /// Lets in whoever has a client certificate with this common name.
    pub fn accept_client(&self, common_name: impl Into<String>) {
        self.shared.access().clients.insert(common_name.into());
        self.shared.access().restricted = true;
    }

    /// No longer lets in whoever has a client certificate with this common name.
    pub fn revoke_client(&self, common_name: &str) {
        self.shared.access().clients.remove(common_name);
        self.shared.access().restricted = true;
    }

    /// Lets nobody in who was let in before.
    pub fn revoke_all(&self) {
        let mut access = self.shared.access();
        access.tokens.clear();
        access.clients.clear();
        access.restricted = true;
    }
}

/// # How it misbehaves
impl Server {
    /// Treats this many of the next requests so, after those with an earlier order. What it would have said otherwise,
    /// and whether the client may come in at all, does not matter then.
    pub fn next(&self, requests: usize, order: Order) {
        self.shared.orders().extend(std::iter::repeat_n(order, requests));
    }

    /// Forgets all orders that no request has met yet.
    pub fn clear_orders(&self) {
        self.shared.orders().clear();
    }

    /// Accepts connections but leaves the TLS handshake unanswered, until told `false`: then those that hang go on.
    pub fn hang_in_handshakes(&self, hang: bool) {
        self.shared.hanging.send_replace(hang);
    }

    /// Tells all connections to end once their open requests have: GOAWAY in HTTP/2, `connection: close` in HTTP/1.1.
    pub fn go_away(&self) {
        self.shared.tell_all(Command::GoAway);
    }

    /// Resets all connections.
    pub fn cut_all(&self) {
        self.shared.tell_all(Command::Cut(Cut::Reset));
    }

    /// Shows another certificate from the next handshake on. Tickets stay good: a client that resumes does not see it.
    pub fn rotate(&self, identity: Identity) {
        self.shared.rotate(identity);
    }
}

/// # What it saw
impl Server {
    /// The numbers so far.
    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Returns when the numbers fulfil a condition, with those that do. A limit is up to the caller.
    pub async fn until(&self, condition: impl FnMut(&Counts) -> bool) -> Counts {
        let mut condition = condition;
        let mut counts = self.shared.counts.subscribe();
        *counts.wait_for(|counts| condition(counts)).await.expect("the sender lives as long as this server")
    }

    /// All requests so far, in the order of their numbers.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.seen().clone()
    }

    /// The newest request.
    pub fn last_request(&self) -> Seen {
        self.shared.seen().last().cloned().expect("a request")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).field("counts", &self.counts()).finish()
    }
}

/// A server about to be started.
pub struct Setup {
    tls: Tls,
    max_concurrent_streams: u32,
    address: SocketAddr,
    endpoint: Option<answer::Endpoint>,
}

impl Setup {
    /// Another server certificate.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.tls.identity = identity;
        self
    }

    /// Another authority for client certificates.
    pub fn client_ca(mut self, ca: &Ca) -> Self {
        self.tls.client_roots = vec![ca.der()];
        self
    }

    /// Optional by default.
    pub fn client_certificates(mut self, client_certificates: ClientCertificates) -> Self {
        self.tls.client_certificates = client_certificates;
        self
    }

    /// What the server offers by ALPN, best first: `h2` and `http/1.1` by default. With none of them it speaks HTTP/1.1.
    pub fn alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a str>) -> Self {
        self.tls.alpn = protocols.into_iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// TLS 1.2 instead of 1.3.
    pub fn tls12_only(mut self) -> Self {
        self.tls.tls12_only = true;
        self
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS, 250 by default.
    pub fn max_concurrent_streams(mut self, limit: u32) -> Self {
        self.max_concurrent_streams = limit;
        self
    }

    /// Listens here instead of at a free port, for a server that comes back.
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Answers of the test's own, before the server's and only for those it lets in. A request that
    /// is not for it is given back: `Continue`.
    pub fn answering(
        mut self,
        own: impl Fn(Request<Incoming>) -> ControlFlow<Answering, Request<Incoming>> + Send + Sync + 'static,
    ) -> Self {
        self.endpoint = Some(Box::new(own));
        self
    }

    /// Runs on the tokio runtime of the caller.
    pub fn start(self) -> Server {
        let (server, serving) = self.prepare();
        tokio::spawn(serving);
        server
    }

    /// Runs on a thread and runtime of its own, so that a busy or paused test runtime does not hold it up.
    pub fn start_in_thread(self) -> Server {
        let (mut server, serving) = self.prepare();
        server.thread = Some(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serving);
        }));
        server
    }

    fn prepare(self) -> (Server, impl Future<Output = ()> + Send + 'static) {
        let listener = TcpListener::bind(self.address).expect("a port");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let address = listener.local_addr().expect("the address it is bound to");
        let shared = Arc::new(Shared::new(self.tls, self.max_concurrent_streams, self.endpoint));
        let (stop, stopping) = oneshot::channel();
        let (ended, stopped) = oneshot::channel();
        let serving = {
            let shared = Arc::clone(&shared);
            async move {
                serve::until_told(listener, shared, stopping).await;
                let _ = ended.send(());
            }
        };
        (Server { address, shared, stop: Some(stop), stopped, thread: None }, serving)
    }
}
