//! A fake API server with TLS that records requests and injects faults.
//!
//! Real sockets, real TLS (aws-lc-rs, passed explicitly), HTTP/2 and HTTP/1.1 by ALPN. Every client is accepted until
//! the test names a token or a client certificate to accept; from then on all others get a 401.
//!
//! | path | response |
//! |---|---|
//! | `/version`, `/readyz`, `/api/v1/namespaces` | as kube-apiserver's, shortened |
//! | `/echo` | any method: the request as the server saw it, a [`SeenRequest`] with `body` added |
//! | `/watch?interval_ms=100&count=3` | JSON lines; endless without `count`, one at once and every 100 ms by default |
//! | `POST /apis/authentication.k8s.io/v1/selfsubjectreviews` | the authenticated user |
//!
//! ```
//! use credlet_testkit::{ca::TestCa, server::FakeApiServer};
//!
//! let ca = TestCa::new();
//! let server = FakeApiServer::setup(&ca).start_in_thread();
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

use crate::ca::{TestCa, TestIdentity};

pub use answer::ResponseFuture;
pub use body::AnyBody;
pub use control::{FaultOrder, ServerCounts};
pub use seen::{SeenRequest, TlsPeer};
pub use tls::ClientCertificates;

use control::{Command, Cut, Shared};
use tls::Tls;

/// Handle of a running server. Dropping it closes the port and all connections: at once if the server runs in its own thread,
/// else when the runtime polls it next.
pub struct FakeApiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Stops the server when dropped.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// # Lifecycle
impl FakeApiServer {
    /// Returns a builder for a server with a certificate of this CA, which also verifies client certificates.
    pub fn setup(ca: &TestCa) -> FakeApiServerBuilder {
        FakeApiServerBuilder {
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

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for a kubeconfig.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Stops the server. Returns when port and connections are closed.
    pub async fn stop(mut self) {
        self.stop = None;
        // An error means that it has stopped already.
        let _ = (&mut self.stopped).await;
    }
}

/// # Authentication
impl FakeApiServer {
    /// Accepts this bearer token.
    pub fn accept_token(&self, token: impl Into<String>) {
        self.accept_token_as(token, "token-user");
    }

    /// Accepts this bearer token as this user.
    pub fn accept_token_as(&self, token: impl Into<String>, username: impl Into<String>) {
        self.shared.access().tokens.insert(token.into(), username.into());
        self.shared.access().restricted = true;
    }

    /// Rejects this token from now on.
    pub fn revoke_token(&self, token: &str) {
        self.shared.access().tokens.remove(token);
        self.shared.access().restricted = true;
    }

    /// Accepts client certificates with this common name.
    pub fn accept_client(&self, common_name: impl Into<String>) {
        self.shared.access().clients.insert(common_name.into());
        self.shared.access().restricted = true;
    }

    /// Rejects client certificates with this common name from now on.
    pub fn revoke_client(&self, common_name: &str) {
        self.shared.access().clients.remove(common_name);
        self.shared.access().restricted = true;
    }

    /// Rejects every token and certificate that was accepted before.
    pub fn revoke_all(&self) {
        let mut access = self.shared.access();
        access.tokens.clear();
        access.clients.clear();
        access.restricted = true;
    }
}

/// # Fault injection
impl FakeApiServer {
    /// Injects this fault into the next `count` requests, after faults that were added earlier. It takes precedence over
    /// authentication and the normal response.
    pub fn next(&self, requests: usize, order: FaultOrder) {
        self.shared.orders().extend(std::iter::repeat_n(order, requests));
    }

    /// Removes all faults that have not been injected yet.
    pub fn clear_orders(&self) {
        self.shared.orders().clear();
    }

    /// Accepts connections without responding to the TLS handshake until called with `false`; then pending handshakes continue.
    pub fn hang_in_handshakes(&self, hang: bool) {
        self.shared.hanging.send_replace(hang);
    }

    /// Shuts all connections down gracefully: GOAWAY in HTTP/2, `connection: close` in HTTP/1.1.
    pub fn go_away(&self) {
        self.shared.tell_all(Command::GoAway);
    }

    /// Resets all connections.
    pub fn cut_all(&self) {
        self.shared.tell_all(Command::Cut(Cut::Reset));
    }

    /// Uses another certificate from the next full handshake on. Session tickets stay valid: a client that resumes does not see it.
    pub fn rotate(&self, identity: TestIdentity) {
        self.shared.rotate(identity);
    }
}

/// # Recorded requests
impl FakeApiServer {
    /// Returns the current counters.
    pub fn counts(&self) -> ServerCounts {
        *self.shared.counts.borrow()
    }

    /// Waits until the counters satisfy a condition, and returns them. The caller sets a timeout.
    pub async fn until(&self, condition: impl FnMut(&ServerCounts) -> bool) -> ServerCounts {
        let mut condition = condition;
        let mut counts = self.shared.counts.subscribe();
        *counts.wait_for(|counts| condition(counts)).await.expect("the sender lives as long as this server")
    }

    /// Returns all requests so far, in order.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.shared.seen().clone()
    }

    /// Returns the most recent request.
    pub fn last_request(&self) -> SeenRequest {
        self.shared.seen().last().cloned().expect("a request")
    }
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

impl fmt::Debug for FakeApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeApiServer").field("address", &self.address).field("counts", &self.counts()).finish()
    }
}

