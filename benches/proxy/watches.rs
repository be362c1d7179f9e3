use http_body_util::BodyExt as _;

use crate::connection::Connection;
use crate::{Done, micros, now, percentile, tell, until_let_go};

/// Enough to see a stall.
const BEHIND: usize = 50;

/// Opens watches, reads the first event of each, and then asks for something else.
pub(crate) async fn run(place: &str, host: &str, path: &str, count: &str) -> Done {
    let mut open = Vec::new();
    for _ in 0..count.parse::<usize>()? {
        let mut connection = Connection::to(place, host).await?;
        let mut body = connection.begin(path).await?.into_body();
        body.frame().await.ok_or("a watch ended before its first event")??;
        open.push((connection, body));
    }
    let mut behind = Connection::to(place, host).await?;
    let mut times = Vec::new();
    for _ in 0..BEHIND {
        let began = now();
        behind.get("/version").await?;
        times.push(micros(now() - began));
    }
    tell(&format!("open={} behind={}", open.len(), percentile(&mut times, 50)));
    until_let_go().await
}
