//! The tower stack of a client: the layers of kube over [`SendService`].

use bytes::Bytes;
use credlet_client::Client;
use credlet_kubeconfig::{LoadingRules, ResolvedConfig};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, DynBody};
use tower::retry::RetryLayer;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};
use tower_http::ServiceExt as _;

use crate::options::ConfigSource;
use crate::request_span::RequestSpans;
use crate::send_service::SendService;
use crate::{Error, KubeClientOptions, config};

/// Service of [`builder`]. Unlike kube's own it is `Clone`, which many layers require.
pub type KubeService = BoxCloneService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Returns a client that refreshes its credential. Runs no plugin and opens no connection before the first request.
///
/// Accepts [`KubeClientOptions`], a [`ResolvedConfig`] or a [`kube::Config`].
///
/// # Errors
/// If the kubeconfig cannot be loaded, or the connection or the credential cannot be configured.
///
/// # Panics
/// Outside a tokio runtime, as [`kube::Client::new`] does.
pub fn client(options: impl Into<KubeClientOptions>) -> Result<kube::Client, Error> {
    Ok(builder(options)?.build())
}

/// Returns a builder, to add [more layers](ClientBuilder::with_layer).
///
/// ```no_run
/// use tower::limit::ConcurrencyLimitLayer;
///
/// # fn example() -> Result<(), credlet_kube::Error> {
/// let builder = credlet_kube::builder(credlet_kube::KubeClientOptions::infer())?;
/// let client = builder.with_layer(&ConcurrencyLimitLayer::new(64)).build();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the kubeconfig cannot be loaded, or the connection or the credential cannot be configured.
pub fn builder(options: impl Into<KubeClientOptions>) -> Result<ClientBuilder<KubeService>, Error> {
    let options = options.into();
    let resolved = resolve(&options)?;
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    let KubeClientOptions { client, read_timeout, headers, retry, .. } = options;
    let send = SendService { client: Client::new(&resolved, client)?, read_timeout };

    let service = ServiceBuilder::new();
    // Outermost, so that the layers below see the compressed bytes.
    #[cfg(feature = "gzip")]
    let service = service.layer(
        tower_http::decompression::DecompressionLayer::new()
            .no_br()
            .no_deflate()
            .no_zstd()
            .gzip(!resolved.disable_compression.value),
    );
    let service = service
        // Outside the credential, so that each attempt uses the current one.
        .option_layer(retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        // Before the credential, which does not replace an `Authorization` header.
        .map_request(move |mut request: Request<Body>| {
            // `extend` with pairs appends to the headers of kube; with a map it would replace them.
            request.headers_mut().extend(headers.iter().cloned());
            request
        })
        // One span per attempt, which includes the wait for a credential.
        .layer(RequestSpans::layer(&resolved.server.value))
        .service(send);
    let service = service.map_response_body(boxed);
    Ok(ClientBuilder::new(service.boxed_clone(), resolved.namespace.value))
}

fn boxed<B>(body: B) -> Box<DynBody>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    Box::new(body.map_err(Into::into))
}

fn resolve(options: &KubeClientOptions) -> Result<ResolvedConfig, Error> {
    let env = &*options.client.authenticators.platform().env;
    match &options.source {
        ConfigSource::Environment(overrides) => Ok(LoadingRules::from_env(env).load(env)?.resolve(overrides, env)?),
        ConfigSource::Resolved(resolved) => Ok((**resolved).clone()),
        ConfigSource::Kube(config) => config::resolve(config, env),
    }
}