/// Settings of a server to start.
pub struct FakeApiServerBuilder {
    tls: Tls,
    max_concurrent_streams: u32,
    address: SocketAddr,
    endpoint: Option<answer::Endpoint>,
}

impl FakeApiServerBuilder {
    /// Sets the server certificate.
    pub fn identity(mut self, identity: TestIdentity) -> Self {
        self.tls.identity = identity;
        self
    }

    /// Sets the CA for client certificates.
    pub fn client_ca(mut self, ca: &TestCa) -> Self {
        self.tls.client_roots = vec![ca.der()];
        self
    }

    /// Sets how client certificates are treated. Default: optional.
    pub fn client_certificates(mut self, client_certificates: ClientCertificates) -> Self {
        self.tls.client_certificates = client_certificates;
        self
    }

    /// Sets the ALPN protocols, preferred first. Default: `h2`, `http/1.1`. Without any the server uses HTTP/1.1.
    pub fn alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a str>) -> Self {
        self.tls.alpn = protocols.into_iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Uses TLS 1.2 instead of 1.3.
    pub fn tls12_only(mut self) -> Self {
        self.tls.tls12_only = true;
        self
    }

    /// Sets SETTINGS_MAX_CONCURRENT_STREAMS. Default: 250.
    pub fn max_concurrent_streams(mut self, limit: u32) -> Self {
        self.max_concurrent_streams = limit;
        self
    }

    /// Listens on this address instead of a free port, to restart a server.
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Adds a handler that is called before the server's own, for authenticated requests only. It returns `Continue` with a
    /// request that it does not handle.
    pub fn answering(
        mut self,
        own: impl Fn(Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> + Send + Sync + 'static,
    ) -> Self {
        self.endpoint = Some(Box::new(own));
        self
    }

    /// Starts the server on the caller's tokio runtime.
    pub fn start(self) -> FakeApiServer {
        let (server, serving) = self.prepare();
        tokio::spawn(serving);
        server
    }

    /// Starts the server on a separate thread and runtime, so that a busy or paused test runtime does not block it.
    pub fn start_in_thread(self) -> FakeApiServer {
        let (mut server, serving) = self.prepare();
        server.thread = Some(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serving);
        }));
        server
    }

    fn prepare(self) -> (FakeApiServer, impl Future<Output = ()> + Send + 'static) {
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
        (FakeApiServer { address, shared, stop: Some(stop), stopped, thread: None }, serving)
    }
}
