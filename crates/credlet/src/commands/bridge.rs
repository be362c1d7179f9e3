//! `credlet bridge`: kubeconfigs with which kubectl, and everybody else, comes by an exec proxy.

mod convert;
mod files;
mod words;

use credlet_proxy::client::{ExecProxies, SWITCH};
use credlet_proxy::server::Guise;

pub(super) use self::words::of_proxy;
use super::Outcome;
use crate::args::Global;
use crate::error::CliError;

/// Let clients that know nothing of exec proxies use one: kubectl, helm, k9s, terraform
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Rewrite the context's cluster and user, leaving all else in the kubeconfig as it is
    Convert(ConvertArgs),
    /// Put both back as they were, to the byte
    Revert(RevertArgs),
}

#[derive(Debug, clap::Args)]
struct ConvertArgs {
    /// The port of this machine [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// What clients take that port for
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// How the kubeconfig should call credlet
    #[arg(long, value_name = "PROGRAM", default_value = "credlet")]
    program: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// What comes after `credlet proxy` [default: what the user has now: a plugin, or the files of a certificate]
    #[arg(last = true, value_name = "SIGNER")]
    signer: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Mode {
    /// The API server: it takes the place of the cluster's address
    #[default]
    Server,
    /// The HTTP proxy on the way to the API server: the cluster keeps its address, by which some tools know it
    ProxyUrl,
}

impl From<Mode> for Guise {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Server => Self::Server,
            Mode::ProxyUrl => Self::Proxy,
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

The rewritten file holds no credential. The proxy is started by the first command that needs it, listens on 127.0.0.1 and
lets nobody in who was not given a certificate by it. CLIENT_EXEC_PROXY=false switches this off.";

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    if ExecProxies::from_env(&credlet_core::SystemEnv).is_none() && matches!(args.verb, Verb::Convert(_)) {
        return Err(CliError::usage(format!("exec proxies are switched off by {SWITCH} in the environment")));
    }
    match args.verb {
        Verb::Convert(args) => convert::convert(args, global),
        Verb::Revert(args) => convert::revert(&args, global),
    }
}
