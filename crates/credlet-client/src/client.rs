//! [`Client`]: from a resolved kubeconfig to responses.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use credlet_api::Secret;
use credlet_exec::{ExecOptions, LockFile, RefreshPolicy};
use credlet_http::{
    ClientSettings, ConnectTimeouts, CryptoBackend, HttpClient, HttpCredential, HttpError, RequestBody, ResponseBody,
    ServerAddr, TlsIdentity, TrustRoots,
};
use credlet_kubeconfig::{HeaderCredential, Impersonation, ResolvedConfig};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tower_service::Service as _;

use crate::authenticator::source::bearer;
use crate::authenticator::{AuthError, Authenticator, AuthenticatorRegistry, ExecSettings};
use crate::builder::ClientBuilder;
use crate::error::Error;
use crate::exec_proxy::{ConnectionCredentials, ExecProxy};
use crate::layer::{AuthenticatedService, OnUnauthorized, UnauthorizedPolicy};

/// Options of a [`Client`] beside the kubeconfig.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Registry through which clients share credentials. Default: the one of this process.
    pub authenticators: Arc<AuthenticatorRegistry>,
    /// Cryptography provider for TLS.
    pub crypto: CryptoBackend,
    /// Options of exec plugins.
    pub exec: ExecOptions,
    /// When to refresh credentials, and the backoff after failures.
    pub refresh_policy: RefreshPolicy,
    /// Reaction to a `401`. Default: replace the credential and retry.
    pub on_unauthorized: OnUnauthorized,
    /// Treats a `403` like a `401`. Default: no.
    pub forbidden_is_unauthorized: bool,
    /// Timeouts for connecting.
    pub limits: ConnectTimeouts,
    /// How long open requests and watches may continue on connections of a replaced certificate. Default: no limit.
    pub drain: Option<Duration>,
    /// The `User-Agent` of requests that have none.
    pub user_agent: Option<HeaderValue>,
    /// Support for exec proxies (KEP-2718). Default: none; plugins are then not offered to return one.
    pub exec_proxy: Option<Arc<dyn ExecProxy>>,
}

impl ClientOptions {
    /// Returns the defaults.
    pub fn new(crypto: CryptoBackend) -> Self {
        Self {
            authenticators: AuthenticatorRegistry::of_this_process(),
            crypto,
            exec: ExecOptions::default(),
            refresh_policy: RefreshPolicy::default(),
            on_unauthorized: OnUnauthorized::default(),
            forbidden_is_unauthorized: false,
            limits: ConnectTimeouts::default(),
            drain: None,
            user_agent: Some(HeaderValue::from_static(concat!("credlet/", env!("CARGO_PKG_VERSION")))),
            exec_proxy: None,
        }
    }

    /// Returns the authenticator of a resolved configuration, or `None` if its credential is static or it has none. A
    /// [`Client`] with these options shares the authenticator. No plugin is run yet.
    ///
    /// # Errors
    /// If the connection or the credential cannot be configured.
    pub fn authenticator(&self, resolved: &ResolvedConfig) -> Result<Option<Authenticator>, ClientBuildError> {
        let identity = &resolved.identity;
        let lock_file = self.exec_proxy.clone().map(|exec_proxy| exec_proxy as Arc<dyn LockFile>);
        let exec = ExecOptions { lock_file, ..self.exec.clone() };
        let settings = ExecSettings { options: exec, refresh_policy: self.refresh_policy, crypto: self.crypto.clone() };
        if let Some(exec) = identity.exec_in_use() {
            return Ok(Some(self.authenticators.exec(exec, &settings)?));
        }
        if let (Some(provider), Some(_)) = (&identity.auth_provider, identity.auth_provider_in_use()) {
            return Ok(Some(self.authenticators.auth_provider(provider, &resolved.user, &settings)?));
        }
        match identity.header.as_ref().map(|header| &header.value) {
            Some(HeaderCredential::TokenFile { file, inline }) => {
                let platform = self.authenticators.platform();
                let (clock, observer) = (Arc::clone(&platform.clock), Arc::clone(&platform.observer));
                Ok(Some(Authenticator::token_file(file.clone(), inline.clone(), clock, observer)))
            }
            _ => Ok(None),
        }
    }
}

/// Client for the API server of a kubeconfig. Adds a valid credential to every request and refreshes it before it expires.
/// Clones share connections and credential.
///
/// Building a client runs no plugin and opens no connection.
///
/// ```no_run
/// # async fn example() -> Result<(), credlet_client::Error> {
/// let client = credlet_client::Client::try_default()?;
/// let response = client.get("/api/v1/namespaces").await?;
/// assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    /// Path of the server's URL, without a trailing `/`.
    prefix: Arc<str>,
    headers: Arc<HeaderMap>,
}

