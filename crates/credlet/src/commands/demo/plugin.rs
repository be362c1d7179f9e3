//! The exec plugin of the demo, an example for plugin authors. kubectl can run it too.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_exec::{Env as _, SystemEnv};
use credlet_platform::local_socket::BlockingLocalStream;
use credlet_plugin::{self as plugin, Failure};
use jiff::Timestamp;

/// Variable with the socket of the issuer.
pub(super) const ISSUER: &str = "CREDLET_DEMO_ISSUER";

/// Variable with the requested kind of credential.
pub(super) const CREDENTIAL_KIND: &str = "CREDLET_DEMO_WANTED";

/// Runs the plugin.
pub(crate) fn main() -> ExitCode {
    plugin::main(|_: ExecInfo| {
        let required = |name| {
            let failure =
                || Failure::new(format!("missing variable {name}")).hint("run `credlet demo`, which runs this plugin");
            SystemEnv.var(name).ok_or_else(failure)
        };
        let (issuer, kind) = (required(ISSUER)?, required(CREDENTIAL_KIND)?);
        let mut stream = BlockingLocalStream::connect(Path::new(&issuer))
            .map_err(|error| Failure::new("failed to connect to the issuer of the demo").because(&error))?;
        stream.write_all(kind.as_encoded_bytes())?;
        stream.shutdown_write()?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        parse(&Secret::new(response)).ok_or_else(|| Failure::new("the issuer of the demo denied the refresh"))
    })
}

/// Parses the issuer's response: a line with the expiry, then a token, or a certificate and, after an empty line, its key.
fn parse(response: &Secret) -> Option<ExecCredentialStatus> {
    let (expires, credential) = response.expose().split_once('\n')?;
    let status = match credential.split_once("\n\n") {
        Some((certificate, key)) => ExecCredentialStatus::certificate(certificate, key),
        None => ExecCredentialStatus::token(credential),
    };
    Some(status.with_expiration(Timestamp::from_second(expires.parse().ok()?).ok()?))
}
