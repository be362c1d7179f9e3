//! The callers: requests without end, each a different one, and a watch that stays open.

use std::sync::Arc;
use std::time::Duration;

use credlet_client::Client;
use credlet_client::conn::Payload;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::board::Board;
use crate::error::chain;

/// Between two requests of one caller. A demo should not warm the room.
const PAUSE: Duration = Duration::from_millis(8);

/// Callers until it is dropped.
pub(super) struct Traffic(JoinSet<()>);

impl Traffic {
    pub(super) fn new() -> Self {
        Self(JoinSet::new())
    }

    /// So many callers more.
    pub(super) fn callers(&mut self, count: usize, client: &Client, board: &Arc<Board>) {
        for caller in 0..count {
            let (client, board) = (client.clone(), Arc::clone(board));
            self.0.spawn(async move {
                for number in caller.. {
                    ask(&client, &board, number).await;
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }

    /// A watch, for as long as it lasts.
    pub(super) fn watch(&mut self, client: &Client, board: &Arc<Board>) {
        let (client, board) = (client.clone(), Arc::clone(board));
        self.0.spawn(async move {
            let answer = send(&client, get("/api/v1/namespaces?watch=true")).await;
            let Ok(answer) = answer.inspect_err(|reason| board.answered(Duration::ZERO, Err(reason.clone()))) else {
                return;
            };
            board.watch_opened();
            let mut body = answer.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                (0..lines).for_each(|_| board.watch_event());
            }
            board.watch_ended();
        });
    }
}

/// All of these at once.
pub(super) async fn at_once(count: usize, client: &Client, board: &Arc<Board>) {
    let mut callers = JoinSet::new();
    for number in 0..count {
        let (client, board) = (client.clone(), Arc::clone(board));
        callers.spawn(async move { ask(&client, &board, number).await });
    }
    while callers.join_next().await.is_some() {}
}

/// One request, read to its end and noted.
async fn ask(client: &Client, board: &Board, number: usize) {
    let began = Instant::now();
    let outcome = match send(client, request(number)).await {
        Ok(answer) => answer.into_body().collect().await.map(drop).map_err(|error| chain(&error)),
        Err(reason) => Err(reason),
    };
    board.answered(began.elapsed(), outcome);
}

/// Reads and a write, by turns.
fn request(number: usize) -> Request<Payload> {
    const REVIEW: &str = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
    match number % 3 {
        0 => get("/version"),
        1 => get("/api/v1/namespaces"),
        _ => {
            let mut request = Request::new(Payload::from(REVIEW));
            *request.method_mut() = http::Method::POST;
            *request.uri_mut() = http::Uri::from_static("/apis/authentication.k8s.io/v1/selfsubjectreviews");
            request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            request
        }
    }
}

pub(super) fn get(path: &'static str) -> Request<Payload> {
    let mut request = Request::new(Payload::empty());
    *request.uri_mut() = http::Uri::from_static(path);
    request
}

async fn send(
    client: &Client,
    request: Request<Payload>,
) -> Result<http::Response<credlet_client::conn::Body>, String> {
    match client.send(request).await {
        Ok(answer) if answer.status().is_success() => Ok(answer),
        Ok(answer) => Err(format!("the server answered {}", answer.status())),
        Err(error) => Err(chain(&*error)),
    }
}

/// What the server says to this client, whatever that is.
pub(super) async fn status(client: &Client) -> Option<StatusCode> {
    client.send(get("/version")).await.ok().map(|answer| answer.status())
}