#[derive(Clone)]
enum Transport {
    /// The credential is static, or there is none.
    Static(HttpClient),
    /// The credential is refreshed.
    Refreshed(AuthenticatedService<HttpClient, RequestBody>),
}

impl Client {
    /// Returns a client for the cluster that kubectl would use: the current context of `$KUBECONFIG` or `~/.kube/config`, else
    /// the service account of this pod.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`] or [`Error::Config`].
    pub fn try_default() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Returns a builder for a client with another file, context or options.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    /// Returns a client for a resolved configuration.
    ///
    /// # Errors
    /// If the connection or the credential cannot be configured.
    pub fn new(resolved: &ResolvedConfig, options: ClientOptions) -> Result<Self, ClientBuildError> {
        let platform = options.authenticators.platform();
        let server = ServerAddr::parse(&resolved.server.value).map_err(HttpError::from)?;
        let mut settings = ClientSettings::new(server.clone(), options.crypto.clone(), Arc::clone(&platform.clock));
        settings.roots = roots(resolved);
        settings.tls_server_name = resolved.tls.server_name.as_ref().map(|name| name.value.clone());
        let configured = resolved.proxy_url.as_ref().map(|url| &url.value);
        settings.proxy = credlet_http::proxy_for(configured, &server, &*platform.env)?;
        settings.timeouts = options.limits.clone();
        settings.drain_timeout = options.drain;
        let conn = HttpClient::new(settings)?;

        let transport = match options.authenticator(resolved)? {
            Some(authenticator) => {
                let policy = UnauthorizedPolicy {
                    on_unauthorized: options.on_unauthorized,
                    forbidden_is_unauthorized: options.forbidden_is_unauthorized,
                    clone_body: Some(RequestBody::try_clone as fn(&RequestBody) -> Option<RequestBody>),
                };
                let identity = client_certificate(resolved, &options)?;
                let clock = Arc::clone(&platform.clock);
                let exec_proxy = options.exec_proxy.clone();
                let credentials = ConnectionCredentials::new(authenticator.clone(), clock, identity, exec_proxy);
                let connections = conn.clone();
                let service = AuthenticatedService::new(conn, authenticator)
                    .policy(policy)
                    .publish_with(move |entry| Ok(credentials.publish(&connections, entry)?));
                Transport::Refreshed(service)
            }
            None => {
                let authorization = static_header(resolved)?;
                conn.publish(HttpCredential::new(1, authorization, client_certificate(resolved, &options)?))?;
                Transport::Static(conn)
            }
        };
        let headers = Arc::new(headers(resolved.impersonation.as_ref(), options.user_agent)?);
        let prefix = resolved.server.value.parse::<Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned());
        Ok(Self { transport, prefix: prefix.unwrap_or_default().into(), headers })
    }

    /// Waits until a credential is available, which may take a plugin run. [`send`](Self::send) does the same; call this first
    /// to exclude the plugin run from a request timeout.
    ///
    /// # Errors
    /// The plugin's error.
    pub async fn ready(&self) -> Result<(), Arc<AuthError>> {
        match &self.transport {
            Transport::Static(_) => Ok(()),
            Transport::Refreshed(service) => service.authenticator().credential().await.map(drop),
        }
    }

    /// Sends a GET request for a path such as `/api/v1/namespaces?limit=1`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn get(&self, path: &str) -> Result<Response<ResponseBody>, Error> {
        self.send(Request::get(path).body(RequestBody::empty())?).await
    }

    /// Sends a POST request with a JSON body.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn post_json(&self, path: &str, json: impl Into<bytes::Bytes>) -> Result<Response<ResponseBody>, Error> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        self.send(request.body(RequestBody::from(json.into()))?).await
    }

    /// Sends a request. Its path is appended to the path of the server's address.
    ///
    /// # Errors
    /// If no credential or no response is available. A response with an error status is `Ok`.
    pub async fn send(&self, mut request: Request<RequestBody>) -> Result<Response<ResponseBody>, Error> {
        if !self.prefix.is_empty() {
            *request.uri_mut() = with_path_prefix(&self.prefix, request.uri())?;
        }
        for (name, value) in &*self.headers {
            // A `User-Agent` of the caller takes precedence; impersonation headers are always those of the kubeconfig.
            if *name != USER_AGENT || !request.headers().contains_key(USER_AGENT) {
                request.headers_mut().append(name, value.clone());
            }
        }
        match &self.transport {
            Transport::Static(conn) => Ok(conn.send(request).await?),
            Transport::Refreshed(service) => {
                // The connection pool is always ready, so `poll_ready` is not needed.
                service.clone().call(request).await.map_err(Error::from_layer)
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Static(conn) => conn.fmt(f),
            Transport::Refreshed(service) => service.fmt(f),
        }
    }
}

