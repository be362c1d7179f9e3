//! The web server on this machine that sends the browser to the issuer and receives the redirect.
//!
//! # Threat model
//!
//! Other users of this machine can connect to the port, listen on other ports, and read the browser's command line. Web pages
//! can send the browser to the port, also under their own host name (DNS rebinding). Neither may receive the login, complete it
//! with another account, or abort it:
//!
//! 1. **All addresses of the redirect host are bound** (`listener.rs`), so the browser cannot reach another listener.
//! 2. **Connections of other users are closed** before a byte is read, and callbacks are checked again. The kernel
//!    reports the owner of a loopback connection.
//! 3. **One browser claims the login.** The browser is started with `http://127.0.0.1:PORT/login/TOKEN`. That page leads to the
//!    redirect URI with `?credlet-login=TOKEN`, which sets a cookie and leads to the issuer. The first browser there claims the
//!    login; afterwards only a browser with the cookie is sent on, for example when the page is reloaded. Nothing else hands
//!    out the state, the nonce and the PKCE pkce_challenge.
//! 4. **A callback counts with the cookie and the state.** Any other request gets an error page and changes nothing: the login
//!    continues until its timeout.
//!
//! The cookie must be set by the redirect host: the browser does not send a cookie of `127.0.0.1` to `localhost`, hence the second
//! step. It uses the redirect URI itself, because that URL is known to reach this server, also through a reverse proxy.
//! `SameSite=Lax`, because the redirect is a top-level navigation from the issuer's site, with which `Strict` cookies are not
//! sent. Cookies are not separated by port, so its name contains the port: concurrent logins do not overwrite each other's cookie.
//!
//! The token is in the browser's command line, which other users can read. It protects against web pages; the owner check
//! protects against other users, where the kernel reports owners (Linux). The alternative, a private file with a redirect
//! that is opened by a `file:` URL, keeps the token off the command line, but browsers in a snap or flatpak cannot read it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use credlet_api::Secret;
use credlet_http::is_loopback;
use credlet_platform::peer::PeerOwner;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::callback_query::CallbackQuery;
use super::listener::{LoopbackListener, LoopbackPeer};
use super::result_page::ResultPage;
use super::settings::RedirectTarget;
use super::{OidcError, random};

/// Time limit for sending the last page to the browser.
const LAST_PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for a connection to send its request. Browsers open connections ahead of use.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of connections. Beyond it the oldest is closed, so that idle ones never block the callback.
const MAX_CONNECTIONS: usize = 64;

/// Delay after a failed `accept`, for example without free file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Maximum size of a request head.
const MAX_HEAD: usize = 64 << 10;

/// Prefix of the start page's path; the token follows.
const START_PATH: &str = "/login/";

/// Query parameter with which the browser claims the login.
const LOGIN_PARAMETER: &str = "credlet-login";

/// The bound port of a login, before it serves requests.
pub(super) struct LoopbackServer {
    listener: LoopbackListener,
    redirect: RedirectTarget,
    token: Secret,
}

impl LoopbackServer {
    /// Binds the first port of `listen` that is free on all addresses of the redirect host.
    pub(super) async fn bind(listen: &[std::net::SocketAddr], redirect: &RedirectTarget) -> Result<Self, OidcError> {
        let listener = LoopbackListener::bind(listen, redirect).await?;
        Ok(Self { listener, redirect: redirect.clone(), token: random::random_token()? })
    }

    /// The redirect URI for the issuer.
    pub(super) fn redirect_uri(&self) -> String {
        match &self.redirect {
            RedirectTarget::Host(host) => format!("http://{host}:{}", self.listener.port()),
            RedirectTarget::Url(url) => url.clone(),
        }
    }

    /// Returns the URL that the browser opens. It has a literal address, which needs no name resolution, and none of the login's
    /// secrets, because other users can read it in the list of processes.
    pub(super) fn start_url(&self) -> String {
        format!("http://{}{START_PATH}{}", self.listener.browser_address(), self.token.expose())
    }

    /// Serves until the result is dropped or closed: sends one browser to `target`, and accepts a callback with `state`.
    /// Without a `state` there is no callback.
    pub(super) fn serve(self, target: HeaderValue, state: Option<Secret>) -> Result<CallbackReceiver, OidcError> {
        let (callbacks, incoming) = mpsc::channel(1);
        let (rejected, first_rejected) = oneshot::channel();
        let redirect_uri = self.redirect_uri();
        let url: Option<Uri> = redirect_uri.parse().ok();
        let host = url.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let path = url.as_ref().map(Uri::path).filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
        let query = if redirect_uri.contains('?') { '&' } else { '?' };
        // A URL with a query and without a path is valid, but some clients reject it.
        let slash = if path == "/" && !redirect_uri.ends_with('/') && query == '?' { "/" } else { "" };
        let token = self.token.expose();
        let claim_url = format!("{redirect_uri}{slash}{query}{LOGIN_PARAMETER}={token}");
        let server = LoopbackState {
            claim_url: HeaderValue::from_str(&claim_url).map_err(|_| OidcError::InvalidFlag {
                flag: "--oidc-redirect-url",
                reason: "contains characters that are not valid in a URL",
            })?,
            token: self.token,
            cookie_name: format!("credlet-login-{}", self.listener.port()),
            cookie: random::random_token()?,
            target,
            claimed: AtomicBool::new(false),
            host,
            path,
            state,
            callbacks,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(self.listener, Arc::new(server), rejected));
        Ok(CallbackReceiver { incoming, rejected: Some(first_rejected), tasks })
    }
}

