//! An issuer that gives each refresh token once, and does otherwise when told to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::{ClientCertificates, FakeApiServer, RequestContext, ResponseBody};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::sync::watch;

pub(crate) struct FakeIssuer {
    shared: Arc<Shared>,
    _server: FakeApiServer,
}

struct Shared {
    url: OnceLock<String>,
    basic: String,
    secret: String,
    grants: Mutex<HashMap<String, Grant>>,
    /// By path: what to answer instead.
    orders: Mutex<HashMap<String, Order>>,
    asked: watch::Sender<Vec<Asked>>,
}

/// What a refresh token is worth.
#[derive(Clone)]
struct Grant {
    id_token: Option<String>,
    refresh_token: Option<String>,
}

#[derive(Clone)]
pub(crate) enum Order {
    Answer(u16, Bytes),
    RedirectTo(String),
    /// The client's secret is good in the form only.
    FormOnly,
    Stall,
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: Option<String>,
    pub(crate) form: HashMap<String, String>,
}

impl FakeIssuer {
    /// With one client, `credlet`.
    pub(crate) fn start(ca: &TestCa, secret: &str) -> Self {
        let basic = STANDARD.encode(format!("credlet:{}", secret.replace('+', "%2B")));
        let shared = Arc::new(Shared {
            url: OnceLock::new(),
            basic: format!("Basic {basic}"),
            secret: secret.to_owned(),
            grants: Mutex::default(),
            orders: Mutex::default(),
            asked: watch::Sender::new(Vec::new()),
        });
        let state = Arc::clone(&shared);
        let server = FakeApiServer::setup(ca)
            .client_certificates(ClientCertificates::Off)
            .alpn([])
            .handler(move |request, _: RequestContext| answer(Arc::clone(&state), request))
            .start();
        shared.url.set(server.url()).unwrap();
        Self { shared, _server: server }
    }

    pub(crate) fn url(&self) -> &str {
        self.shared.url()
    }

    /// For this refresh token, once: these.
    pub(crate) fn grant(&self, refresh_token: &str, id_token: Option<&str>, next: Option<&str>) {
        let grant = Grant { id_token: id_token.map(str::to_owned), refresh_token: next.map(str::to_owned) };
        self.shared.grants.lock().unwrap().insert(refresh_token.to_owned(), grant);
    }

    pub(crate) fn order(&self, path: &str, order: Order) {
        self.shared.orders.lock().unwrap().insert(path.to_owned(), order);
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.borrow().clone()
    }

    /// Requests for tokens, with whatever outcome.
    pub(crate) fn refreshes(&self) -> usize {
        self.asked().iter().filter(|asked| asked.path == "/token").count()
    }

    pub(crate) async fn until(&self, mut holds: impl FnMut(&[Asked]) -> bool) {
        let mut asked = self.shared.asked.subscribe();
        tokio::time::timeout(crate::HANG, asked.wait_for(|asked| holds(asked))).await.unwrap().unwrap();
    }
}

impl Shared {
    fn url(&self) -> &str {
        self.url.get().unwrap()
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Response<ResponseBody> {
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
    // The client may cancel the request.
    let Ok(body) = request.into_body().collect().await else { return reply(400, Bytes::new()) };
    let form = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    let form = form.split('&').filter_map(|pair| pair.split_once('='));
    let form: HashMap<_, _> = form.map(|(name, value)| (name.to_owned(), value.replace("%2B", "+"))).collect();
    let asked = Asked { path, authorization, form };
    shared.asked.send_modify(|all| all.push(asked.clone()));
    let order = shared.orders.lock().unwrap().get(&asked.path).cloned();
    match order {
        Some(Order::Answer(status, body)) => reply(status, body),
        Some(Order::RedirectTo(url)) => {
            let mut response = reply(307, Bytes::new());
            response.headers_mut().insert("location", url.parse().unwrap());
            response
        }
        Some(Order::Stall) => std::future::pending().await,
        Some(Order::FormOnly) => token(&shared, &asked, asked.form.get("client_secret") == Some(&shared.secret)),
        None if asked.path == "/token" => token(&shared, &asked, asked.authorization.as_ref() == Some(&shared.basic)),
        None if asked.path == "/.well-known/openid-configuration" => json(
            200,
            &serde_json::json!({ "issuer": shared.url(), "token_endpoint": format!("{}/token", shared.url()) }),
        ),
        None => reply(404, Bytes::new()),
    }
}

fn token(shared: &Shared, asked: &Asked, known: bool) -> Response<ResponseBody> {
    let refresh_token = asked.form.get("refresh_token").cloned().unwrap_or_default();
    // A careless issuer: what it refuses is in its answer.
    let refused = |status, code: &str| {
        json(status, &serde_json::json!({ "error": code, "error_description": format!("{asked:?}") }))
    };
    if !known {
        return refused(401, "invalid_client");
    }
    match shared.grants.lock().unwrap().remove(&refresh_token) {
        None => refused(400, "invalid_grant"),
        Some(Grant { id_token, refresh_token }) => {
            let mut answer = serde_json::json!({ "access_token": "unused", "token_type": "bearer", "expires_in": 60 });
            answer["id_token"] = id_token.into();
            answer["refresh_token"] = refresh_token.into();
            json(200, &answer)
        }
    }
}

fn json(status: u16, value: &serde_json::Value) -> Response<ResponseBody> {
    reply(status, value.to_string().into())
}

fn reply(status: u16, body: Bytes) -> Response<ResponseBody> {
    Response::builder().status(status).body(Full::new(body).boxed_unsync()).unwrap()
}