impl tower_service::Service<Request<RequestBody>> for Client {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

/// Invalid configuration of a [`Client`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientBuildError {
    /// The connection cannot be configured.
    #[error(transparent)]
    Connection(#[from] HttpError),
    /// The credential cannot be configured.
    #[error(transparent)]
    Credential(#[from] AuthError),
    /// A field has a character that is not allowed in an HTTP header.
    #[error("invalid `{field}`: contains a character that is not allowed in an HTTP header")]
    Header {
        /// The kubeconfig field.
        field: &'static str,
    },
}

fn roots(resolved: &ResolvedConfig) -> TrustRoots {
    match &resolved.tls.certificate_authority {
        _ if resolved.tls.insecure_skip_verify.value => TrustRoots::Unchecked,
        Some(authority) => TrustRoots::Pem(authority.value.pem.clone()),
        None => TrustRoots::Platform,
    }
}

fn static_header(resolved: &ResolvedConfig) -> Result<Option<HeaderValue>, ClientBuildError> {
    match resolved.identity.header.as_ref().map(|header| &header.value) {
        Some(HeaderCredential::Token(token)) => Ok(Some(bearer(token)?)),
        Some(HeaderCredential::Basic { username, password }) => Ok(Some(basic(username, password)?)),
        Some(HeaderCredential::TokenFile { .. }) | None => Ok(None),
    }
}

fn basic(username: &str, password: &Secret) -> Result<HeaderValue, ClientBuildError> {
    let pair = zeroize::Zeroizing::new(format!("{username}:{}", password.expose()));
    let encoded = zeroize::Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(pair.as_bytes()));
    let text = zeroize::Zeroizing::new(format!("Basic {}", *encoded));
    let mut value = HeaderValue::from_str(&text).map_err(|_| ClientBuildError::Header { field: "username" })?;
    value.set_sensitive(true);
    Ok(value)
}

fn client_certificate(
    resolved: &ResolvedConfig,
    options: &ClientOptions,
) -> Result<Option<TlsIdentity>, ClientBuildError> {
    let certificate = resolved.identity.certificate.as_ref();
    let identity = certificate.map(|certificate| {
        TlsIdentity::from_pem(&certificate.certificate.value, &certificate.key.value, &options.crypto)
    });
    Ok(identity.transpose()?)
}

fn headers(
    impersonation: Option<&Impersonation>,
    user_agent: Option<HeaderValue>,
) -> Result<HeaderMap, ClientBuildError> {
    let mut headers = HeaderMap::new();
    headers.extend(user_agent.map(|user_agent| (USER_AGENT, user_agent)));
    let Some(impersonation) = impersonation else { return Ok(headers) };
    let value = |field, text: &str| HeaderValue::from_str(text).map_err(|_| ClientBuildError::Header { field });
    headers.append("impersonate-user", value("as", &impersonation.user.value)?);
    if let Some(uid) = &impersonation.uid {
        headers.append("impersonate-uid", value("as-uid", &uid.value)?);
    }
    for group in impersonation.groups.iter().flat_map(|groups| &groups.value) {
        headers.append("impersonate-group", value("as-groups", group)?);
    }
    for (key, values) in impersonation.extra.iter().flat_map(|extra| &extra.value) {
        let name = format!("impersonate-extra-{}", header_key_escape(key));
        let name = HeaderName::try_from(name).map_err(|_| ClientBuildError::Header { field: "as-user-extra" })?;
        for text in values {
            headers.append(name.clone(), value("as-user-extra", text)?);
        }
    }
    Ok(headers)
}

/// Percent-encodes a key for a header name like client-go's `headerKeyEscape`: every byte that is not allowed in a header name,
/// and `%` itself.
fn header_key_escape(key: &str) -> String {
    let mut name = String::new();
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte) {
            name.push(byte.to_ascii_lowercase().into());
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

/// Returns the URI with `prefix` in front of its path.
fn with_path_prefix(prefix: &str, uri: &Uri) -> Result<Uri, http::Error> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{prefix}{path}").try_into()?);
    Ok(Uri::from_parts(parts)?)
}
