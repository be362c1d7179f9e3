use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

/// What a request is sent once more with: a service, and all that the first request was.
///
/// Nearly always it is dropped unused, so a request is made of it only when it is needed: a `Request` begins with empty
/// parts, which would have to be dropped in turn.
pub(super) struct Again<S, B> {
    service: S,
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    extensions: Extensions,
    body: B,
}

impl<S: Clone, B> Again<S, B> {
    /// None for a body that cannot be sent twice. Boxed, so that a future without it is small: it is moved about on
    /// every request.
    pub(super) fn new(service: &S, request: &Request<B>, replay: fn(&B) -> Option<B>) -> Option<Box<Self>> {
        let body = replay(request.body())?;
        Some(Box::new(Self {
            service: service.clone(),
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().clone(),
            extensions: request.extensions().clone(),
            body,
        }))
    }
}

impl<S, B> Again<S, B> {
    /// The service, not asked yet whether it is ready, and the request.
    pub(super) fn into_parts(self) -> (S, Request<B>) {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers;
        *request.extensions_mut() = self.extensions;
        (self.service, request)
    }
}
