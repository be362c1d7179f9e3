//! An exec credential plugin that prints a bearer token from a file.
//!
//! ```sh
//! cargo build -p credlet-plugin --example token
//! printf my-token > /tmp/token
//! export KUBERNETES_EXEC_INFO='{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}'
//! target/debug/examples/token /tmp/token
//! ```
//!
//! In a kubeconfig:
//!
//! ```yaml
//! users:
//! - name: ada
//!   user:
//!     exec:
//!       apiVersion: client.authentication.k8s.io/v1
//!       command: /usr/local/bin/token
//!       args: [/run/secrets/token]
//!       interactiveMode: Never
//! ```

use std::process::ExitCode;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_plugin::Failure;

fn main() -> ExitCode {
    credlet_plugin::main(|_: ExecInfo| {
        let path = std::env::args().nth(1).ok_or_else(|| Failure::new("missing argument: path of the token"))?;
        let file = std::fs::read_to_string(&path).map_err(|error| {
            Failure::new(format!("failed to read {path}")).because(&error).hint("create the file with a token in it")
        })?;
        Ok(ExecCredentialStatus::token(Secret::new(file.trim())))
    })
}
