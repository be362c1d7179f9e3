//! Traffic of the demo: continuous requests of several callers, and a watch.

use std::sync::Arc;
use std::time::Duration;

use credlet_client::Client;
use credlet_http::RequestBody;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::state::DemoState;
use crate::error::chain;

/// Time between two requests of one caller, which limits the CPU usage.
const REQUEST_INTERVAL: Duration = Duration::from_millis(8);

/// Tasks that send requests. Dropping it stops them.
pub(super) struct TrafficGenerator(JoinSet<()>);

impl TrafficGenerator {
    pub(super) fn new() -> Self {
        Self(JoinSet::new())
    }

    /// Starts callers that send requests continuously.
    pub(super) fn spawn_callers(&mut self, count: usize, client: &Client, state: &Arc<DemoState>) {
        for caller in 0..count {
            let (client, state) = (client.clone(), Arc::clone(state));
            self.0.spawn(async move {
                for number in caller.. {
                    send_and_record(&client, &state, number).await;
                    tokio::time::sleep(REQUEST_INTERVAL).await;
                }
            });
        }
    }

    /// Starts a watch, which records its events until it closes.
    pub(super) fn spawn_watch(&mut self, client: &Client, state: &Arc<DemoState>) {
        let (client, state) = (client.clone(), Arc::clone(state));
        self.0.spawn(async move {
            let response = send(&client, get("/api/v1/namespaces?watch=true")).await;
            let Ok(response) = response.inspect_err(|reason| state.record_request(Duration::ZERO, Err(reason.clone())))
            else {
                return;
            };
            state.watch_opened();
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                (0..lines).for_each(|_| state.watch_event());
            }
            state.watch_closed();
        });
    }
}

/// Sends this many requests concurrently.
pub(super) async fn send_concurrently(count: usize, client: &Client, state: &Arc<DemoState>) {
    let mut callers = JoinSet::new();
    for number in 0..count {
        let (client, state) = (client.clone(), Arc::clone(state));
        callers.spawn(async move { send_and_record(&client, &state, number).await });
    }
    while callers.join_next().await.is_some() {}
}

/// Sends one request, reads the whole response and records the result.
async fn send_and_record(client: &Client, state: &DemoState, number: usize) {
    let began = Instant::now();
    let outcome = match send(client, request(number)).await {
        Ok(response) => response.into_body().collect().await.map(drop).map_err(|error| chain(&error)),
        Err(reason) => Err(reason),
    };
    state.record_request(began.elapsed(), outcome);
}

/// Returns two kinds of reads and a write in turn.
fn request(number: usize) -> Request<RequestBody> {
    const REVIEW: &str = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
    match number % 3 {
        0 => get("/version"),
        1 => get("/api/v1/namespaces"),
        _ => {
            let mut request = Request::new(RequestBody::from(REVIEW));
            *request.method_mut() = http::Method::POST;
            *request.uri_mut() = http::Uri::from_static("/apis/authentication.k8s.io/v1/selfsubjectreviews");
            request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            request
        }
    }
}

pub(super) fn get(path: &'static str) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = http::Uri::from_static(path);
    request
}

async fn send(
    client: &Client,
    request: Request<RequestBody>,
) -> Result<http::Response<credlet_http::ResponseBody>, String> {
    match client.send(request).await {
        Ok(response) if response.status().is_success() => Ok(response),
        Ok(response) => Err(format!("the server returned {}", response.status())),
        Err(error) => Err(chain(&error)),
    }
}

/// Returns the status of a request, or `None` if it failed.
pub(super) async fn status(client: &Client) -> Option<StatusCode> {
    client.send(get("/version")).await.ok().map(|response| response.status())
}
