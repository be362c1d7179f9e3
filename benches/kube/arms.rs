//! The contenders.

use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};

use credlet_client::Authenticators;
use credlet_client::authenticator::ExecSettings;
use credlet_client::conn::Crypto;
use credlet_client::http::{Authenticate, Policy};
use credlet_client::kubeconfig::{Exec, Kubeconfig, Overrides};
use credlet_core::{FixedEnv, World};
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::client::{Body, ConfigExt as _};
use kube::config::KubeConfigOptions;
use tokio::runtime::Runtime;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};

/// Where to find whom in [`all`]; the first has no layer at all.
pub const STATIC: usize = 1;
pub const KUBE: usize = 2;
pub const OURS: usize = 3;
pub const REPLAY: usize = 4;

const PATH: &str = "/api/v1/namespaces/default/pods";

/// One contender.
pub struct Arm {
    pub name: &'static str,
    send: Box<dyn Fn(&Runtime, u32, u32)>,
}

impl Arm {
    /// Makes sure that it does what it is measured for: `checked` is the same layer over a service that looks.
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

    /// Sends so many requests from each of so many tasks.
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

/// The service below: takes the request and answers at once.
#[derive(Clone)]
struct Nothing;

impl Service<Request<Body>> for Nothing {
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

/// The same, but with a look at the credential. A 403, because a 401 would be replaced and retried.
#[derive(Clone)]
struct Guard;

impl Service<Request<Body>> for Guard {
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

/// All contenders, with their credentials at hand: each has run its plugin.
pub async fn all() -> Vec<Arm> {
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
    let authenticator =
        Authenticators::new(World::system()).exec(&plugin(&exec), &ExecSettings::new(Crypto::aws_lc_rs())).unwrap();
    authenticator.credential().await.unwrap();
    let policy = Policy { replay: Some(Body::try_clone as fn(&Body) -> Option<Body>), ..Policy::default() };
    let off = (Authenticate::new(Nothing, authenticator.clone()), Authenticate::new(Guard, authenticator));
    let on = (off.0.clone().policy(policy), off.1.clone().policy(policy));
    vec![
        Arm::new("no layer", Nothing, Guard, false).await,
        Arm::new("static header", fixed.layer(Nothing), fixed.layer(Guard), true).await,
        Arm::new("kube exec", cached.layer(Nothing), cached.layer(Guard), true).await,
        Arm::new("credlet", off.0, off.1, true).await,
        Arm::new("credlet, replay", on.0, on.1, true).await,
    ]
}

/// About as long as an OIDC token.
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

fn plugin(text: &str) -> Exec {
    let env = FixedEnv::default();
    let resolved = Kubeconfig::from_bytes(text.as_bytes(), &env).unwrap().resolve(&Overrides::default(), &env).unwrap();
    resolved.identity.exec_in_use().unwrap().clone()
}