/// An event on the port of a login.
pub(super) enum LoopbackEvent {
    /// The browser that claimed the login was redirected back with the state.
    LoginCallback(LoginCallback),
    /// A connection of the other user with this uid was rejected. Reported once.
    ConnectionRejected(u32),
}

/// Receives the events of a login. Dropping it stops the server.
pub(super) struct CallbackReceiver {
    incoming: mpsc::Receiver<LoginCallback>,
    rejected: Option<oneshot::Receiver<u32>>,
    tasks: JoinSet<()>,
}

impl CallbackReceiver {
    /// Waits for the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> LoopbackEvent {
        let Self { incoming, rejected, .. } = self;
        let first_rejected = async {
            let Some(receiver) = rejected.as_mut() else { return std::future::pending().await };
            let uid = receiver.await;
            *rejected = None;
            match uid {
                Ok(uid) => uid,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(callback) = incoming.recv() => LoopbackEvent::LoginCallback(callback),
            uid = first_rejected => LoopbackEvent::ConnectionRejected(uid),
        }
    }

    /// Waits until the last page has been sent, and stops listening.
    pub(super) async fn close(mut self, sent: oneshot::Receiver<()>) {
        let _ = tokio::time::timeout(LAST_PAGE_TIMEOUT, sent).await;
        self.tasks.abort_all();
    }
}

/// A callback of the browser that claimed the login. The browser waits for the reply.
pub(super) struct LoginCallback {
    pub(super) query: CallbackQuery,
    reply_sender: oneshot::Sender<(CallbackReply, oneshot::Sender<()>)>,
}

/// The response to a callback.
pub(super) enum CallbackReply {
    ResultPage(ResultPage),
    /// A redirect to another page.
    Redirect(HeaderValue),
}

impl LoginCallback {
    /// Sends the response. The receiver resolves when it has been written.
    pub(super) fn reply(self, reply: CallbackReply) -> oneshot::Receiver<()> {
        let (sent, seen) = oneshot::channel();
        // A browser that has closed the connection needs no page.
        let _ = self.reply_sender.send((reply, sent));
        seen
    }
}

async fn accept(mut listener: LoopbackListener, server: Arc<LoopbackState>, rejected: oneshot::Sender<u32>) {
    let mut rejected = Some(rejected);
    let mut connections = ConnectionTasks::default();
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "failed to accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let peer = match LoopbackPeer::check(&stream) {
            Ok(peer) => peer,
            Err(owner) => {
                tracing::debug!(?owner, "rejected a connection of another user to the login");
                if let PeerOwner::User(uid) = owner
                    && let Some(rejected) = rejected.take()
                {
                    let _ = rejected.send(uid);
                }
                reset(stream);
                continue;
            }
        };
        connections.spawn(serve_connection(stream, peer, Arc::clone(&server)));
    }
}

/// The connections of a login, closed on drop.
#[derive(Default)]
struct ConnectionTasks {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<AbortHandle>,
}

impl ConnectionTasks {
    /// Serves a connection. Closes the oldest one if there are too many.
    fn spawn(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.oldest_first.retain(|task| !task.is_finished());
        if self.oldest_first.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        self.oldest_first.push_back(self.tasks.spawn(connection));
    }
}

/// Closes without `TIME_WAIT`, so that other users cannot fill the kernel's table with such connections.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}

