//! Obtains an access token for GKE in this process and prints its expiry: `cargo run -p credlet-cloud --example gke_token`.
//!
//! Uses the application default credentials: `$GOOGLE_APPLICATION_CREDENTIALS`, the file of
//! `gcloud auth application-default login`, or the metadata server. The token is not printed.

use credlet_cloud::gcp::{CLOUD_PLATFORM, GoogleClient, GoogleCredentialSource, USERINFO_EMAIL};
use credlet_exec::Platform;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example for the terminal")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let platform = Platform::system();
    let source = GoogleCredentialSource::application_default(&*platform.env)?;
    // Without the cache on disk, which the plugin `credlet-gke` uses between processes.
    let google = GoogleClient::new(&platform).without_cache();
    let token = google.token(&source, &[CLOUD_PLATFORM, USERINFO_EMAIL]).await?;
    // For a request: `format!("Bearer {}", token.token.expose())`.
    match token.expires {
        Some(expires) => println!("token of {} bytes, expires {expires}", token.token.expose().len()),
        None => println!("token of {} bytes, expiry unknown", token.token.expose().len()),
    }
    Ok(())
}
