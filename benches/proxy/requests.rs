use std::time::Duration;

use crate::connection::LoadConnection;
use crate::{RunResult, micros, now, percentile, tell};

/// Each connection sends its next request after reading the previous response.
pub(crate) async fn run(place: &str, host: &str, path: &str, connections: &str, seconds: &str) -> RunResult {
    let end = now() + Duration::from_secs_f64(seconds.parse()?);
    let mut tasks = Vec::new();
    for _ in 0..connections.parse::<usize>()? {
        let (path, mut connection) = (path.to_owned(), LoadConnection::to(place, host).await?);
        tasks.push(tokio::spawn(async move {
            let (mut times, mut bytes) = (Vec::new(), 0);
            let mut began = now();
            // At least one request.
            loop {
                bytes += connection.get(&path).await?;
                let ended = now();
                times.push(micros(ended - began));
                if ended >= end {
                    break;
                }
                began = ended;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((times, bytes))
        }));
    }
    let (mut times, mut bytes) = (Vec::new(), 0);
    for task in tasks {
        let (some, more) = task.await??;
        times.extend(some);
        bytes += more;
    }
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    tell(&format!("requests={} bytes={bytes} p50={p50} p99={p99}", times.len()));
    Ok(())
}