async fn serve_connection(stream: TcpStream, peer: LoopbackPeer, server: Arc<LoopbackState>) {
    // Dropped when the connection is closed, at which point the page has been sent.
    let last = Arc::new(std::sync::Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (server, last) = (Arc::clone(&server), Arc::clone(&last));
        async move {
            let (response, sent) = server.respond(&request, peer).await;
            if let (Some(sent), Ok(mut last)) = (sent, last.lock()) {
                *last = Some(sent);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let http = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // The browser reports errors of its connection.
    let _ = http.await;
}

/// State that all connections of a login share.
struct LoopbackState {
    token: Secret,
    /// The redirect URI with the token: the second step of the browser.
    claim_url: HeaderValue,
    /// URL at the issuer to which the browser that claimed the login is sent.
    target: HeaderValue,
    claimed: AtomicBool,
    cookie_name: String,
    cookie: Secret,
    /// Host and path of the redirect URI.
    host: String,
    path: String,
    state: Option<Secret>,
    callbacks: mpsc::Sender<LoginCallback>,
}

impl LoopbackState {
    /// Returns the response, and for the last page a sender to drop when it has been written.
    async fn respond(
        &self,
        request: &Request<Incoming>,
        peer: LoopbackPeer,
    ) -> (Response<String>, Option<oneshot::Sender<()>>) {
        if let Err(status) = self.check_request(request) {
            let mut response = plain(status);
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            }
            return (response, None);
        }
        let path = request.uri().path();
        let start_token = path.strip_prefix(START_PATH).map(Secret::new);
        if start_token.as_ref() == Some(&self.token) {
            return (redirect(&self.claim_url), None);
        }
        if path != self.path {
            // A start page of an earlier login that the browser has restored.
            let is_start_page = start_token.is_some();
            return (
                if is_start_page { show(&ResultPage::not_this_login()) } else { plain(StatusCode::NOT_FOUND) },
                None,
            );
        }
        let query = CallbackQuery::parse(request.uri().query().unwrap_or_default());
        let has_cookie = self.has_cookie(request);
        if let Some(token) = query.value(LOGIN_PARAMETER) {
            let is_token = Secret::new(token) == self.token;
            return (if is_token { self.claim(has_cookie) } else { show(&ResultPage::not_this_login()) }, None);
        }
        let state = query.value("state").map(Secret::new);
        if state.is_none() || state != self.state {
            return (show(&ResultPage::not_this_login()), None);
        }
        if !has_cookie {
            return (show(&ResultPage::other_browser()), None);
        }
        // Checked again, because this request decides which account logs in.
        if let Err(owner) = peer.check_owner() {
            tracing::debug!(?owner, "ignored a callback of another user");
            return (plain(StatusCode::FORBIDDEN), None);
        }
        let (mut response, sent) = self.deliver(query).await;
        if let Ok(cookie) = HeaderValue::from_str(&format!("{}=; Max-Age=0; {}", self.cookie_name, self.cookie_scope()))
        {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        (response, sent)
    }

    async fn deliver(&self, query: CallbackQuery) -> (Response<String>, Option<oneshot::Sender<()>>) {
        let (reply_sender, reply) = oneshot::channel();
        if self.callbacks.send(LoginCallback { query, reply_sender }).await.is_err() {
            return (show(&ResultPage::login_completed()), None);
        }
        match reply.await {
            Ok((CallbackReply::ResultPage(page), sent)) => (show(&page), Some(sent)),
            Ok((CallbackReply::Redirect(url), sent)) => (redirect(&url), Some(sent)),
            Err(_) => (show(&ResultPage::login_completed()), None),
        }
    }

    /// Redirects the first browser to the issuer, and the same one again on a reload.
    fn claim(&self, has_cookie: bool) -> Response<String> {
        let first = !self.claimed.swap(true, Ordering::SeqCst);
        if !first && !has_cookie {
            return show(&ResultPage::already_opened());
        }
        let mut response = redirect(&self.target);
        let cookie = format!("{}={}; {}", self.cookie_name, self.cookie.expose(), self.cookie_scope());
        if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
            cookie.set_sensitive(true);
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    /// Attributes of the cookie. Without `Domain`, so that it is sent to this host only.
    fn cookie_scope(&self) -> String {
        format!("Path={}; HttpOnly; SameSite=Lax", self.path)
    }

    fn has_cookie(&self, request: &Request<Incoming>) -> bool {
        let headers = request.headers().get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        let mut pairs = headers.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie_name && Secret::new(value) == self.cookie)
    }

    /// Rejects requests that a web page can send without a navigation, and foreign host names (DNS rebinding).
    fn check_request(&self, request: &Request<Incoming>) -> Result<(), StatusCode> {
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let host: Option<Uri> = header(HOST.as_str()).and_then(|host| host.parse().ok());
        let host = host.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
        if !is_loopback(host) && !host.eq_ignore_ascii_case(&self.host) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        match header("sec-fetch-dest") {
            None | Some("document") => Ok(()),
            Some(_) => Err(StatusCode::FORBIDDEN),
        }
    }
}

fn redirect(url: &HeaderValue) -> Response<String> {
    let mut response = plain(StatusCode::FOUND);
    response.headers_mut().insert(LOCATION, url.clone());
    response
}

fn show(page: &ResultPage) -> Response<String> {
    let mut response = plain(page.status);
    *response.body_mut() = page.html();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn plain(status: StatusCode) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    for (name, value) in [
        // The URL of the last page contains the code.
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closes_oldest_connection_beyond_limit() {
        let mut connections = ConnectionTasks::default();
        let mut open = Vec::new();
        for _ in 0..=MAX_CONNECTIONS {
            let (held, closed) = oneshot::channel::<()>();
            connections.spawn(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
            open.push(closed);
        }
        assert!(open.remove(0).await.is_err(), "closed");
        for connection in &mut open {
            assert_eq!(connection.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        }
        // Closed connections do not count.
        connections.spawn(std::future::ready(()));
        assert!(open.remove(0).await.is_err(), "closed");
        tokio::task::yield_now().await;
        connections.spawn(std::future::pending());
        tokio::task::yield_now().await;
        assert_eq!(open[0].try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }
}
