//! Credentials for Oracle Kubernetes Engine, without oci-cli.
//!
//! **The path:** [`run`] reads the flags of `oci ce cluster generate-token` → `config` finds the key in `~/.oci/config` or
//! the variables → `token` signs a request with it, which needs nobody but this machine.

mod args;
mod config;
mod token;

use std::ffi::OsString;
use std::process::ExitCode;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure};
use credlet_api::visible;
use credlet_core::World;

use self::args::Args;
use self::config::Signer;
use crate::harness;
use crate::oauth;

/// The whole of the plugin. `args` begin with the program's name.
///
/// Like oci-cli it also answers when nobody has said in which version, in v1beta1.
pub fn run(args: Vec<OsString>, world: &World, mut io: plugin::World<'_>) -> ExitCode {
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    harness::answer_anybody(world, &mut io);
    plugin::run(io, |_: ExecInfo| answer(&args, world))
}

fn answer(args: &Args, world: &World) -> Result<ExecCredentialStatus, Failure> {
    if let Some(word) = args.stray() {
        let message = format!("`{}` is no command of this plugin", visible(word));
        return Err(Failure::new(message).hint("it knows `ce cluster generate-token`"));
    }
    let cluster = args.cluster_id.as_deref().filter(|cluster| !cluster.is_empty());
    let cluster = cluster.ok_or_else(|| Failure::new("which cluster?").hint("say it with `--cluster-id OCID`"))?;
    // It is signed as a part of a path.
    if !cluster.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        return Err(Failure::new("the cluster's id has characters that no OCID has"));
    }
    let now = world.clock.now();
    let signer = Signer::load(args, &*world.env).map_err(oauth::failure)?;
    let over = signer.session.as_ref().and_then(credlet_api::oidc::expiry).filter(|end| *end <= now);
    if let Some(end) = over {
        // oci-cli asks here whether to log in again, and kubectl waits for an answer that nobody can give.
        return Err(Failure::new(format!("the session of OCI ended at {end}"))
            .hint("renew it with `oci session refresh`, or log in with `oci session authenticate`"));
    }
    let endpoint = args.endpoint.clone().unwrap_or_else(|| token::endpoint(&signer.region));
    token::token(cluster, &endpoint, &signer, now).map_err(oauth::failure)
}
