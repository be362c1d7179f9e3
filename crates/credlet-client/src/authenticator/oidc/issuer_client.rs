//! HTTP client for the endpoints of an OIDC issuer, with limits on redirects and response size.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use credlet_exec::Platform;
use http::header::{ACCEPT, LOCATION};
use http::{HeaderValue, Request, StatusCode};
use http_body::Body as _;
use zeroize::Zeroizing;

use super::error::{OidcEndpoint, OidcError};
use credlet_http::{ClientSettings, CryptoBackend, HttpClient, RequestBody, ResponseBody, ServerAddr, TrustRoots};

/// Largest response in bytes.
const MAX_RESPONSE_SIZE: usize = 1 << 20;

/// Redirects that are followed for the discovery document.
const MAX_REDIRECTS: usize = 3;

pub(super) struct IssuerResponse {
    pub(super) status: StatusCode,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// Client for one endpoint of the issuer.
pub(super) struct IssuerClient {
    endpoint: OidcEndpoint,
    server: ServerAddr,
    client: HttpClient,
}

impl IssuerClient {
    /// Uses the proxy of the environment, if any. Does not connect yet.
    pub(super) fn new(
        endpoint: OidcEndpoint,
        server: ServerAddr,
        roots: TrustRoots,
        crypto: &CryptoBackend,
        platform: &Platform,
    ) -> Result<Self, OidcError> {
        let client = || {
            let mut settings = ClientSettings::new(server.clone(), crypto.clone(), Arc::clone(&platform.clock));
            settings.proxy = credlet_http::proxy_for(None, &server, &*platform.env)?;
            settings.roots = roots;
            HttpClient::new(settings)
        };
        let client = client().map_err(|source| OidcError::Connection { endpoint, source })?;
        Ok(Self { endpoint, server, client })
    }

    pub(super) fn host(&self) -> String {
        self.server.to_string()
    }

    /// Fetches a document. Follows redirects on the same server.
    pub(super) async fn get(&self, url: &str) -> Result<IssuerResponse, OidcError> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let request = Request::get(&*url).header(ACCEPT, HeaderValue::from_static("application/json"));
            let request =
                request.body(RequestBody::empty()).map_err(|_| OidcError::AuthenticatorSource("is not a URL"))?;
            match self.send(request).await? {
                Ok(response) => return Ok(response),
                Err(to) => url = self.same_server_url(&to).ok_or_else(|| self.redirected())?,
            }
        }
        Err(self.redirected())
    }

    /// Sends a request with credentials. A redirect is an error.
    pub(super) async fn post(&self, request: Request<RequestBody>) -> Result<IssuerResponse, OidcError> {
        self.send(request).await?.map_err(|_| self.redirected())
    }

    /// Returns the target of a redirect as the inner error.
    async fn send(&self, request: Request<RequestBody>) -> Result<Result<IssuerResponse, String>, OidcError> {
        let endpoint = self.endpoint;
        let failed = |source| OidcError::Connection { endpoint, source };
        let response = self.client.send(request).await.map_err(failed)?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            return Ok(Err(to.unwrap_or_default().to_owned()));
        }
        match read_body(response.into_body()).await.map_err(failed)? {
            Some(body) => Ok(Ok(IssuerResponse { status, body })),
            None => Err(OidcError::TooLarge { endpoint, host: self.host() }),
        }
    }

    /// Returns the redirect target if it is on the same server.
    fn same_server_url(&self, to: &str) -> Option<String> {
        if to.starts_with('/') && !to.starts_with("//") {
            return Some(to.to_owned());
        }
        let other = ServerAddr::parse(to).ok()?;
        let same = other.is_https() && other.to_string().eq_ignore_ascii_case(&self.server.to_string());
        same.then(|| to.to_owned())
    }

    fn redirected(&self) -> OidcError {
        OidcError::Redirected { endpoint: self.endpoint, host: self.host() }
    }
}

/// Reads a body. Returns `None`, without reading the rest, if it is larger than [`MAX_RESPONSE_SIZE`].
async fn read_body(mut body: ResponseBody) -> Result<Option<Zeroizing<Vec<u8>>>, credlet_http::HttpError> {
    let mut bytes = Zeroizing::new(Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > MAX_RESPONSE_SIZE {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}
