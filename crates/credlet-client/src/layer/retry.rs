use http::{Extensions, HeaderMap, Method, Request, Uri, Version};

/// Copy of a request and a clone of its service, for one retry.
///
/// It is almost always dropped unused. The parts are therefore stored as they are, and a `Request` is assembled only for the
/// retry.
pub(super) struct RetryRequest<S, B> {
    service: S,
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    extensions: Extensions,
    body: B,
}

impl<S: Clone, B> RetryRequest<S, B> {
    /// Returns `None` if the body cannot be cloned. Boxed, because a small response future is cheaper to move.
    pub(super) fn new(service: &S, request: &Request<B>, clone_body: fn(&B) -> Option<B>) -> Option<Box<Self>> {
        let body = clone_body(request.body())?;
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

impl<S, B> RetryRequest<S, B> {
    /// Returns the service and the request. The caller must wait until the service is ready.
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
