//! `credlet shell`: runs a shell behind a temporary proxy.

use std::ffi::OsString;

use credlet_exec::{Env as _, SystemEnv};

use super::proxy::PolicyArgs;
use super::run::{ChildCommand, run_child};
use crate::args::GlobalArgs;

/// Start a shell behind a temporary proxy
///
/// Like `credlet run`, for a shell: kubectl and all other programs in it use the proxy and never see the user's plugin,
/// key or token. All files are removed when the shell exits or its terminal is closed. CREDLET_SHELL is set to the
/// context, for your prompt.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Shell to start [default: $SHELL, or sh]
    #[arg(value_name = "SHELL")]
    shell: Option<OsString>,
    /// Arguments for the shell
    #[arg(last = true, value_name = "ARGUMENT")]
    args: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  credlet shell --context prod --read-only
  credlet shell zsh
  credlet shell bash -- -c 'kubectl get pods && kubectl get nodes'

It ends with the shell's exit code.";

pub(crate) fn run(args: Args, global: &GlobalArgs) -> ! {
    let usual = || SystemEnv.var("SHELL").filter(|shell| !shell.is_empty());
    let program = args.shell.or_else(usual).unwrap_or_else(|| "/bin/sh".into());
    let policy = args.policy.policy("the arguments of `credlet shell`");
    run_child(&ChildCommand { program, args: args.args, context_var: Some("CREDLET_SHELL"), policy }, global)
}
