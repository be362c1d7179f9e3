//! The server: TLS, connections, recorded requests, faults. The [`Handler`] produces the responses.

mod control;
mod counting_stream;
mod record;
mod request;
mod serve;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use rustls::server::VerifierBuilderError;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use self::control::{Fault, ServerCounts};
pub use self::record::{PeerCertificate, RecordedRequest};
pub use self::tls::ClientCertificates;

use self::control::{ConnectionCommand, CutMode, ServerSettings, SharedState};
use self::tls::TlsSettings;
use crate::authn::{AuthenticatedUser, Authenticator, AuthnFailure, ClusterAuthenticator};
use crate::ca::{CertificateAuthority, CertificateError, Identity};
use crate::resources::NamespaceApi;
use crate::response::ResponseBody;

/// Default time limit of the TLS handshake, and of the head of an HTTP/1.1 request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Default of kube-apiserver.
const MAX_STREAMS: u32 = 250;

/// The future of a response.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

/// Produces the responses to authenticated requests. Implemented by [`NamespaceApi`] and by async functions of these parameters.
///
/// A panic of a handler stops the server, and [`ApiServer::join`] returns an error.
pub trait Handler: Send + Sync + 'static {
    /// Returns the response to a request.
    fn handle(&self, request: Request<Incoming>, context: RequestContext) -> ResponseFuture;
}

impl<F, R> Handler for F
where
    F: Fn(Request<Incoming>, RequestContext) -> R + Send + Sync + 'static,
    R: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    fn handle(&self, request: Request<Incoming>, context: RequestContext) -> ResponseFuture {
        Box::pin(self(request, context))
    }
}

/// What the server knows about a request beside the request itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RequestContext {
    /// The request as recorded, with its connection and client certificate.
    pub record: RecordedRequest,
    /// The authenticated user.
    pub user: AuthenticatedUser,
}

/// A request and its result, for [`ApiServerBuilder::on_response`].
#[derive(Debug)]
#[non_exhaustive]
pub struct ResponseRecord<'a> {
    /// The request.
    pub request: &'a RecordedRequest,
    /// The authenticated user, or the reason of a `401`.
    pub user: Result<&'a AuthenticatedUser, AuthnFailure>,
    /// Status of the response.
    pub status: StatusCode,
}

