//! Both sides of a proxy for `benches/proxy/run`: an API server behind it, and a load generator for Unix sockets in front of it.
//!
//! ```text
//! proxy-load upstream DIR                              an API server that requires a client certificate; its files in DIR
//! proxy-load requests PLACE HOST PATH CONNECTIONS SECONDS   as many GETs as possible
//! proxy-load watches PLACE HOST PATH COUNT                  COUNT open watches, then GETs, until stdin is closed
//! proxy-load events PLACE HOST PATH                         delay of watch events
//! ```
//!
//! HOST is the server's `host:port`. A PLACE is `SOCKET`, the path of a socket; `SOCKET@DIR` where TLS is spoken there, with
//! the certificates in DIR; or `@DIR` for the server itself. Each prints one line of `name=value` pairs.

mod connection;
mod events;
mod requests;
mod upstream;
mod watches;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type RunResult = Result<(), Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["upstream", dir] => upstream::run(dir.as_ref()).await,
        ["requests", place, host, path, connections, seconds] => {
            requests::run(place, host, path, connections, seconds).await
        }
        ["watches", place, host, path, count] => watches::run(place, host, path, count).await,
        ["events", place, host, path] => events::run(place, host, path).await,
        _ => Err("see the head of benches/proxy/main.rs".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// credlet's clock has a resolution of milliseconds, too coarse here.
#[expect(clippy::disallowed_methods, reason = "microseconds are what is measured")]
fn now() -> Instant {
    Instant::now()
}

/// Wall clock in microseconds, comparable between processes.
#[expect(clippy::disallowed_methods, reason = "microseconds are what is measured")]
fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Prints one line of results.
#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn tell(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "printing is what it is for")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// Waits until standard input is closed.
async fn until_let_go() -> RunResult {
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    Ok(())
}

/// The quantile `part`.
fn percentile(values: &mut [u64], part: usize) -> u64 {
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    values.get(last * part / 100).copied().unwrap_or_default()
}
