use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use credlet_api::Secret;
use credlet_client::conn::Payload;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use zeroize::Zeroizing;

use super::{Outgoing, Plain, WebError, form};

/// How long an answer may take and how large it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Making the connection: 10 s.
    pub connect: Duration,
    /// Everything, from looking up the name to the last byte: 30 s.
    pub whole: Duration,
    /// Bytes of the body: 1 MiB.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), whole: Duration::from_secs(30), body: 1 << 20 }
    }
}

impl Limits {
    /// So long for everything.
    pub fn within(whole: Duration) -> Self {
        Self { connect: whole, whole, ..Self::default() }
    }
}

/// A request that is to be sent.
pub struct Ask {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) plain: Plain,
    pub(super) limits: Limits,
}

impl Ask {
    /// Fetches a document.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url.into(), None)
    }

    /// Sends nothing but headers.
    pub fn put(url: impl Into<String>) -> Self {
        Self::new(Method::PUT, url.into(), None)
    }

    /// Sends a form.
    pub fn post_form(url: impl Into<String>, fields: &[(&str, &str)]) -> Self {
        let form = form(fields);
        // Wiped when the last one who holds it lets go.
        let body = Bytes::from_owner(Zeroizing::new(form.as_bytes().to_vec()));
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut ask = Self::new(Method::POST, url.into(), Some(body));
        ask.headers.insert(CONTENT_TYPE, kind);
        ask
    }

    /// Sends JSON.
    pub fn post_json(url: impl Into<String>, value: &impl serde::Serialize) -> Self {
        // Our own plain structs cannot fail to be written.
        let body = Bytes::from_owner(Zeroizing::new(serde_json::to_vec(value).unwrap_or_default()));
        let mut ask = Self::new(Method::POST, url.into(), Some(body));
        ask.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        ask
    }

    fn new(method: Method, url: String, body: Option<Bytes>) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        Self { method, url, headers, body, plain: Plain::default(), limits: Limits::default() }
    }

    /// With a header, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With a header that nobody must see.
    ///
    /// # Errors
    /// When the secret has characters that no header can have, a line break for example.
    pub fn secret_header(mut self, name: HeaderName, value: &Secret) -> Result<Self, WebError> {
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| WebError::Header { name: name.clone() })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Where it may go without TLS: by default, not beyond this machine and its link.
    #[must_use]
    pub fn plain(self, plain: Plain) -> Self {
        Self { plain, ..self }
    }

    /// Within other limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Only a question without a body may be asked at another address.
    pub(super) fn may_move(&self) -> bool {
        self.method == Method::GET
    }

    pub(super) fn request(&self, url: &str) -> Option<Outgoing> {
        let payload = self.body.clone().map_or_else(Payload::empty, Payload::from);
        let mut request = Request::builder().method(self.method.clone()).uri(url).body(payload).ok()?;
        *request.headers_mut() = self.headers.clone();
        Some(request)
    }
}

/// Neither the query nor the body is anybody's business.
impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("method", &self.method)
            .field("host", &super::place::harmless_host(&self.url))
            .field("plain", &self.plain)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
