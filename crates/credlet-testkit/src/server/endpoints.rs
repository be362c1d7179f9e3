//! Responses of the server.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use credlet_apiserver::authn::AuthenticatedUser;
use credlet_apiserver::response::{self, ResponseBody, StatusError, object};
use credlet_apiserver::{Handler, RequestContext, ResponseFuture};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Interval, interval};

/// A test's handler for authenticated requests. Returns the request if it does not handle it.
pub(super) type Endpoint =
    Box<dyn Fn(Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> + Send + Sync>;

/// Calls the test's handler, then those of the server.
pub(super) struct TestEndpoints {
    pub(super) own: Option<Endpoint>,
}

impl Handler for TestEndpoints {
    fn handle(&self, request: Request<Incoming>, context: RequestContext) -> ResponseFuture {
        let own = match &self.own {
            Some(own) => own(request),
            None => ControlFlow::Continue(request),
        };
        match own {
            ControlFlow::Break(response) => response,
            ControlFlow::Continue(request) => Box::pin(endpoint(request, context)),
        }
    }
}

async fn endpoint(request: Request<Incoming>, context: RequestContext) -> Response<ResponseBody> {
    match (request.method(), request.uri().path()) {
        (_, "/echo") => {
            let mut echo = serde_json::to_value(&context.record).expect("plain data");
            let Ok(body) = request.into_body().collect().await else { return failure(StatusCode::BAD_REQUEST) };
            echo["body"] = String::from_utf8_lossy(&body.to_bytes()).into();
            object(StatusCode::OK, &echo)
        }
        (&Method::GET, "/version") => object(
            StatusCode::OK,
            &json!({ "major": "1", "minor": "34", "gitVersion": "v1.34.0", "platform": "linux/amd64" }),
        ),
        (&Method::GET, "/readyz") => response::text("ok"),
        (&Method::GET, "/api/v1/namespaces") => {
            let items = ["default", "kube-system"].map(|name| json!({ "metadata": { "name": name } }));
            let metadata = json!({ "resourceVersion": "1" });
            object(
                StatusCode::OK,
                &json!({ "kind": "NamespaceList", "apiVersion": "v1", "metadata": metadata, "items": items }),
            )
        }
        (&Method::GET, "/watch") => {
            let number = |name| parameter(request.uri().query().unwrap_or_default(), name);
            let pause = Duration::from_millis(number("interval_ms").unwrap_or(100));
            let count = number("count").and_then(|count| usize::try_from(count).ok());
            response::stream(Events::every(pause, count))
        }
        (&Method::POST, "/apis/authentication.k8s.io/v1/selfsubjectreviews") => object(
            StatusCode::CREATED,
            &json!({
                "kind": "SelfSubjectReview",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": { "creationTimestamp": null },
                "status": { "userInfo": user_info(&context.user) },
            }),
        ),
        _ => failure(StatusCode::NOT_FOUND),
    }
}

/// Returns the user as in a `SelfSubjectReview`, without the list of groups if it is empty.
fn user_info(user: &AuthenticatedUser) -> Value {
    if user.groups.is_empty() {
        return json!({ "username": user.name });
    }
    json!({ "username": user.name, "groups": user.groups })
}

fn parameter(query: &str, name: &str) -> Option<u64> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn failure(code: StatusCode) -> Response<ResponseBody> {
    StatusError::Other(code).into_response()
}

/// A body of one JSON line per tick, the first one at once.
pub(super) struct Events {
    ticks: Interval,
    sent: usize,
    count: Option<usize>,
}

impl Events {
    pub(super) fn every(time: Duration, count: Option<usize>) -> ResponseBody {
        // tokio rejects an interval of zero.
        Self { ticks: interval(time.max(Duration::from_micros(1))), sent: 0, count }.boxed_unsync()
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.count.is_some_and(|count| self.sent >= count) {
            return Poll::Ready(None);
        }
        ready!(self.ticks.poll_tick(cx));
        self.sent += 1;
        let object = serde_json::json!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": { "name": "default", "resourceVersion": self.sent.to_string() },
        });
        let line = format!("{}\n", serde_json::json!({ "type": "MODIFIED", "object": object }));
        Poll::Ready(Some(Ok(Frame::data(line.into()))))
    }
}
