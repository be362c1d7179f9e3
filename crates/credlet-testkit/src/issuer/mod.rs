//! A fake OpenID Connect issuer on loopback, over HTTP or TLS. It records requests and misbehaves on request.
//!
//! It supports the grants `authorization_code` (with PKCE), `refresh_token` (each token is valid once), `client_credentials` and
//! device code, and revocation. A login needs no interaction.

mod endpoints;
mod form;
mod id_token;

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use crate::ca::TestCa;
use crate::logs::LeakCheck;

pub use form::parse_form;

use id_token::SigningKeys;

/// The user code in `verification_uri_complete`.
pub const USER_CODE: &str = "WDJB-MJHT";

/// Misbehaviour of the issuer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the variants say what is wrong")]
pub enum IssuerFault {
    #[default]
    None,
    /// The discovery document names another issuer.
    OtherIssuer,
    // Discovery.
    DiscoveryHtml,
    DiscoveryHuge,
    DiscoveryHangs,
    Discovery500,
    // Redirect.
    Iss,
    NoIss,
    Denied,
    TwoCodes,
    /// The code is rejected as already used.
    UsedCode,
    // Token response.
    TokenHtml,
    NoIdToken,
    // ID token.
    Nonce,
    Issuer,
    Audience,
    Azp,
    Expired,
    NotYet,
    AlgNone,
    Hmac,
    OtherKey,
    Changed,
    OtherSubject,
}

/// A response in place of the usual one.
#[derive(Clone, Debug)]
pub enum ResponseOverride {
    /// Status and body.
    Respond(u16, Bytes),
    /// Status 307 with this `Location`.
    RedirectTo(String),
    /// Of the token endpoint: the client's secret is accepted in the form only.
    SecretInForm,
    /// No response.
    Hang,
}

/// A request that the issuer received.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IssuerRequest {
    /// The path.
    pub path: String,
    /// The decoded query.
    pub query: HashMap<String, String>,
    /// The headers.
    pub headers: HeaderMap,
    /// The decoded body.
    pub form: HashMap<String, String>,
}

impl IssuerRequest {
    /// The `Authorization` header.
    pub fn authorization(&self) -> Option<&str> {
        self.headers.get("authorization").map(|value| value.to_str().expect("a text"))
    }
}

/// Tokens and settings of the issuer.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct IssuerState {
    /// Fault of the responses.
    pub fault: IssuerFault,
    /// Valid refresh tokens of logins.
    pub refresh_tokens: Vec<String>,
    /// Revoked tokens.
    pub revoked: Vec<String>,
    /// Errors for the next polls of a device; then tokens.
    pub device_errors: Vec<&'static str>,
    /// Lifetime of ID tokens in seconds; an hour by default.
    pub lifetime: Option<i64>,
    /// Clock offset in seconds.
    pub ahead: i64,
    /// The email address in ID tokens.
    pub account: Option<String>,
    /// Whether responses have no refresh token.
    pub without_refresh_tokens: bool,
    /// Whether tokens are issued only after the page for the device code was opened.
    pub waits_for_code: bool,
    /// The token of `client_credentials`; a new one each time by default.
    pub access_token: Option<String>,
    /// Code → the query of the login.
    codes: HashMap<String, HashMap<String, String>>,
    /// Refresh token → response.
    grants: HashMap<String, RefreshGrant>,
    /// By path.
    overrides: HashMap<String, ResponseOverride>,
}

/// The response to one refresh token.
#[derive(Debug)]
struct RefreshGrant {
    id_token: Option<String>,
    refresh_token: Option<String>,
}

/// The only client that may use the token endpoint.
#[derive(Debug)]
struct RegisteredClient {
    basic: String,
    secret: String,
}

/// A running issuer. Its thread ends with the test process.
#[derive(Clone, Debug)]
pub struct FakeIssuer {
    url: String,
    /// Notified when a request for the discovery document hangs.
    pub hanging: Arc<Notify>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<IssuerState>,
    requests: watch::Sender<Vec<IssuerRequest>>,
    /// Whether token requests wait.
    paused: watch::Sender<bool>,
    /// Notified when the page for the device code is opened.
    code_entered: Notify,
    keys: SigningKeys,
    client: Option<RegisteredClient>,
    watch: Arc<LeakCheck>,
}

