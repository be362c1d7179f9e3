//! SDK for Kubernetes exec credential plugins and kubelet image credential providers.
//!
//! [`main`] decodes the request, calls a function of the plugin author, and prints its result in the API version that
//! the client requested. The type of the function's argument selects the protocol:
//! [`ExecInfo`](credlet_api::exec::ExecInfo) for an exec plugin,
//! [`CredentialProviderRequest`](credlet_api::image::CredentialProviderRequest) for an image credential provider.
//! [`run`] does the same with the streams of the caller, for tests.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
//! use credlet_plugin::Failure;
//!
//! fn main() -> ExitCode {
//!     credlet_plugin::main(|_: ExecInfo| {
//!         let token = std::fs::read_to_string("/run/secrets/token")
//!             .map_err(|error| Failure::new("failed to read the token").because(&error).hint("run `acme login`"))?;
//!         Ok(ExecCredentialStatus::token(token.trim()))
//!     })
//! }
//! ```
//!
//! # Output
//! On success standard output contains the response and nothing else, and the exit code is 0. On failure standard
//! output is empty, standard error contains the message and hints of the [`Failure`], and the exit code is 1 or that of
//! the failure.

mod exec;
mod failure;
mod image;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use zeroize::Zeroizing;

pub use self::failure::Failure;

/// The request of a plugin protocol.
pub trait PluginRequest: Clone {
    /// The result of the plugin.
    type Response;

    /// Decodes the request.
    ///
    /// # Errors
    /// If the request is missing or cannot be decoded.
    fn read(io: &mut PluginIo<'_>) -> Result<Self, Failure>;

    /// Validates the response and encodes it in the API version of the request.
    ///
    /// # Errors
    /// If clients would reject the response.
    fn encode_response(&self, response: &Self::Response) -> Result<Zeroizing<String>, Failure>;
}

/// Input and output of a plugin. [`main`] uses those of the process; tests provide their own.
pub struct PluginIo<'a> {
    /// Value of `KUBERNETES_EXEC_INFO`.
    pub exec_info: Option<OsString>,
    /// Standard input. An image provider reads its request from it.
    pub stdin: &'a mut dyn Read,
    /// Standard output. Receives the response, and nothing after a failure.
    pub stdout: &'a mut dyn Write,
    /// Standard error. Receives the message and the hints of a failure.
    pub stderr: &'a mut dyn Write,
}

/// Runs a plugin with the environment and the standard streams of the process. Returns the exit code for `main`.
pub fn main<R: PluginRequest>(plugin: impl FnOnce(R) -> Result<R::Response, Failure>) -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "a plugin owns its process, and its author needs no other crate")]
    let exec_info = std::env::var_os(credlet_api::exec::EXEC_INFO_ENV);
    run(
        PluginIo {
            exec_info,
            stdin: &mut io::stdin().lock(),
            stdout: &mut io::stdout().lock(),
            stderr: &mut io::stderr().lock(),
        },
        plugin,
    )
}

/// Runs a plugin with the given input and output. Returns its exit code.
///
/// ```
/// use std::process::ExitCode;
///
/// use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
/// use credlet_plugin::{PluginIo, run};
///
/// let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
/// let io = PluginIo {
///     exec_info: Some(r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}"#.into()),
///     stdin: &mut std::io::empty(),
///     stdout: &mut stdout,
///     stderr: &mut stderr,
/// };
/// let code = run(io, |_: ExecInfo| Ok(ExecCredentialStatus::token("t")));
/// assert_eq!(code, ExitCode::SUCCESS);
/// assert!(stdout.starts_with(br#"{"kind":"ExecCredential","#) && stderr.is_empty());
/// ```
pub fn run<R: PluginRequest>(mut io: PluginIo<'_>, plugin: impl FnOnce(R) -> Result<R::Response, Failure>) -> ExitCode {
    let output = R::read(&mut io).and_then(|request| {
        let response = plugin(request.clone())?;
        request.encode_response(&response)
    });
    let written = output.and_then(|output| {
        let written = io.stdout.write_all(output.as_bytes()).and_then(|()| io.stdout.flush());
        written.map_err(|error| Failure::new("failed to write the credential to stdout").because(&error))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed as well, only the exit code reports the failure.
            let _ = write!(io.stderr, "{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