type ResponseLog = dyn Fn(&ResponseRecord<'_>) + Send + Sync;

/// Failure to start a server or to change its certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is in use, or the thread or runtime could not be created.
    #[error("failed to open a listener")]
    Listen(#[from] io::Error),
    /// [`ApiServerBuilder::start`] was called outside of a tokio runtime.
    #[error("no tokio runtime")]
    NoRuntime,
    /// The server certificate could not be issued.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The certificate or its key is invalid.
    #[error("failed to configure TLS")]
    Tls(#[from] rustls::Error),
    /// The CA certificate is invalid.
    #[error("failed to build the client certificate verifier")]
    Verifier(#[from] VerifierBuilderError),
}

/// Handle of a running server. Dropping it closes the port and all connections: at once if the server runs in its own thread,
/// else when the runtime polls it next.
///
/// ```
/// use std::sync::Arc;
///
/// use credlet_apiserver::authn::CredentialAllowList;
/// use credlet_apiserver::ca::CertificateAuthority;
/// use credlet_apiserver::{ApiServer, Fault};
///
/// let ca = CertificateAuthority::new("test CA")?;
/// let credentials = Arc::new(CredentialAllowList::new());
/// let server = ApiServer::builder(&ca).authenticator(Arc::clone(&credentials)).start_in_thread()?;
/// credentials.accept_token("a token", "jane");
/// server.inject(1, Fault::Status(503));
/// // Send requests to `server.url()`, with `ca.pem()` as the trusted CA.
/// assert_eq!(server.requests(), []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ApiServer {
    address: SocketAddr,
    shared: Arc<SharedState>,
    /// Stops the server when dropped.
    stop: Option<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// # Lifecycle
impl ApiServer {
    /// Returns a builder for a server with a certificate of this CA, which also verifies client certificates.
    pub fn builder(ca: &CertificateAuthority) -> ApiServerBuilder<'_> {
        ApiServerBuilder {
            ca,
            client_ca: ca,
            identity: None,
            client_certificates: None,
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            tls12_only: false,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            authenticator: None,
            handler: None,
            log: None,
            record_requests: true,
            max_concurrent_streams: MAX_STREAMS,
            handshake_timeout: Some(HANDSHAKE_TIMEOUT),
        }
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL, the value of `server` in a kubeconfig.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Stops the server. Returns when port and connections are closed.
    pub async fn stop(mut self) {
        self.stop = None;
        // An error means that it has stopped already.
        let _ = (&mut self.stopped).await;
    }

    /// Stops a server that runs in its own thread and waits for the thread. Returns an error if a handler panicked. Returns at once if
    /// the server runs on the caller's runtime.
    pub fn join(mut self) -> std::thread::Result<()> {
        self.stop = None;
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

/// # Fault injection
impl ApiServer {
    /// Injects this fault into the next `count` requests, after faults that were added earlier. It takes precedence over
    /// authentication and the normal response.
    pub fn inject(&self, count: usize, fault: Fault) {
        self.shared.faults().extend(std::iter::repeat_n(fault, count));
    }

    /// Removes all faults that have not been injected yet.
    pub fn clear_faults(&self) {
        self.shared.faults().clear();
    }

    /// Accepts connections without responding to the TLS handshake until called with `false`; then pending handshakes continue.
    pub fn hold_handshakes(&self, hold: bool) {
        self.shared.holding_handshakes.send_replace(hold);
    }

    /// Shuts all connections down gracefully: GOAWAY in HTTP/2, `connection: close` in HTTP/1.1. A connection in its TLS handshake
    /// is shut down when the handshake is complete.
    pub fn go_away(&self) {
        self.shared.command_all(ConnectionCommand::GoAway);
    }

    /// Closes all TCP connections without a TLS or HTTP shutdown, as a killed process does. A connection in its TLS handshake is
    /// closed when the handshake is complete.
    pub fn close_connections(&self) {
        self.shared.command_all(ConnectionCommand::Cut(CutMode::Close));
    }

    /// Resets all TCP connections, those in the TLS handshake among them.
    pub fn reset_connections(&self) {
        self.shared.command_all(ConnectionCommand::Cut(CutMode::Reset));
    }

    /// Uses another certificate from the next full handshake on. Session tickets stay valid: a client that resumes does not see it.
    /// On an error the server keeps its certificate.
    pub fn rotate_certificate(&self, identity: Identity) -> Result<(), StartError> {
        self.shared.rotate(identity)
    }
}

/// # Recorded requests
impl ApiServer {
    /// Returns the current counters.
    pub fn counts(&self) -> ServerCounts {
        *self.shared.counts.borrow()
    }

    /// Waits until the counters satisfy a condition, and returns them. The caller sets a timeout.
    pub async fn wait_for(&self, mut condition: impl FnMut(&ServerCounts) -> bool) -> ServerCounts {
        let mut counts = self.shared.counts.subscribe();
        // The sender lives as long as this server, so that there is no error.
        counts.wait_for(|counts| condition(counts)).await.map_or_else(|_| self.counts(), |counts| *counts)
    }

    /// Returns all requests so far, in order. Empty if [recording](ApiServerBuilder::record_requests) is off.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.recorded().requests.clone()
    }

    /// Returns the most recent request.
    pub fn last_request(&self) -> Option<RecordedRequest> {
        self.shared.recorded().requests.last().cloned()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // `join` returns a panic; here the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("address", &self.address).field("counts", &self.counts()).finish()
    }
}

/// Settings of a server to start.
#[must_use = "the server runs from `start` on"]
pub struct ApiServerBuilder<'a> {
    ca: &'a CertificateAuthority,
    client_ca: &'a CertificateAuthority,
    identity: Option<Identity>,
    client_certificates: Option<ClientCertificates>,
    alpn: Vec<Vec<u8>>,
    tls12_only: bool,
    address: SocketAddr,
    authenticator: Option<Box<dyn Authenticator>>,
    handler: Option<Box<dyn Handler>>,
    log: Option<Box<ResponseLog>>,
    record_requests: bool,
    max_concurrent_streams: u32,
    handshake_timeout: Option<Duration>,
}

impl<'a> ApiServerBuilder<'a> {
    /// Sets the authentication. Default: a [`ClusterAuthenticator`], which accepts client certificates of the CA.
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Some(Box::new(authenticator));
        self
    }

    /// Sets the handler. Default: a [`NamespaceApi`] with the namespaces of a new cluster.
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Some(Box::new(handler));
        self
    }

    /// Sets a function that is called before each response is sent, except for injected faults.
    pub fn on_response(mut self, log: impl Fn(&ResponseRecord<'_>) + Send + Sync + 'static) -> Self {
        self.log = Some(Box::new(log));
        self
    }

    /// Sets whether requests are stored for [`ApiServer::requests`]. Default: true. Turn it off in a server that runs for long.
    pub fn record_requests(mut self, record: bool) -> Self {
        self.record_requests = record;
        self
    }

    /// Sets the server certificate. Default: one of the CA for 127.0.0.1 and localhost.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Sets the CA for client certificates. Default: the one of the server certificate.
    pub fn client_ca(mut self, ca: &'a CertificateAuthority) -> Self {
        self.client_ca = ca;
        self
    }

    /// Sets how the handshake treats client certificates. Default: [`ClientCertificates::Unverified`], as kube-apiserver, if the
    /// authenticator verifies certificates, else [`ClientCertificates::Optional`].
    pub fn client_certificates(mut self, client_certificates: ClientCertificates) -> Self {
        self.client_certificates = Some(client_certificates);
        self
    }

    /// Sets the ALPN protocols, preferred first. Default: `h2`, `http/1.1`. Without any the server uses HTTP/1.1.
    pub fn alpn<'s>(mut self, protocols: impl IntoIterator<Item = &'s str>) -> Self {
        self.alpn = protocols.into_iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Uses TLS 1.2 instead of 1.3.
    pub fn tls12_only(mut self) -> Self {
        self.tls12_only = true;
        self
    }

    /// Sets SETTINGS_MAX_CONCURRENT_STREAMS. Default: 250, as kube-apiserver.
    pub fn max_concurrent_streams(mut self, limit: u32) -> Self {
        self.max_concurrent_streams = limit;
        self
    }

    /// Sets the time limit of the TLS handshake, and of the head of an HTTP/1.1 request. `None` is unlimited. Default: 10 seconds.
    pub fn handshake_timeout(mut self, limit: Option<Duration>) -> Self {
        self.handshake_timeout = limit;
        self
    }

    /// Sets the address on which the server listens. Default: a free port on 127.0.0.1.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Starts the server on the caller's tokio runtime, which must have I/O and time enabled.
    pub fn start(self) -> Result<ApiServer, StartError> {
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (server, serving) = self.prepare()?;
        runtime.spawn(serving);
        Ok(server)
    }

    /// Starts the server on a separate thread and runtime, so that a busy or paused runtime of a test does not block it.
    pub fn start_in_thread(self) -> Result<ApiServer, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut server, serving) = {
            let _entered = runtime.enter();
            self.prepare()?
        };
        let thread = std::thread::Builder::new().name("apiserver".into());
        server.thread = Some(thread.spawn(move || runtime.block_on(serving))?);
        Ok(server)
    }

    /// Opens the listener, in the context of the runtime that will serve it.
    fn prepare(self) -> Result<(ApiServer, impl Future<Output = ()> + Send + 'static), StartError> {
        let identity = match self.identity {
            Some(identity) => identity,
            None => self.ca.server().issue()?,
        };
        let authenticator: Box<dyn Authenticator> = match self.authenticator {
            Some(authenticator) => authenticator,
            None => Box::new(ClusterAuthenticator::new(self.client_ca)?),
        };
        let default = if authenticator.verifies_certificates() {
            ClientCertificates::Unverified
        } else {
            ClientCertificates::Optional
        };
        let tls = TlsSettings {
            identity,
            client_root: self.client_ca.der(),
            client_certificates: self.client_certificates.unwrap_or(default),
            alpn: self.alpn,
            tls12_only: self.tls12_only,
        };
        let settings = ServerSettings {
            authenticator,
            handler: self.handler.unwrap_or_else(|| Box::new(NamespaceApi::new(Arc::clone(self.ca.clock())))),
            log: self.log,
            record_requests: self.record_requests,
            max_concurrent_streams: self.max_concurrent_streams,
            handshake_timeout: self.handshake_timeout,
        };
        let shared = Arc::new(SharedState::new(tls, settings)?);
        let listener = std::net::TcpListener::bind(self.address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let (stop, stopping) = oneshot::channel();
        let (ended, stopped) = oneshot::channel();
        let serving = {
            let shared = Arc::clone(&shared);
            async move {
                serve::serve(listener, shared, stopping).await;
                let _ = ended.send(());
            }
        };
        Ok((ApiServer { address, shared, stop: Some(stop), stopped, thread: None }, serving))
    }
}

impl fmt::Debug for ApiServerBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServerBuilder").field("address", &self.address).finish_non_exhaustive()
    }
}
