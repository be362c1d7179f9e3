use http_body_util::BodyExt as _;

use crate::connection::LoadConnection;
use crate::{RunResult, percentile, tell, time_of_day};

/// Reads a watch whose events contain their send time.
pub(crate) async fn run(place: &str, host: &str, path: &str) -> RunResult {
    let mut connection = LoadConnection::to(place, host).await?;
    let mut body = connection.begin(path).await?.into_body();
    let mut ages = Vec::new();
    while let Some(frame) = body.frame().await {
        let now = time_of_day();
        let frame = frame?;
        let Some(line) = frame.data_ref().and_then(|data| std::str::from_utf8(data).ok()) else { continue };
        if let Some(sent) = line.lines().last().and_then(|line| line.parse::<u64>().ok()) {
            ages.push(now.saturating_sub(sent));
        }
    }
    tell(&format!("events={} age={}", ages.len(), percentile(&mut ages, 50)));
    Ok(())
}
