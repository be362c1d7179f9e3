//! kube's layers, over our connections.

use bytes::Bytes;
use credlet_client::Client;
use credlet_client::kubeconfig::{LoadingRules, Resolved};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, DynBody};
use tower::retry::RetryLayer;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};
use tower_http::ServiceExt as _;

use crate::options::Source;
use crate::send::Send;
use crate::trace::Spans;
use crate::{Error, Options, config};

/// What [`builder`] builds on. Unlike kube's own it can be cloned, so any layer may lie on it.
pub type Stack = BoxCloneService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A client whose credential works, and goes on to. No plugin is run and no connection made: that is for the first
/// request to do.
///
/// Takes [`Options`], a [`Resolved`] or a [`kube::Config`].
///
/// # Errors
/// What is wrong with the configuration.
///
/// # Panics
/// Outside a tokio runtime, as [`kube::Client::new`] does.
pub fn client(options: impl Into<Options>) -> Result<kube::Client, Error> {
    Ok(builder(options)?.build())
}

/// The same, to lay [more layers](ClientBuilder::with_layer) on it.
///
/// ```no_run
/// use tower::limit::ConcurrencyLimitLayer;
///
/// # fn example() -> Result<(), credlet_kube::Error> {
/// let builder = credlet_kube::builder(credlet_kube::Options::infer())?;
/// let client = builder.with_layer(&ConcurrencyLimitLayer::new(64)).build();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// What is wrong with the configuration.
pub fn builder(options: impl Into<Options>) -> Result<ClientBuilder<Stack>, Error> {
    let options = options.into();
    let resolved = resolve(&options)?;
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    let Options { client, read_timeout, headers, retry, .. } = options;
    let send = Send { client: Client::new(&resolved, client)?, limit: read_timeout };

    let service = ServiceBuilder::new();
    // Outside the rest, so that what lies below counts and logs what really travels.
    #[cfg(feature = "gzip")]
    let service = service.layer(
        tower_http::decompression::DecompressionLayer::new()
            .no_br()
            .no_deflate()
            .no_zstd()
            .gzip(!resolved.disable_compression.value),
    );
    let service = service
        // Each attempt asks for the credential of its moment.
        .option_layer(retry.then(|| RetryLayer::new(RetryPolicy::server_retry())))
        // Before the credential: an `Authorization` of the program's own is left alone.
        .map_request(move |mut request: Request<Body>| {
            // Beside what kube has put there: of pairs, unlike of another map, none replaces anything.
            request.headers_mut().extend(headers.iter().cloned());
            request
        })
        // One span for an attempt, with the wait for a credential in it.
        .layer(Spans::layer(&resolved.server.value))
        .service(send);
    let service = service.map_response_body(boxed);
    Ok(ClientBuilder::new(service.boxed_clone(), resolved.namespace.value))
}

fn boxed<B>(body: B) -> Box<DynBody>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + std::marker::Send + Unpin + 'static,
{
    Box::new(body.map_err(Into::into))
}

fn resolve(options: &Options) -> Result<Resolved, Error> {
    let env = &*options.client.authenticators.world().env;
    match &options.source {
        Source::Environment(overrides) => Ok(LoadingRules::from_env(env).load(env)?.resolve(overrides, env)?),
        Source::Resolved(resolved) => Ok((**resolved).clone()),
        Source::Kube(config) => config::resolve(config, env),
    }
}
