//! `credlet bridge`: rewrites a kubeconfig so that clients without support for exec proxies use one.

mod convert;
mod signer_args;
mod target;

use credlet_proxy::client::{EXEC_PROXY_ENV, ExecProxies};
use credlet_proxy::server::BridgeMode;

pub(super) use self::signer_args::existing_signer_args;
use super::Outcome;
use crate::args::GlobalArgs;
use crate::error::CliError;

/// Route kubectl, helm, k9s and other clients through an exec proxy
///
/// Rewrites the kubeconfig for clients that do not support exec proxies (KEP-2718) themselves.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BridgeArgs {
    #[command(subcommand)]
    command: BridgeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BridgeCommand {
    /// Rewrite the cluster and the user of the context; the rest of the kubeconfig is unchanged
    Convert(ConvertArgs),
    /// Restore cluster and user byte for byte
    Revert(RevertArgs),
}

#[derive(Debug, clap::Args)]
struct ConvertArgs {
    /// Local port of the proxy [default: a free port]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// How clients connect to the port
    #[arg(long, value_enum, default_value_t)]
    mode: ModeArg,
    /// Path of credlet to write into the kubeconfig
    #[arg(long, value_name = "PROGRAM", default_value = "credlet")]
    program: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Arguments of `credlet proxy` [default: the user's exec plugin or certificate files]
    #[arg(last = true, value_name = "SIGNER")]
    signer: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum ModeArg {
    /// As the API server: the port replaces the cluster's address
    #[default]
    Server,
    /// As an HTTP proxy: the cluster keeps its address, which some tools use to identify it
    ProxyUrl,
}

impl From<ModeArg> for BridgeMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Server => Self::Server,
            ModeArg::ProxyUrl => Self::ProxyUrl,
        }
    }
}

#[derive(Debug, clap::Args)]
struct RevertArgs {
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  credlet bridge convert --context prod -- pkcs11 'pkcs11:token=me;object=kube?module-name=opensc-pkcs11'
  kubectl --context prod get pods
  credlet bridge revert --context prod

The rewritten file contains no credential. The first client that needs the proxy starts it. The proxy listens on 127.0.0.1
and accepts only clients with a certificate that it has issued. Set CLIENT_EXEC_PROXY=false to disable it.";

pub(crate) fn run(args: BridgeArgs, global: &GlobalArgs) -> Outcome {
    if ExecProxies::from_env(&credlet_exec::SystemEnv).is_none() && matches!(args.command, BridgeCommand::Convert(_)) {
        return Err(CliError::usage(format!("exec proxies are disabled by {EXEC_PROXY_ENV} in the environment")));
    }
    match args.command {
        BridgeCommand::Convert(args) => convert::convert(args, global),
        BridgeCommand::Revert(args) => convert::revert(&args, global),
    }
}
