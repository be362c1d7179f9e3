//! A proxy that is shared with a group, and how members find it.

use std::path::PathBuf;
use std::process::ExitCode;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo, ProxyConfig};
use credlet_api::plugin;
use credlet_core::Env;
use credlet_proxy::endpoint::Endpoint;
use credlet_proxy::server::ForGroup;
use nix::unistd::Group;

use super::plugin::{failure, no_locks, switched_on, world};
use super::signer::full_path;

/// Whom a proxy is shared with.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GroupArgs {
    /// A group, by name or number, whose members may use the proxy as well, by a socket of their own
    #[arg(long, value_name = "GROUP", value_parser = group)]
    socket_group: Option<u32>,
    /// Where that socket is [default: /run/credlet-shared for root, else credlet-shared-UID in $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", value_parser = full_path, requires = "socket_group")]
    socket_dir: Option<PathBuf>,
}

impl GroupArgs {
    /// The socket, if one is wanted.
    pub(super) fn shared(&self, env: &dyn Env) -> Option<ForGroup> {
        let group = self.socket_group?;
        let usual = || match rustix::process::geteuid().as_raw() {
            0 => PathBuf::from("/run/credlet-shared"),
            uid => {
                let temporary = env.var("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
                temporary.unwrap_or_else(|| "/tmp".into()).join(format!("credlet-shared-{uid}"))
            }
        };
        Some(ForGroup { group, dir: self.socket_dir.clone().unwrap_or_else(usual) })
    }
}

fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = Group::from_name(text).map_err(|error| format!("nobody can say which group that is: {error}"))?;
    found.map(|group| group.gid.as_raw()).ok_or_else(|| "there is no such group".to_owned())
}

/// Which proxy to use.
#[derive(Debug, clap::Args)]
pub(super) struct JoinArgs {
    /// Its socket, as `credlet proxy status` shows it to its owner
    #[arg(value_name = "SOCKET", value_parser = full_path)]
    socket: PathBuf,
}

/// Sends a client to it. Whether it is one that can be trusted is for the client to see.
pub(super) fn join(args: &JoinArgs) -> ExitCode {
    plugin::run(world(), |info: ExecInfo| {
        switched_on().map_err(failure)?;
        if info.spec.lock_file_path.is_none() {
            return Err(failure(no_locks()));
        }
        let url = Endpoint::Unix(args.socket.clone()).to_string();
        let proxy_config = Some(ProxyConfig { url, ..ProxyConfig::default() });
        Ok(ExecCredentialStatus { proxy_config, ..ExecCredentialStatus::default() })
    })
}
