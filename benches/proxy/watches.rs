use http_body_util::BodyExt as _;

use crate::connection::LoadConnection;
use crate::{RunResult, micros, now, percentile, tell, until_let_go};

/// Enough requests to see a stall.
const BEHIND: usize = 50;

/// Opens watches, reads the first event of each, then sends other requests.
pub(crate) async fn run(place: &str, host: &str, path: &str, count: &str) -> RunResult {
    let mut open = Vec::new();
    for _ in 0..count.parse::<usize>()? {
        let mut connection = LoadConnection::to(place, host).await?;
        let mut body = connection.begin(path).await?.into_body();
        body.frame().await.ok_or("a watch ended before its first event")??;
        open.push((connection, body));
    }
    let mut behind = LoadConnection::to(place, host).await?;
    let mut times = Vec::new();
    for _ in 0..BEHIND {
        let began = now();
        behind.get("/version").await?;
        times.push(micros(now() - began));
    }
    tell(&format!("open={} behind={}", open.len(), percentile(&mut times, 50)));
    until_let_go().await
}
