//! From a resolved kubeconfig to answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use credlet_api::Secret;
use credlet_core::{ExecOptions, LockFile, Patience};
use http::header::USER_AGENT;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tower_service::Service as _;

use crate::authenticator::issuer::bearer;
use crate::authenticator::{AuthError, Authenticator, Authenticators, ExecSettings};
use crate::conn::{self, Body, Crypto, Limits, Payload, Proxy, Roots, Server, Settings};
use crate::exec_proxy::{ExecProxy, Presenter};
use crate::http::{Authenticate, BoxError, OnRefusal, Policy};
use crate::kubeconfig::{HeaderCredential, Impersonation, Resolved};

/// How a [`Client`] behaves, apart from what the kubeconfig says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Whom it shares credentials with: everybody in this process.
    pub authenticators: Arc<Authenticators>,
    /// What TLS is made of.
    pub crypto: Crypto,
    /// How plugins are run.
    pub exec: ExecOptions,
    /// How soon, how often and how long to wait for them.
    pub patience: Patience,
    /// What to do with a request whose credential is refused: send it once more.
    pub on_refusal: OnRefusal,
    /// Whether a `403` is a refusal too: no.
    pub forbidden_is_refusal: bool,
    /// How long connecting may take.
    pub limits: Limits,
    /// After a certificate was replaced, how long open requests and watches may go on under the old one: no limit.
    pub drain: Option<Duration>,
    /// The `User-Agent` of requests that have none.
    pub user_agent: Option<HeaderValue>,
    /// Whoever knows the way into a plugin's proxy (KEP-2718): nobody, and then plugins are not told that they may
    /// answer with one.
    pub exec_proxy: Option<Arc<dyn ExecProxy>>,
}

impl ClientOptions {
    /// The defaults.
    pub fn new(crypto: Crypto) -> Self {
        Self {
            authenticators: Authenticators::of_this_process(),
            crypto,
            exec: ExecOptions::default(),
            patience: Patience::default(),
            on_refusal: OnRefusal::default(),
            forbidden_is_refusal: false,
            limits: Limits::default(),
            drain: None,
            user_agent: Some(HeaderValue::from_static(concat!("credlet/", env!("CARGO_PKG_VERSION")))),
            exec_proxy: None,
        }
    }

    /// Whoever renews the credential of what was resolved. A [`Client`] with these options shares its plugin runs.
    /// `None`: the credential is one that stays as it is, or there is none. Nothing is run yet.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn authenticator(&self, resolved: &Resolved) -> Result<Option<Authenticator>, ClientError> {
        let identity = &resolved.identity;
        let lock_file = self.exec_proxy.clone().map(|exec_proxy| exec_proxy as Arc<dyn LockFile>);
        let exec = ExecOptions { lock_file, ..self.exec.clone() };
        let settings = ExecSettings { options: exec, patience: self.patience, crypto: self.crypto.clone() };
        if let Some(exec) = identity.exec_in_use() {
            return Ok(Some(self.authenticators.exec(exec, &settings)?));
        }
        if let (Some(provider), Some(_)) = (&identity.auth_provider, identity.auth_provider_in_use()) {
            return Ok(Some(self.authenticators.auth_provider(provider, &resolved.user, &settings)?));
        }
        match identity.header.as_ref().map(|header| &header.value) {
            Some(HeaderCredential::TokenFile { file, inline }) => {
                let world = self.authenticators.world();
                let (clock, observer) = (Arc::clone(&world.clock), Arc::clone(&world.observer));
                Ok(Some(Authenticator::token_file(file.clone(), inline.clone(), clock, observer)))
            }
            _ => Ok(None),
        }
    }
}