impl FakeIssuer {
    /// Starts an issuer over HTTP. Its secrets belong to `watch`, which its thread holds: the test calls [`LeakCheck::leaks`].
    pub fn start(watch: &Arc<LeakCheck>) -> Self {
        Self::serve(None, None, Arc::clone(watch))
    }

    /// Starts an issuer over TLS with a certificate of `ca`.
    pub fn start_with_tls(ca: &TestCa) -> Self {
        Self::serve(Some(acceptor(ca)), None, Arc::default())
    }

    /// Starts an issuer over TLS that requires this client and its secret at the token endpoint. Its error responses repeat the
    /// request, secrets included.
    pub fn start_with_client(ca: &TestCa, client_id: &str, secret: &str) -> Self {
        let basic = STANDARD.encode(format!("{client_id}:{}", secret.replace('+', "%2B")));
        let client = RegisteredClient { basic: format!("Basic {basic}"), secret: secret.to_owned() };
        Self::serve(Some(acceptor(ca)), Some(client), Arc::default())
    }

    fn serve(tls: Option<TlsAcceptor>, client: Option<RegisteredClient>, watch: Arc<LeakCheck>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Shared {
            state: Mutex::default(),
            requests: watch::Sender::default(),
            paused: watch::Sender::default(),
            code_entered: Notify::new(),
            keys: SigningKeys::generate(),
            client,
            watch,
        };
        let issuer = Self {
            url: format!("{scheme}://{}", listener.local_addr().expect("an address")),
            hanging: Arc::default(),
            shared: Arc::new(shared),
        };
        let served = issuer.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(served.accept(listener, tls));
        });
        issuer
    }

    /// The issuer URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Locks the state. Requests wait until the guard is dropped.
    pub fn state(&self) -> MutexGuard<'_, IssuerState> {
        self.shared.state.lock().expect("not poisoned")
    }

    /// Sets the fault of the following responses.
    pub fn fail(&self, fault: IssuerFault) {
        self.state().fault = fault;
    }

    /// Makes a refresh token valid once, with these tokens in the response.
    pub fn grant(&self, refresh_token: &str, id_token: Option<&str>, next: Option<&str>) {
        let grant = RefreshGrant { id_token: id_token.map(str::to_owned), refresh_token: next.map(str::to_owned) };
        self.state().grants.insert(refresh_token.to_owned(), grant);
    }

    /// Replaces the responses to requests for this path.
    pub fn override_response(&self, path: &str, response: ResponseOverride) {
        self.state().overrides.insert(path.to_owned(), response);
    }

    /// Makes token requests wait, until it is called with `false`.
    pub fn pause(&self, paused: bool) {
        self.shared.paused.send_replace(paused);
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<IssuerRequest> {
        self.shared.requests.borrow().clone()
    }

    /// Returns the requests for this path.
    pub fn requests_for(&self, path: &str) -> Vec<IssuerRequest> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }

    /// Returns the number of requests for this path.
    pub fn seen(&self, path: &str) -> usize {
        self.shared.requests.borrow().iter().filter(|request| request.path == path).count()
    }

    /// Waits until the requests satisfy the condition. The caller sets a timeout.
    pub async fn until(&self, mut holds: impl FnMut(&[IssuerRequest]) -> bool) {
        let mut requests = self.shared.requests.subscribe();
        requests.wait_for(|requests| holds(requests)).await.expect("the issuer holds the sender");
    }

    async fn accept(self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            let (issuer, tls) = (self.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => issuer.converse(stream).await,
                    // The client may reject the certificate.
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => issuer.converse(stream).await,
                        Err(error) => drop(error),
                    },
                }
            });
        }
    }

    /// Serves one connection.
    async fn converse(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = service_fn(|request| self.respond(request));
        // The client may close the connection at any time.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

type IssuerResponse = Response<Full<Bytes>>;

fn acceptor(ca: &TestCa) -> TlsAcceptor {
    let identity = ca.server().issue();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of the provider")
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert_der()], identity.key_der())
        .expect("a matching key");
    TlsAcceptor::from(Arc::new(config))
}
