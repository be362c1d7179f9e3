//! What all providers do alike.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use credlet_api::image::{CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, parse_duration};
use credlet_api::plugin::{self, Failure};

/// Reads the arguments, which begin with the program's name, and then the request, and prints the answer.
pub(super) fn run<A: Parser>(
    args: Vec<OsString>,
    io: plugin::World<'_>,
    answer: impl FnOnce(&A, &CredentialProviderRequest) -> Result<CredentialProviderResponse, Failure>,
) -> ExitCode {
    match A::try_parse_from(args) {
        Ok(args) => plugin::run(io, |request: CredentialProviderRequest| answer(&args, &request)),
        Err(error) => {
            let (to, code) = if error.use_stderr() { (io.stderr, 2) } else { (io.stdout, 0) };
            // Nobody is there to be told if this fails.
            let _ = write!(to, "{}", error.render());
            ExitCode::from(code)
        }
    }
}

/// The registry that the image is in: all before its first slash, port included.
pub(super) fn registry(request: &CredentialProviderRequest) -> Result<&str, Failure> {
    match request.image.split('/').next() {
        Some(registry) if !registry.is_empty() => Ok(registry),
        _ => Err(Failure::new("the request names no image")),
    }
}

/// The answer of one who has nothing for this registry. It is not remembered: whoever logs in or changes the
/// configuration now wants to pull now.
pub(super) fn nothing(cache_key_type: CacheKeyType) -> CredentialProviderResponse {
    CredentialProviderResponse { cache_key_type, cache_duration: Some(Duration::ZERO), auth: BTreeMap::new() }
}

/// Waits for what may fail.
pub(super) fn wait<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new("this system has no means to wait").because(&error))?;
    let outcome = runtime.block_on(future);
    // Not waiting for a name that is still being looked up.
    runtime.shutdown_background();
    outcome
}

/// A duration of an argument.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| format!("it {error}"))?;
    Duration::try_from(duration).map_err(|_| "it is negative".to_owned())
}
