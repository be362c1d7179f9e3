//! The plugin's side: what a plugin author writes. `kubectl` can run it as well.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure};
use credlet_core::{Env as _, SystemEnv};
use jiff::Timestamp;

/// Where the issuer listens.
pub(super) const ISSUER: &str = "CREDLET_DEMO_ISSUER";

/// The kind of credential that is wanted.
pub(super) const WANTED: &str = "CREDLET_DEMO_WANTED";

/// The plugin.
pub(crate) fn main() -> ExitCode {
    plugin::main(|_: ExecInfo| {
        let told = |name| {
            let failure = || Failure::new("this is the plugin that `credlet demo` runs").hint("run `credlet demo`");
            SystemEnv.var(name).ok_or_else(failure)
        };
        let (issuer, wanted) = (told(ISSUER)?, told(WANTED)?);
        let mut stream = UnixStream::connect(issuer)
            .map_err(|error| Failure::new("the demo's login service is not there").because(&error))?;
        stream.write_all(wanted.as_encoded_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        credential(&Secret::new(answer)).ok_or_else(|| Failure::new("the demo's login service refuses to renew"))
    })
}

/// The issuer's answer: when it expires, then a token, or a certificate and, after an empty line, its key.
fn credential(answer: &Secret) -> Option<ExecCredentialStatus> {
    let (expires, credential) = answer.expose().split_once('\n')?;
    let status = match credential.split_once("\n\n") {
        Some((certificate, key)) => ExecCredentialStatus::certificate(certificate, key),
        None => ExecCredentialStatus::token(credential),
    };
    Some(status.expiring(Timestamp::from_second(expires.parse().ok()?).ok()?))
}