/// Sends requests to the API server of a kubeconfig, each with a credential that works. Clones share everything.
///
/// Building one runs no plugin and makes no connection.
///
/// ```no_run
/// use credlet_client::conn::{Crypto, Payload};
/// use credlet_client::kubeconfig::{LoadingRules, Overrides};
/// use credlet_client::{Client, ClientOptions};
/// use credlet_core::SystemEnv;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let kubeconfig = LoadingRules::from_env(&SystemEnv).load(&SystemEnv)?;
/// let resolved = kubeconfig.resolve(&Overrides::default(), &SystemEnv)?;
/// let client = Client::new(&resolved, ClientOptions::new(Crypto::aws_lc_rs()))?;
///
/// let response = client.send(http::Request::get("/api/v1/namespaces").body(Payload::empty())?).await?;
/// assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    service: Service,
    /// The path of the server's address, without a `/` at its end.
    prefix: Arc<str>,
    headers: Arc<HeaderMap>,
}

#[derive(Clone)]
enum Service {
    /// With a credential that stays as it is, or none.
    Static(conn::Client),
    /// With one that does not.
    Renewed(Authenticate<conn::Client, Payload>),
}

impl Client {
    /// A client for what was resolved.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(resolved: &Resolved, options: ClientOptions) -> Result<Self, ClientError> {
        let world = options.authenticators.world();
        let server = Server::parse(&resolved.server.value)?;
        let mut settings = Settings::new(server.clone(), options.crypto.clone(), Arc::clone(&world.clock));
        settings.roots = roots(resolved);
        settings.tls_server_name = resolved.tls.server_name.as_ref().map(|name| name.value.clone());
        let configured = resolved.proxy_url.as_ref().map(|url| &url.value);
        settings.proxy = Proxy::choose(configured, &server, &*world.env)?;
        settings.limits = options.limits.clone();
        settings.drain = options.drain;
        let conn = conn::Client::new(settings)?;

        let service = match options.authenticator(resolved)? {
            Some(authenticator) => {
                let policy = Policy {
                    on_refusal: options.on_refusal,
                    forbidden_is_refusal: options.forbidden_is_refusal,
                    replay: Some(Payload::try_clone as fn(&Payload) -> Option<Payload>),
                };
                let connections = conn.clone();
                let identity = certificate(resolved, &options)?;
                let clock = Arc::clone(&world.clock);
                let presenter = Presenter::new(authenticator.clone(), clock, identity, options.exec_proxy.clone());
                let authenticate = Authenticate::new(conn, authenticator).policy(policy).announcing(move |entry| {
                    if connections.serial() < entry.generation() {
                        connections.publish(presenter.credential(entry)?)?;
                    }
                    Ok(())
                });
                Service::Renewed(authenticate)
            }
            None => {
                let authorization = static_header(resolved)?;
                conn.publish(conn::Credential::new(1, authorization, certificate(resolved, &options)?))?;
                Service::Static(conn)
            }
        };
        let headers = Arc::new(headers(resolved.impersonation.as_ref(), options.user_agent)?);
        let prefix = resolved.server.value.parse::<Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned());
        Ok(Self { service, prefix: prefix.unwrap_or_default().into(), headers })
    }

    /// Returns when there is a credential to send requests with: at once, or after a run of the plugin.
    ///
    /// Nobody needs to ask: [`send`](Self::send) does. It is for those who count the time that the server takes.
    ///
    /// # Errors
    /// Says who must act.
    pub async fn ready(&self) -> Result<(), Arc<AuthError>> {
        match &self.service {
            Service::Static(_) => Ok(()),
            Service::Renewed(service) => service.authenticator().credential().await.map(drop),
        }
    }

    /// Sends a request to the path it names on the server, below the path of the server's own address.
    ///
    /// # Errors
    /// When there is no answer, or no credential: [`AuthError`] or [`conn::Error`]. Any answer is `Ok`.
    pub async fn send(&self, mut request: Request<Payload>) -> Result<Response<Body>, BoxError> {
        if !self.prefix.is_empty() {
            *request.uri_mut() = below(&self.prefix, request.uri())?;
        }
        for (name, value) in &*self.headers {
            // What the caller has said about itself stands; whom to act as is the kubeconfig's to say.
            if *name != USER_AGENT || !request.headers().contains_key(USER_AGENT) {
                request.headers_mut().append(name, value.clone());
            }
        }
        match &self.service {
            Service::Static(conn) => Ok(conn.send(request).await?),
            Service::Renewed(service) => {
                // Always ready: the connections below it are.
                service.clone().call(request).await
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Service::Static(conn) => conn.fmt(f),
            Service::Renewed(service) => service.fmt(f),
        }
    }
}

