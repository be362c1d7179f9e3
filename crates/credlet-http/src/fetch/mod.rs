//! One HTTP request and its response, with limits on time, size and destination.
//!
//! [`HttpFetcher::fetch`] takes a [`FetchRequest`] (URL, headers, body, limits), checks its [`EndpointPolicy`], connects
//! with the configured trust roots and the environment's proxies, and returns a [`FetchResponse`] whose body is read
//! completely.
//!
//! Every status is a response; the caller interprets it. Redirects are followed for GET and on the same server only,
//! because most requests carry a secret.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_http::fetch::{FetchError, FetchRequest, HttpFetcher};
//! use credlet_platform::{SystemClock, SystemEnv};
//!
//! # async fn example() -> Result<(), FetchError> {
//! let fetcher = HttpFetcher::new(Arc::new(SystemClock::new()), Arc::new(SystemEnv));
//! let request = FetchRequest::post_form("https://id.example/token", &[("grant_type", "client_credentials")]);
//! let tokens: serde_json::Value = fetcher.fetch(request).await?.json()?;
//! # Ok(()) }
//! ```

mod encoding;
mod error;
mod json;
mod policy;
mod request;

use std::fmt;
use std::sync::Arc;

use credlet_platform::{Clock, Env};
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use zeroize::Zeroizing;

use crate::body::{ReadBodyError, read_body};
use crate::{ClientSettings, CryptoBackend, HttpClient, HttpError, Route, ServerAddr, TrustRoots, proxy_for};

pub use encoding::{encode_form, encode_form_with, percent_encode, query_escape};
pub use error::FetchError;
pub use policy::EndpointPolicy;
pub use request::{FetchLimits, FetchRequest};

/// Maximum number of redirects of one fetch.
const MAX_REDIRECTS: usize = 3;

// Faults of `FetchError::InvalidResponse`.
const EMPTY_BODY: &str = "empty body";
const HTML_BODY: &str = "HTML instead of JSON";
const MISSING_FIELD: &str = "JSON with missing or invalid fields";
const NOT_JSON: &str = "not valid JSON";

/// Sends single requests, each on its own connection.
#[derive(Clone, Debug)]
pub struct HttpFetcher {
    crypto: CryptoBackend,
    clock: Arc<dyn Clock>,
    env: Arc<dyn Env>,
    roots: TrustRoots,
    route: Option<Arc<dyn Route>>,
    max_retries: u8,
}

impl HttpFetcher {
    /// Creates a fetcher that trusts the system's certificate authorities and uses the environment's proxies. It loads and
    /// connects nothing before the first fetch.
    pub fn new(clock: Arc<dyn Clock>, env: Arc<dyn Env>) -> Self {
        let crypto = CryptoBackend::aws_lc_rs();
        Self { crypto, clock, env, roots: TrustRoots::Platform, route: None, max_retries: 0 }
    }

    /// Replaces the trust roots.
    #[must_use]
    pub fn with_roots(self, roots: TrustRoots) -> Self {
        Self { roots, ..self }
    }

    /// Replaces the cryptography for TLS. Default: aws-lc-rs.
    #[must_use]
    pub fn with_crypto(self, crypto: CryptoBackend) -> Self {
        Self { crypto, ..self }
    }

    /// Sets [`ClientSettings::max_retries`]. Default: 0, because every connection is new, so a dead pooled connection is not
    /// a reason to retry, and the request is not copied.
    #[must_use]
    pub fn with_max_retries(self, max_retries: u8) -> Self {
        Self { max_retries, ..self }
    }

