//! `credlet shell`: a bridge for one shell and all that is typed there.

use std::ffi::OsString;

use credlet_core::{Env as _, SystemEnv};

use super::proxy::PolicyArgs;
use super::run::{Task, in_our_place};
use crate::args::Global;

/// Start a shell whose kubeconfig leads through a proxy of its own
///
/// As `credlet run`, for a shell: kubectl and all others that are started from it use the proxy, and never see the user's
/// plugin, key or token. When the shell ends, or its terminal is closed, nothing is left behind. CREDLET_SHELL is the
/// context there, for your prompt.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// The shell [default: $SHELL, or sh]
    #[arg(value_name = "SHELL")]
    shell: Option<OsString>,
    /// What it is told
    #[arg(last = true, value_name = "ARGUMENT")]
    words: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  credlet shell --context prod --read-only
  credlet shell zsh
  credlet shell bash -- -c 'kubectl get pods && kubectl get nodes'

It ends with the shell's exit code.";

pub(crate) fn run(args: Args, global: &Global) -> ! {
    let usual = || SystemEnv.var("SHELL").filter(|shell| !shell.is_empty());
    let program = args.shell.or_else(usual).unwrap_or_else(|| "/bin/sh".into());
    let policy = args.policy.policy("the arguments of `credlet shell`");
    in_our_place(&Task { program, words: args.words, marks: Some("CREDLET_SHELL"), policy }, global)
}
