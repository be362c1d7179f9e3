//! Exec plugin for Oracle Kubernetes Engine, a replacement of `oci ce cluster generate-token`.
//!
//! [`run`] parses the flags of oci-cli, `config` reads the key from `~/.oci/config` or the environment, and `token` signs a request
//! with it, without network access.

mod args;
mod config;
mod token;

use std::ffi::OsString;
use std::process::ExitCode;

use credlet_api::escape_control_chars;
use credlet_api::exec::ExecCredentialStatus;
use credlet_exec::Platform;
use credlet_plugin::{self as plugin, Failure};

use self::args::OkeArgs;
use self::config::OciSigner;
use crate::oauth;
use crate::plugin_runner;

/// Runs the plugin. `args` begin with the program name.
///
/// Without `KUBERNETES_EXEC_INFO` it prints v1beta1, like oci-cli.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    plugin_runner::run_exec(args, platform, io, |args, _| fetch_credential(&args, platform))
}

fn fetch_credential(args: &OkeArgs, platform: &Platform) -> Result<ExecCredentialStatus, Failure> {
    if let Some(command) = args.unexpected_command() {
        let message = format!("unknown command `{}`", escape_control_chars(command));
        return Err(Failure::new(message).hint("use `ce cluster generate-token`"));
    }
    let cluster = args.cluster_id.as_deref().filter(|cluster| !cluster.is_empty());
    let cluster = cluster.ok_or_else(|| Failure::new("missing cluster id").hint("pass `--cluster-id OCID`"))?;
    // The id is signed as part of a path.
    if !cluster.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        return Err(Failure::new("invalid cluster id: not an OCID"));
    }
    let now = platform.clock.now();
    let signer = OciSigner::load(args, &*platform.env).map_err(oauth::into_failure)?;
    let over = signer.session.as_ref().and_then(credlet_api::oidc::jwt_expiry).filter(|end| *end <= now);
    if let Some(end) = over {
        // oci-cli would prompt for a new login here, which hangs under kubectl.
        return Err(Failure::new(format!("the OCI session expired at {end}"))
            .hint("renew it with `oci session refresh`, or log in with `oci session authenticate`"));
    }
    let endpoint = args.endpoint.clone().unwrap_or_else(|| token::endpoint(&signer.region));
    token::token(cluster, &endpoint, &signer, now).map_err(oauth::into_failure)
}