impl tower_service::Service<Request<Payload>> for Client {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(request).await })
    }
}

/// Why there is no client. Whoever wrote the kubeconfig must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection cannot be configured.
    #[error(transparent)]
    Connection(#[from] conn::Error),
    /// The credential cannot be configured.
    #[error(transparent)]
    Credential(#[from] AuthError),
    /// A field holds what no header can carry.
    #[error("{field} has a character that no header can carry")]
    Header {
        /// Which.
        field: &'static str,
    },
}

fn roots(resolved: &Resolved) -> Roots {
    match &resolved.tls.certificate_authority {
        _ if resolved.tls.insecure_skip_verify.value => Roots::Unchecked,
        Some(authority) => Roots::Pem(authority.value.pem.clone()),
        None => Roots::Platform,
    }
}

fn static_header(resolved: &Resolved) -> Result<Option<HeaderValue>, ClientError> {
    match resolved.identity.header.as_ref().map(|header| &header.value) {
        Some(HeaderCredential::Token(token)) => Ok(Some(bearer(token)?)),
        Some(HeaderCredential::Basic { username, password }) => Ok(Some(basic(username, password)?)),
        Some(HeaderCredential::TokenFile { .. }) | None => Ok(None),
    }
}

fn basic(username: &str, password: &Secret) -> Result<HeaderValue, ClientError> {
    let pair = zeroize::Zeroizing::new(format!("{username}:{}", password.expose()));
    let encoded = zeroize::Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(pair.as_bytes()));
    let text = zeroize::Zeroizing::new(format!("Basic {}", *encoded));
    let mut value = HeaderValue::from_str(&text).map_err(|_| ClientError::Header { field: "username" })?;
    value.set_sensitive(true);
    Ok(value)
}

fn certificate(resolved: &Resolved, options: &ClientOptions) -> Result<Option<conn::Identity>, ClientError> {
    let certificate = resolved.identity.certificate.as_ref();
    let identity = certificate.map(|certificate| {
        conn::Identity::from_pem(&certificate.certificate.value, &certificate.key.value, &options.crypto)
    });
    Ok(identity.transpose()?)
}

fn headers(as_whom: Option<&Impersonation>, user_agent: Option<HeaderValue>) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    headers.extend(user_agent.map(|user_agent| (USER_AGENT, user_agent)));
    let Some(as_whom) = as_whom else { return Ok(headers) };
    let value = |field, text: &str| HeaderValue::from_str(text).map_err(|_| ClientError::Header { field });
    headers.append("impersonate-user", value("as", &as_whom.user.value)?);
    if let Some(uid) = &as_whom.uid {
        headers.append("impersonate-uid", value("as-uid", &uid.value)?);
    }
    for group in as_whom.groups.iter().flat_map(|groups| &groups.value) {
        headers.append("impersonate-group", value("as-groups", group)?);
    }
    for (key, values) in as_whom.extra.iter().flat_map(|extra| &extra.value) {
        let name = format!("impersonate-extra-{}", escaped(key));
        let name = HeaderName::try_from(name).map_err(|_| ClientError::Header { field: "as-user-extra" })?;
        for text in values {
            headers.append(name.clone(), value("as-user-extra", text)?);
        }
    }
    Ok(headers)
}

/// As client-go writes a key into a header's name: what is no token character, and `%` itself, percent-encoded.
fn escaped(key: &str) -> String {
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

/// The same path and query, below `prefix`.
fn below(prefix: &str, uri: &Uri) -> Result<Uri, BoxError> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{prefix}{path}").try_into()?);
    Ok(Uri::from_parts(parts)?)
}