    /// Connects through this route in place of TCP and the environment's proxies.
    #[must_use]
    pub fn with_route(self, route: Arc<dyn Route>) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Sends the request and reads the whole response. Requires a tokio runtime with time and I/O enabled.
    ///
    /// # Errors
    /// If the policy forbids the request, the connection fails, or a limit is exceeded. Error statuses are responses.
    pub async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let server = ServerAddr::parse(&request.url).map_err(|source| FetchError::Address {
            host: policy::host_for_message(&request.url),
            source: source.into(),
        })?;
        let host = server.to_string();
        request.policy.check(&server)?;
        let timeout = request.limits.total;
        tokio::select! {
            biased;
            response = self.exchange(server, request) => response,
            () = self.clock.sleep(timeout) => Err(FetchError::TimedOut { host, after: timeout }),
        }
    }

    async fn exchange(&self, server: ServerAddr, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let host = server.to_string();
        let client = self.client(&server, &request.limits).map_err(|source| FetchError::Connection { source })?;
        let mut url = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let outgoing = request.to_http(&url).ok_or_else(|| FetchError::InvalidUrl { host: host.clone() })?;
            let response = client.send(outgoing).await.map_err(|source| FetchError::Connection { source })?;
            let (head, body) = response.into_parts();
            if !head.status.is_redirection() || head.status == StatusCode::NOT_MODIFIED {
                let limit = request.limits.max_body;
                let body = read_body(body, limit).await.map_err(|error| match error {
                    ReadBodyError::Body(source) => FetchError::Connection { source },
                    ReadBodyError::TooLarge => FetchError::TooLarge { host: host.clone(), limit },
                })?;
                return Ok(FetchResponse { host, status: head.status, headers: head.headers, body });
            }
            let location = head.headers.get(LOCATION).and_then(|location| location.to_str().ok());
            let location = location.filter(|_| request.follows_redirects());
            let target = location.and_then(|location| policy::on_same_server(location, &server));
            url = target.ok_or_else(|| FetchError::Redirected { host: host.clone() })?;
        }
        Err(FetchError::Redirected { host })
    }

    fn client(&self, server: &ServerAddr, limits: &FetchLimits) -> Result<HttpClient, HttpError> {
        let mut settings = ClientSettings::new(server.clone(), self.crypto.clone(), Arc::clone(&self.clock));
        settings.timeouts.connect = limits.connect;
        settings.timeouts.tls = settings.timeouts.tls.min(limits.connect);
        settings.timeouts.dial = limits.connect;
        settings.max_retries = self.max_retries;
        if !server.is_https() && policy::is_local(server.host()) {
            // This machine and metadata services are not behind a proxy, and without TLS no certificate is verified:
            // loading the system's trust store would take longer than the request.
            settings.roots = TrustRoots::Unchecked;
        } else {
            settings.proxy = proxy_for(None, server, &*self.env)?;
            // Takes precedence over the proxy.
            settings.route = self.route.clone();
            settings.roots = self.roots.clone();
        }
        HttpClient::new(settings)
    }
}

/// A complete response.
#[non_exhaustive]
pub struct FetchResponse {
    /// Server address as `host:port`.
    pub host: String,
    /// HTTP status code.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    body: Zeroizing<Vec<u8>>,
}

impl FetchResponse {
    /// Returns the body. It may contain secrets.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body as text.
    ///
    /// # Errors
    /// [`FetchError::InvalidResponse`] if it is not UTF-8.
    pub fn text(&self) -> Result<&str, FetchError> {
        std::str::from_utf8(&self.body).map_err(|_| self.invalid_response("not valid UTF-8"))
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// [`FetchError::InvalidResponse`] if it is something else, for example the error page of a proxy. The error does not
    /// quote the body.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, FetchError> {
        json::parse(&self.body).map_err(|fault| self.invalid_response(fault))
    }

    /// Returns an error for this response: `invalid response from HOST (status 200): {fault}`.
    pub fn invalid_response(&self, fault: &'static str) -> FetchError {
        FetchError::InvalidResponse { host: self.host.clone(), status: self.status, fault }
    }
}

/// Omits headers and body: they may hold secrets.
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse").field("host", &self.host).field("status", &self.status).finish_non_exhaustive()
    }
}
