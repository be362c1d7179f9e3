//! A fake API server with TLS that records requests and injects faults.
//!
//! An [`ApiServer`] of `credlet-apiserver` with endpoints for tests, and panics instead of errors. Every client is accepted until
//! the test names a token or a client certificate to accept; from then on all others get a 401.
//!
//! | path | response |
//! |---|---|
//! | `/version`, `/readyz`, `/api/v1/namespaces` | as kube-apiserver's, shortened |
//! | `/echo` | any method: the request as the server saw it, a [`RecordedRequest`] with `body` added |
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

mod endpoints;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

use credlet_apiserver::authn::CredentialAllowList;
use credlet_apiserver::{ApiServer, ApiServerBuilder, StartError};
use hyper::Request;
use hyper::body::Incoming;

use crate::ca::{TestCa, TestIdentity};

pub use credlet_apiserver::response::ResponseBody;
pub use credlet_apiserver::{
    ClientCertificates, Fault, Handler, RecordedRequest, RequestContext, ResponseFuture, ServerCounts,
};

use endpoints::TestEndpoints;

/// Handle of a running server. Dropping it closes the port and all connections: at once if the server runs in its own thread,
/// else when the runtime polls it next.
pub struct FakeApiServer {
    /// `None` while it is dropped.
    server: Option<ApiServer>,
    credentials: Arc<CredentialAllowList>,
}

/// # Lifecycle
impl FakeApiServer {
    /// Returns a builder for a server with a certificate of this CA, which also verifies client certificates.
    pub fn setup(ca: &TestCa) -> FakeApiServerBuilder<'_> {
        // Without a timer, so that a runtime with paused time does not end a pending handshake.
        let server = ApiServer::builder(ca.authority()).handshake_timeout(None);
        FakeApiServerBuilder(server.handler(TestEndpoints { own: None }))
    }

    /// Stops the server. Returns when port and connections are closed.
    pub async fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }

    /// Returns the most recent request.
    pub fn last_request(&self) -> RecordedRequest {
        ApiServer::last_request(self).expect("a request")
    }
}

/// Recorded requests and fault injection.
impl Deref for FakeApiServer {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        self.server.as_ref().expect("a server until it is dropped")
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
        self.credentials.accept_token(token, username);
    }

    /// Rejects this token from now on.
    pub fn revoke_token(&self, token: &str) {
        self.credentials.revoke_token(token);
    }

    /// Accepts client certificates with this common name.
    pub fn accept_client(&self, common_name: impl Into<String>) {
        self.credentials.accept_client(common_name);
    }

    /// Rejects client certificates with this common name from now on.
    pub fn revoke_client(&self, common_name: &str) {
        self.credentials.revoke_client(common_name);
    }

    /// Rejects every token and certificate that was accepted before.
    pub fn revoke_all(&self) {
        self.credentials.revoke_all();
    }
}

impl Drop for FakeApiServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let ended = server.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

impl fmt::Debug for FakeApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeApiServer").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Settings of a server to start.
pub struct FakeApiServerBuilder<'a>(ApiServerBuilder<'a>);

impl<'a> FakeApiServerBuilder<'a> {
    /// Sets the server certificate.
    pub fn identity(self, identity: TestIdentity) -> Self {
        Self(self.0.identity(identity))
    }

    /// Sets how client certificates are treated. Default: optional.
    pub fn client_certificates(self, client_certificates: ClientCertificates) -> Self {
        Self(self.0.client_certificates(client_certificates))
    }

    /// Sets the ALPN protocols, preferred first. Default: `h2`, `http/1.1`. Without any the server uses HTTP/1.1.
    pub fn alpn<'s>(self, protocols: impl IntoIterator<Item = &'s str>) -> Self {
        Self(self.0.alpn(protocols))
    }

    /// Uses TLS 1.2 instead of 1.3.
    pub fn tls12_only(self) -> Self {
        Self(self.0.tls12_only())
    }

    /// Sets SETTINGS_MAX_CONCURRENT_STREAMS. Default: 250.
    pub fn max_concurrent_streams(self, limit: u32) -> Self {
        Self(self.0.max_concurrent_streams(limit))
    }

    /// Listens on this address instead of a free port, to restart a server.
    pub fn at(self, address: SocketAddr) -> Self {
        Self(self.0.bind(address))
    }

    /// Adds a handler that is called before the server's own, for authenticated requests only. It returns `Continue` with a
    /// request that it does not handle.
    pub fn answering(
        self,
        own: impl Fn(Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> + Send + Sync + 'static,
    ) -> Self {
        self.handler(TestEndpoints { own: Some(Box::new(own)) })
    }

    /// Sets a handler that replaces all endpoints of this module.
    pub fn handler(self, handler: impl Handler) -> Self {
        Self(self.0.handler(handler))
    }

    /// Starts the server on the caller's tokio runtime.
    pub fn start(self) -> FakeApiServer {
        self.start_with(ApiServerBuilder::start)
    }

    /// Starts the server on a separate thread and runtime, so that a busy or paused test runtime does not block it.
    pub fn start_in_thread(self) -> FakeApiServer {
        self.start_with(ApiServerBuilder::start_in_thread)
    }

    fn start_with(self, start: fn(ApiServerBuilder<'a>) -> Result<ApiServer, StartError>) -> FakeApiServer {
        let credentials = Arc::new(CredentialAllowList::new());
        let server = self.0.authenticator(Arc::clone(&credentials));
        FakeApiServer { server: Some(start(server).expect("a running server")), credentials }
    }
}
