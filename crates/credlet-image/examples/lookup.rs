//! Looks up the credentials for an image like the kubelet and prints their origins and the trace of the lookup:
//!
//! ```sh
//! cargo run -p credlet-image --example lookup -- CONFIG BIN_DIR IMAGE
//! ```
//!
//! CONFIG is the kubelet's `--image-credential-provider-config`, BIN_DIR its `--image-credential-provider-bin-dir`. Passwords are
//! not printed.

use std::process::ExitCode;

use credlet_exec::Platform;
use credlet_image::{ImageCredentials, LookupRequest, ProviderOptions};

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "an example for the terminal")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [config, bin_dir, image] = &args[..] else {
        eprintln!("usage: lookup CONFIG BIN_DIR IMAGE");
        return Ok(ExitCode::from(2));
    };
    let credentials = ImageCredentials::load(config, bin_dir, ProviderOptions::default(), Platform::system())?;
    // Adds the mismatches of all patterns to the trace.
    let request = LookupRequest { near_misses: true, ..LookupRequest::default() };
    let found = credentials.look_up(image, &request).await?;
    print!("{}", found.trace);
    for credential in &found.credentials {
        println!("{}: user {} from {}", credential.key, credential.auth.username, credential.origin);
    }
    if found.credentials.is_empty() {
        println!("no credentials: {} would be pulled anonymously", found.image);
    }
    Ok(ExitCode::SUCCESS)
}
