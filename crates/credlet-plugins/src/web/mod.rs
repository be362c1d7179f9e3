//! One HTTP request and its answer, within limits.
//!
//! **The path:** an [`Ask`] (where, what, how long) → [`Web::fetch`]: is the place fit for a secret? → a connection by
//! the rules of `credlet-client` (roots, proxies) → an [`Answer`] of a decent size → [`Answer::json`].
//!
//! Any status is an answer; judging it is the caller's part. Redirects are followed for a GET on the same server and
//! nowhere else, because what is asked here is asked with a secret.
//!
//! ```no_run
//! use credlet_core::World;
//! use credlet_plugins::web::{Ask, Web, WebError};
//!
//! # async fn example() -> Result<(), WebError> {
//! let web = Web::new(&World::system());
//! let answer = web.fetch(Ask::post_form("https://id.example/token", &[("grant_type", "client_credentials")])).await?;
//! let tokens: serde_json::Value = answer.json()?;
//! # Ok(()) }
//! ```

mod ask;
mod error;
mod json;
mod place;
mod text;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use credlet_client::conn::{Body, Client, Crypto, Payload, Proxy, Roots, Route, Server, Settings};
use credlet_core::{Clock, Env, World};
use http::header::LOCATION;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body as _;
use zeroize::Zeroizing;

pub use ask::{Ask, Limits};
pub use error::WebError;
pub use place::Plain;
pub use text::{escaped, form};

/// How often a document may have moved.
const REDIRECTS: usize = 3;

/// Asks servers. Nothing is connected or read until something is asked.
#[derive(Clone, Debug)]
pub struct Web {
    crypto: Crypto,
    clock: Arc<dyn Clock>,
    env: Arc<dyn Env>,
    roots: Roots,
    route: Option<Arc<dyn Route>>,
}

impl Web {
    /// Believes the system's certificate authorities, and goes through the environment's proxies.
    pub fn new(world: &World) -> Self {
        let (clock, env) = (Arc::clone(&world.clock), Arc::clone(&world.env));
        Self { crypto: Crypto::aws_lc_rs(), clock, env, roots: Roots::Platform, route: None }
    }

    /// Believes other authorities instead.
    #[must_use]
    pub fn with_roots(self, roots: Roots) -> Self {
        Self { roots, ..self }
    }

    /// Takes another way than a host's name says, and no proxy.
    #[must_use]
    pub fn with_route(self, route: Arc<dyn Route>) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Asks once. It needs a tokio runtime with time and io.
    ///
    /// # Errors
    /// When there is no answer, or none that may be read.
    pub async fn fetch(&self, ask: Ask) -> Result<Answer, WebError> {
        let server = Server::parse(&ask.url)
            .map_err(|source| WebError::Address { host: place::harmless_host(&ask.url), source })?;
        let host = server.to_string();
        if !server.is_https() && !ask.plain.allows(server.host()) {
            return Err(WebError::Plain { host });
        }
        let limit = ask.limits.whole;
        tokio::select! {
            biased;
            answer = self.exchange(server, ask) => answer,
            () = self.clock.sleep(limit) => Err(WebError::TimedOut { host, after: limit }),
        }
    }

    async fn exchange(&self, server: Server, ask: Ask) -> Result<Answer, WebError> {
        let host = server.to_string();
        let client = self.client(&server, &ask.limits).map_err(|source| WebError::Connection { source })?;
        let mut url = ask.url.clone();
        for _ in 0..=REDIRECTS {
            let request = ask.request(&url).ok_or_else(|| WebError::Request { host: host.clone() })?;
            let response = client.send(request).await.map_err(|source| WebError::Connection { source })?;
            let (head, body) = response.into_parts();
            if !head.status.is_redirection() || head.status == StatusCode::NOT_MODIFIED {
                let body = whole(body, &host, ask.limits.body).await?;
                return Ok(Answer { host, status: head.status, headers: head.headers, body });
            }
            let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok());
            let followed = to.filter(|_| ask.may_move()).and_then(|to| place::on_same_server(to, &server));
            url = followed.ok_or_else(|| WebError::Redirected { host: host.clone() })?;
        }
        Err(WebError::Redirected { host })
    }

    fn client(&self, server: &Server, limits: &Limits) -> Result<Client, credlet_client::conn::Error> {
        let mut settings = Settings::new(server.clone(), self.crypto.clone(), Arc::clone(&self.clock));
        settings.limits.connect = limits.connect;
        settings.limits.tls = limits.connect;
        settings.limits.dial = limits.connect;
        // Each connection is new, so there is no dead one to be surprised by, and no copy of the request is kept.
        settings.replays = 0;
        if !server.is_https() && place::is_local(server.host()) {
            // What lives on this machine or its link is not behind a proxy, and without TLS there is nobody to
            // check: reading the system's authorities would take longer than the question.
            settings.roots = Roots::Unchecked;
        } else {
            settings.proxy = Proxy::choose(None, server, &*self.env)?;
            // Goes before a proxy.
            settings.route = self.route.clone();
            settings.roots = self.roots.clone();
        }
        Client::new(settings)
    }
}

/// What a server said.
#[non_exhaustive]
pub struct Answer {
    /// Who said it: `host:port`.
    pub host: String,
    /// Whether it is a yes or a no.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Zeroizing<Vec<u8>>,
}

impl Answer {
    /// All of the body. It may hold secrets.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text(&self) -> Result<&str, WebError> {
        std::str::from_utf8(&self.body).map_err(|_| self.nonsense("that is not text"))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is something else, for example the page of a proxy. Nothing of it is quoted.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, WebError> {
        json::read(&self.body).map_err(|fault| self.nonsense(fault))
    }

    /// An error about this answer, for those who find it wrong: `… answered with something {fault}`.
    pub fn nonsense(&self, fault: &'static str) -> WebError {
        WebError::Nonsense { host: self.host.clone(), status: self.status, fault }
    }
}

/// Both headers and body may hold secrets.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("host", &self.host).field("status", &self.status).finish_non_exhaustive()
    }
}

/// Reads up to the limit. What is left is not read.
async fn whole(mut body: Body, host: &str, limit: usize) -> Result<Zeroizing<Vec<u8>>, WebError> {
    let mut bytes = Zeroizing::new(Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.map_err(|source| WebError::Connection { source })?.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(WebError::TooLarge { host: host.to_owned(), limit });
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

type Outgoing = Request<Payload>;
