//! Sends a GET request to the API server of the current kubeconfig context and prints the response:
//! `cargo run -p credlet-client --example get -- /api/v1/namespaces?limit=3`.
//!
//! Without an argument it requests `/version`. Exits with code 1 if the status is not a success.

use std::io::Write as _;
use std::process::ExitCode;

use credlet_client::Client;
use http_body_util::BodyExt as _;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stderr, reason = "an example for the terminal")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/version".to_owned());
    // Reads `$KUBECONFIG` or `~/.kube/config`. The exec plugin, if any, is run by the first request.
    let client = Client::try_default()?;
    let response = match client.get(&path).await {
        Ok(response) => response,
        Err(credlet_client::Error::Credential(error)) => {
            eprintln!("error: {error}");
            error.hints().iter().for_each(|hint| eprintln!("hint: {hint}"));
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    let status = response.status();
    eprintln!("{status}");
    let body = response.into_body().collect().await?.to_bytes();
    std::io::stdout().write_all(&body)?;
    Ok(if status.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
