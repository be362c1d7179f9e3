//! Obtains a token for an EKS cluster in this process and prints its expiry:
//!
//! ```sh
//! AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… cargo run -p credlet-cloud --example eks_token -- --cluster-name demo --region eu-west-3
//! ```
//!
//! Accepts the flags of `aws eks get-token`. With keys in the environment no request is sent. The token is not printed.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
use credlet_cloud::{aws::MfaPrompt, eks};
use credlet_exec::Platform;
use credlet_plugin::PluginIo;
use zeroize::Zeroizing;

/// Fails for a profile that requires an MFA code.
#[derive(Debug)]
struct NoMfa;

impl MfaPrompt for NoMfa {
    fn read_code(&self, _: &str) -> io::Result<Secret> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[expect(clippy::print_stdout, reason = "an example for the terminal")]
fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (version, spec) = (ApiVersion::V1, ExecCredentialSpec::default());
    let mut stdout = Zeroizing::new(Vec::new());
    let io = PluginIo {
        exec_info: Some(spec.encode(version).into()),
        stdin: &mut io::empty(),
        stdout: &mut *stdout,
        stderr: &mut io::stderr(),
    };
    // The whole plugin: source of the AWS credentials, role, signature. It needs no tokio runtime of the caller.
    let code = eks::run(std::env::args_os().collect(), &Platform::system(), Arc::new(NoMfa), io);
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let credential = ExecCredentialStatus::decode(&stdout, version, &spec)?;
    // For a request: `format!("Bearer {}", credential.token.expose())`.
    let expires = credential.expiration_timestamp.ok_or("the token has no expiry")?;
    println!("token of {} bytes, expires {expires}", credential.token.expose().len());
    Ok(ExitCode::SUCCESS)
}
