use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use credlet_api::Secret;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use zeroize::Zeroizing;

use super::{EndpointPolicy, FetchError, encode_form};
use crate::RequestBody;

/// Limits on time and size of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Timeout for opening the connection, at most 10 s of which for the TLS handshake. Default: 10 s.
    pub connect: Duration,
    /// Timeout for the whole fetch, from name resolution to the last byte. Default: 30 s.
    pub total: Duration,
    /// Maximum size of the response body in bytes. Default: 1 MiB.
    pub max_body: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), total: Duration::from_secs(30), max_body: 1 << 20 }
    }
}

impl FetchLimits {
    /// Returns the default limits with this timeout for connecting and for the whole fetch.
    pub fn with_timeout(total: Duration) -> Self {
        Self { connect: total, total, ..Self::default() }
    }
}

/// A request for [`HttpFetcher::fetch`](super::HttpFetcher::fetch).
pub struct FetchRequest {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    pub(super) policy: EndpointPolicy,
    pub(super) limits: FetchLimits,
}

impl FetchRequest {
    /// Returns a GET request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url.into(), None)
    }

    /// Returns a PUT request without a body.
    pub fn put(url: impl Into<String>) -> Self {
        Self::new(Method::PUT, url.into(), None)
    }

    /// Returns a POST request with a form (`application/x-www-form-urlencoded`).
    pub fn post_form(url: impl Into<String>, fields: &[(&str, &str)]) -> Self {
        Self::post_encoded_form(url, &encode_form(fields))
    }

    /// Returns a POST request with an encoded form, see [`encode_form_with`](super::encode_form_with).
    pub fn post_encoded_form(url: impl Into<String>, form: &str) -> Self {
        // Zeroized when the last clone is dropped.
        let body = Bytes::from_owner(Zeroizing::new(form.as_bytes().to_vec()));
        let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut request = Self::new(Method::POST, url.into(), Some(body));
        request.headers.insert(CONTENT_TYPE, content_type);
        request
    }

    /// Returns a POST request with a JSON body.
    pub fn post_json(url: impl Into<String>, value: &impl serde::Serialize) -> Self {
        // Serialization of credlet's plain structs cannot fail.
        let body = Bytes::from_owner(Zeroizing::new(serde_json::to_vec(value).unwrap_or_default()));
        let mut request = Self::new(Method::POST, url.into(), Some(body));
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request
    }

    fn new(method: Method, url: String, body: Option<Bytes>) -> Self {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        Self { method, url, headers, body, policy: EndpointPolicy::default(), limits: FetchLimits::default() }
    }

    /// Sets a header, replacing earlier values.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets a header to a secret. The value is marked sensitive.
    ///
    /// # Errors
    /// [`FetchError::InvalidHeader`] if the secret contains characters that are not allowed in a header, such as a line
    /// break.
    pub fn secret_header(mut self, name: HeaderName, value: &Secret) -> Result<Self, FetchError> {
        let mut value =
            HeaderValue::from_str(value.expose()).map_err(|_| FetchError::InvalidHeader { name: name.clone() })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sets the hosts that the request may be sent to. Default: any host over https, this machine over http.
    #[must_use]
    pub fn policy(self, policy: EndpointPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the limits on time and size.
    #[must_use]
    pub fn limits(self, limits: FetchLimits) -> Self {
        Self { limits, ..self }
    }

    /// Whether redirects may be followed: only for requests without a body.
    pub(super) fn follows_redirects(&self) -> bool {
        self.method == Method::GET
    }

    /// Builds the HTTP request for this URL. Returns `None` if path or query have characters that no URI allows.
    pub(super) fn to_http(&self, url: &str) -> Option<Request<RequestBody>> {
        let payload = self.body.clone().map_or_else(RequestBody::empty, RequestBody::from);
        let mut request = Request::builder().method(self.method.clone()).uri(url).body(payload).ok()?;
        *request.headers_mut() = self.headers.clone();
        Some(request)
    }
}

/// Omits headers, path, query and body: they may hold secrets.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchRequest")
            .field("method", &self.method)
            .field("host", &super::policy::host_for_message(&self.url))
            .field("policy", &self.policy)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
