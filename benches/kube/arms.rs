//! The layers that are compared.

use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};

use credlet_client::AuthenticatorRegistry;
use credlet_client::authenticator::ExecSettings;
use credlet_client::layer::{AuthenticatedService, UnauthorizedPolicy};
use credlet_exec::{FixedEnv, Platform};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{ConfigOverrides, Kubeconfig, ResolvedExec};
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::client::{Body, ConfigExt as _};
use kube::config::KubeConfigOptions;
use tokio::runtime::Runtime;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};

/// Indices into [`all`]; the first entry has no layer.
pub const STATIC: usize = 1;
pub const KUBE: usize = 2;
pub const OURS: usize = 3;
pub const REPLAY: usize = 4;

const PATH: &str = "/api/v1/namespaces/default/pods";

/// A layer to measure.
pub struct MeasuredLayer {
    pub name: &'static str,
    send: Box<dyn Fn(&Runtime, u32, u32)>,
}

impl MeasuredLayer {
    /// Verifies that the layer adds the credential: `checked` is the same layer over a service that checks it.
    async fn new<S, C>(name: &'static str, service: S, checked: C, authenticates: bool) -> Self
    where
        S: Service<Request<Body>, Response = Response<()>, Error = BoxError> + Clone + Send + 'static,
        S::Future: Send,
        C: Service<Request<Body>, Response = Response<()>, Error = BoxError>,
    {
        let status = checked.oneshot(request()).await.unwrap().status();
        assert_eq!(status == StatusCode::OK, authenticates, "{name}: {status}");
        let send = move |runtime: &Runtime, tasks: u32, each: u32| {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..tasks).map(|_| tokio::spawn(send(service.clone(), each))).collect();
                for task in tasks {
                    task.await.unwrap();
                }
            });
        };
        Self { name, send: Box::new(send) }
    }

    /// Sends `requests` requests from each of `tasks` tasks.
    pub fn send(&self, runtime: &Runtime, tasks: u32, each: u32) {
        (self.send)(runtime, tasks, each);
    }
}

async fn send<S>(mut service: S, requests: u32)
where
    S: Service<Request<Body>, Response = Response<()>, Error = BoxError>,
{
    for _ in 0..requests {
        let response = service.ready().await.unwrap().call(request()).await;
        black_box(response.unwrap());
    }
}

fn request() -> Request<Body> {
    Request::get(PATH).body(Body::empty()).unwrap()
}

/// The inner service: takes the request and responds at once.
#[derive(Clone)]
struct NoopService;

impl Service<Request<Body>> for NoopService {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = Ready<Result<Response<()>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(black_box(request));
        ready(Ok(Response::new(())))
    }
}

/// The same, but checks the credential. Responds with 403, because a 401 would cause a refresh and a retry.
#[derive(Clone)]
struct CheckingService;

impl Service<Request<Body>> for CheckingService {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = Ready<Result<Response<()>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let expected = format!("Bearer {}", token());
        let header = request.headers().get(AUTHORIZATION);
        let mut response = Response::new(());
        if header.is_none_or(|header| header != expected.as_str() || !header.is_sensitive()) {
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        ready(Ok(response))
    }
}

/// All layers, with fresh credentials: each has run its plugin.
pub async fn all() -> Vec<MeasuredLayer> {
    let answer = format!(
        r#"{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {{"token": "{}", "expirationTimestamp": "2999-01-01T00:00:00Z"}}}}"#,
        token()
    );
    let exec = kubeconfig(&format!(
        r#"{{"exec": {{"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "/bin/sh", "args": ["-c", "printf %s \"$ANSWER\""], "env": [{{"name": "ANSWER", "value": '{answer}'}}]}}}}"#
    ));
    let fixed = kube(&kubeconfig(&format!(r#"{{"token": "{}"}}"#, token()))).await.auth_layer().unwrap().unwrap();
    let cached = kube(&exec).await.auth_layer().unwrap().unwrap();
    let authenticator = AuthenticatorRegistry::new(Platform::system())
        .exec(&plugin(&exec), &ExecSettings::new(CryptoBackend::aws_lc_rs()))
        .unwrap();
    authenticator.credential().await.unwrap();
    let policy = UnauthorizedPolicy {
        clone_body: Some(Body::try_clone as fn(&Body) -> Option<Body>),
        ..UnauthorizedPolicy::default()
    };
    let off = (
        AuthenticatedService::new(NoopService, authenticator.clone()),
        AuthenticatedService::new(CheckingService, authenticator),
    );
    let on = (off.0.clone().policy(policy), off.1.clone().policy(policy));
    vec![
        MeasuredLayer::new("no layer", NoopService, CheckingService, false).await,
        MeasuredLayer::new("static header", fixed.layer(NoopService), fixed.layer(CheckingService), true).await,
        MeasuredLayer::new("kube exec", cached.layer(NoopService), cached.layer(CheckingService), true).await,
        MeasuredLayer::new("credlet", off.0, off.1, true).await,
        MeasuredLayer::new("credlet, replay", on.0, on.1, true).await,
    ]
}

/// A token of the length of a typical OIDC token.
fn token() -> String {
    "t".repeat(1000)
}

fn kubeconfig(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://localhost:6443'}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    )
}

async fn kube(text: &str) -> kube::Config {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(text).unwrap();
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

fn plugin(text: &str) -> ResolvedExec {
    let env = FixedEnv::default();
    let resolved =
        Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&ConfigOverrides::default(), &env).unwrap();
    resolved.identity.exec_in_use().unwrap().clone()
}
