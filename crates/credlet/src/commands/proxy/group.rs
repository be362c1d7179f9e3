//! Proxies that are shared with a group.

use std::path::PathBuf;
use std::process::ExitCode;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo, ProxyConfig};
use credlet_exec::Env;
use credlet_platform::account::group_id_by_name;
use credlet_plugin as plugin;
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::endpoint::ProxyEndpoint;
use credlet_proxy::server::GroupSocket;

use super::daemon::usage_error;
use super::plugin::{check_enabled, failure, platform, unsupported_client};
use super::signer::absolute_path;
use crate::error::CliError;

/// Group that may use a proxy.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GroupArgs {
    /// Group, by name or id, whose members may use the proxy through a separate socket
    #[arg(long, value_name = "GROUP", value_parser = group)]
    socket_group: Option<u32>,
    /// Directory of the group's socket [default: /run/credlet-shared for root, else credlet-shared-UID in $TMPDIR or
    /// /tmp]
    #[arg(long, value_name = "DIR", value_parser = absolute_path, requires = "socket_group")]
    socket_dir: Option<PathBuf>,
}

impl GroupArgs {
    /// Returns the group socket, if requested. No other user can replace the default directory.
    pub(super) fn shared(&self, env: &dyn Env) -> Result<Option<GroupSocket>, CliError> {
        let Some(group) = self.socket_group else { return Ok(None) };
        let dir = match &self.socket_dir {
            Some(dir) => dir.clone(),
            None => ProxyDir::shared(env)
                .map_err(|error| usage_error(error).hint("choose another directory with --socket-dir"))?,
        };
        Ok(Some(GroupSocket { group, dir }))
    }
}

fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = group_id_by_name(text).map_err(|error| format!("failed to look up the group: {error}"))?;
    found.ok_or_else(|| "unknown group".to_owned())
}

/// Proxy to use.
#[derive(Debug, clap::Args)]
pub(super) struct JoinArgs {
    /// Path of the socket, as shown to its owner by `credlet proxy status`
    #[arg(value_name = "SOCKET", value_parser = absolute_path)]
    socket: PathBuf,
}

/// Prints the address of the socket. The client checks whether the socket can be trusted.
pub(super) fn join(args: &JoinArgs) -> ExitCode {
    plugin::run(platform(), |info: ExecInfo| {
        check_enabled().map_err(failure)?;
        if info.spec.lock_file_path.is_none() {
            return Err(failure(unsupported_client()));
        }
        let url = ProxyEndpoint::Unix(args.socket.clone()).to_string();
        let proxy_config = Some(ProxyConfig { url, ..ProxyConfig::default() });
        Ok(ExecCredentialStatus { proxy_config, ..ExecCredentialStatus::default() })
    })
}
