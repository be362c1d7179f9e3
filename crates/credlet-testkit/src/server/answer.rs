//! Responses of the server.

use std::convert::Infallible;
use std::future::pending;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::body::{AnyBody, Events, Half, whole};
use super::control::{Access, Command, Cut, FaultOrder, Shared};
use super::seen::{SeenRequest, TlsPeer};
use super::wire::Written;

/// The future of a test's own response.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response<AnyBody>> + Send>>;

/// A test's handler for authenticated requests. Returns the request if it does not handle it.
pub(super) type Endpoint =
    Box<dyn Fn(Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> + Send + Sync>;

/// Properties of a connection that its requests share.
pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) number: usize,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) written: Arc<Written>,
    pub(super) alpn: Option<String>,
    pub(super) resumed: bool,
    pub(super) peer: Option<TlsPeer>,
}

pub(super) async fn answer(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<AnyBody>, Infallible> {
    let shared = &connection.shared;
    // Taken before the request is counted: a fault that a test adds in response to the count is for the next request.
    let order = shared.orders().pop_front();
    let seen = shared.record(note(&connection, &request));
    Ok(match order {
        Some(FaultOrder::Status(code)) => failure(code),
        Some(FaultOrder::Cut) => {
            let _ = connection.commands.send(Command::Cut(Cut::Reset));
            pending().await
        }
        Some(FaultOrder::CutMidBody) => {
            let commands = connection.commands.clone();
            let body = Half::then_close(Arc::clone(&connection.written), commands);
            Response::builder().header(CONTENT_LENGTH, Half::PROMISED).body(body).expect("a response")
        }
        Some(FaultOrder::Stall) => pending().await,
        None => {
            let user = user(&shared.access(), &seen);
            match user {
                Some(user) => {
                    let own = match &shared.endpoint {
                        Some(own) => own(request),
                        None => ControlFlow::Continue(request),
                    };
                    match own {
                        ControlFlow::Break(response) => response.await,
                        ControlFlow::Continue(request) => endpoint(request, seen, user).await,
                    }
                }
                None => failure(401),
            }
        }
    })
}

fn note(connection: &Connection, request: &Request<Incoming>) -> SeenRequest {
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    SeenRequest {
        number: 0,
        connection: connection.number,
        method: request.method().to_string(),
        path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        alpn: connection.alpn.clone(),
        resumed: connection.resumed,
        peer: connection.peer.clone(),
    }
}

/// In the order of kube-apiserver: a valid certificate is sufficient, whatever the token.
fn user(access: &Access, seen: &SeenRequest) -> Option<Value> {
    if let Some(peer) = &seen.peer
        && (!access.restricted || access.clients.contains(&peer.common_name))
    {
        return Some(json!({ "username": peer.common_name, "groups": peer.organisations }));
    }
    match seen.bearer() {
        Some(token) if access.restricted => Some(json!({ "username": access.tokens.get(token)? })),
        Some(_) => Some(json!({ "username": "token-user" })),
        None if access.restricted => None,
        None => Some(json!({ "username": "system:anonymous", "groups": ["system:unauthenticated"] })),
    }
}

async fn endpoint(request: Request<Incoming>, seen: SeenRequest, user: Value) -> Response<AnyBody> {
    match (request.method(), request.uri().path()) {
        (_, "/echo") => {
            let mut echo = serde_json::to_value(&seen).expect("plain data");
            let Ok(body) = request.into_body().collect().await else { return failure(400) };
            echo["body"] = String::from_utf8_lossy(&body.to_bytes()).into();
            object(200, &echo)
        }
        (&Method::GET, "/version") => {
            object(200, &json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.0", "platform": "linux/amd64" }))
        }
        (&Method::GET, "/readyz") => Response::new(whole("ok")),
        (&Method::GET, "/api/v1/namespaces") => {
            let items = ["default", "kube-system"].map(|name| json!({ "metadata": { "name": name } }));
            let metadata = json!({ "resourceVersion": "1" });
            object(200, &json!({ "kind": "NamespaceList", "apiVersion": "v1", "metadata": metadata, "items": items }))
        }
        (&Method::GET, "/watch") => {
            let number = |name| parameter(request.uri().query().unwrap_or_default(), name);
            let pause = Duration::from_millis(number("interval_ms").unwrap_or(100));
            let count = number("count").and_then(|count| usize::try_from(count).ok());
            Response::builder()
                .header(CONTENT_TYPE, "application/json")
                .body(Events::every(pause, count))
                .expect("a response")
        }
        (&Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews") => object(
            201,
            &json!({
                "kind": "SelfSubjectReview",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": { "creationTimestamp": null },
                "status": { "userInfo": user },
            }),
        ),
        _ => failure(404),
    }
}

fn parameter(query: &str, name: &str) -> Option<u64> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// Encodes an error as kube-apiserver does.
fn failure(code: u16) -> Response<AnyBody> {
    let phrase = StatusCode::from_u16(code).expect("a status code").canonical_reason().unwrap_or("Unknown");
    let reason = if code == 500 { "InternalError".to_owned() } else { phrase.replace(' ', "") };
    object(
        code,
        &json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": phrase,
            "reason": reason,
            "code": code,
        }),
    )
}

fn object(code: u16, object: &Value) -> Response<AnyBody> {
    Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json")
        .body(whole(object.to_string()))
        .expect("a response")
}
