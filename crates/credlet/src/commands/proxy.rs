//! `credlet proxy`: plugins that stay, and sign each request or hold the key (KEP-2718).

mod bridged;
mod group;
mod identity;
mod life;
mod manage;
mod person;
mod plugin;
mod policy;
mod signer;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use self::bridged::{authority, authority_file};
use self::group::GroupArgs;
pub(crate) use self::life::{daemon, end, runtime};
pub(crate) use self::plugin::{NO_FOREGROUND, ready};
pub(crate) use self::policy::PolicyArgs;
pub(crate) use self::signer::SignerArgs;
use self::signer::signer;
use crate::args::Global;
use crate::duration::span;
use crate::error::CliError;
use crate::printer::FormatArg;
use credlet_proxy::policy::Policy;

/// Be a credential plugin that stays: it signs each request, or holds a key that nobody gets to see
///
/// This is what a kubeconfig names as its command, with `provideClusterInfo: true`. A client that knows exec proxies is
/// given a socket; for others, kubectl among them, see `credlet bridge`. CLIENT_EXEC_PROXY=false switches it off.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

impl Args {
    /// Whether this process is to be a proxy itself.
    pub(crate) fn is_in_the_foreground(&self) -> bool {
        match &self.verb {
            Verb::Sign(verb) => verb.life().foreground,
            _ => false,
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    #[command(flatten)]
    Sign(SignerVerb),
    /// Use a proxy that its owner shares with a group of yours
    Join(group::JoinArgs),
    /// List the proxies that are running
    Ls(LsArgs),
    /// Show what a proxy says about itself
    Status(WhichArgs),
    /// Show a proxy's metrics, as Prometheus reads them
    Metrics(WhichArgs),
    /// Tell a proxy its PIN, asked for at the terminal
    Unlock(WhichArgs),
    /// End a proxy
    Stop(WhichArgs),
}

/// A plugin, by how it signs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SignerVerb {
    /// With a TLS key in a security module: a smart card, a YubiKey, a TPM, an HSM
    Pkcs11(With<signer::Pkcs11Args>),
    /// With AWS's signature version 4 on each request
    Sigv4(With<signer::Sigv4Args>),
    /// With headers that are the same for all, or that a command prints
    Headers(With<signer::HeadersArgs>),
    /// With what another credential plugin says
    Exec(With<signer::ExecArgs>),
    /// With a certificate and a key from files
    File(With<signer::FileArgs>),
}

impl SignerVerb {
    fn life(&self) -> &LifeArgs {
        match self {
            Self::Pkcs11(With { life, .. }) => life,
            Self::Sigv4(With { life, .. }) => life,
            Self::Headers(With { life, .. }) => life,
            Self::Exec(With { life, .. }) => life,
            Self::File(With { life, .. }) => life,
        }
    }
}

/// The arguments of a signer, and those that all of them have.
#[derive(Debug, clap::Args)]
pub(crate) struct With<S: clap::Args> {
    #[command(flatten)]
    pub(crate) signer: S,
    #[command(flatten)]
    pub(crate) life: Box<LifeArgs>,
}

/// How a proxy lives.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LifeArgs {
    /// Be the proxy, for this one client, in place of finding or starting one that all share
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Speak no TLS on the socket: its permissions say who may come in
    #[arg(long)]
    plain: bool,
    /// How long to stay when nobody needs it
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "5m")]
    linger: Duration,
    /// After how long to end in any case
    #[arg(long, value_name = "TIME", value_parser = life, default_value = "12h")]
    max_life: Duration,
    /// A variable that the signer depends on: who has another value gets another proxy
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    group: GroupArgs,
}

impl LifeArgs {
    /// What is passed on, as these words have it.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.policy("the arguments of `credlet proxy`")
    }
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    #[command(flatten)]
    output: FormatArg,
}

#[derive(Debug, clap::Args)]
struct WhichArgs {
    /// The beginning of its name, as `ls` shows it; not needed if there is only one
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// All of them
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

const EXAMPLES: &str = "\
Examples:
  credlet proxy pkcs11 'pkcs11:token=me;object=kube?module-name=opensc-pkcs11'
  credlet proxy sigv4 --region eu-west-3 --service execute-api
  credlet proxy headers -- my-headers --fresh
  credlet proxy exec -- aws eks get-token --cluster-name blue
  credlet proxy exec --read-only --deny impersonate -- aws eks get-token --cluster-name blue
  credlet proxy ls

In a kubeconfig:
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: credlet
      args: [proxy, pkcs11, 'pkcs11:token=me;object=kube?module-name=opensc-pkcs11']
      interactiveMode: IfAvailable
      provideClusterInfo: true";

/// A plugin has its own way to end; all else ends as verbs do.
pub(crate) fn run(args: Args, global: &Global, words: &[OsString]) -> ExitCode {
    let outcome = match args.verb {
        Verb::Sign(verb) => {
            let wanted = Wanted::from(verb);
            return match wanted.signer.check() {
                Ok(()) => plugin::run(wanted, global, words),
                Err(error) => error.report(),
            };
        }
        Verb::Join(args) => return group::join(&args),
        Verb::Ls(args) => manage::ls(&args),
        Verb::Status(args) => manage::status(&args),
        Verb::Metrics(args) => manage::metrics(&args),
        Verb::Unlock(args) => manage::unlock(&args),
        Verb::Stop(args) => manage::stop(&args),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => error.report(),
    }
}

/// What a plugin was asked to be.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) signer: SignerArgs,
    pub(crate) life: LifeArgs,
}

impl From<SignerVerb> for Wanted {
    fn from(verb: SignerVerb) -> Self {
        let (signer, life) = match verb {
            SignerVerb::Pkcs11(With { signer, life }) => (SignerArgs::Pkcs11(signer), life),
            SignerVerb::Sigv4(With { signer, life }) => (SignerArgs::Sigv4(signer), life),
            SignerVerb::Headers(With { signer, life }) => (SignerArgs::Headers(signer), life),
            SignerVerb::Exec(With { signer, life }) => (SignerArgs::Exec(signer), life),
            SignerVerb::File(With { signer, life }) => (SignerArgs::File(signer), life),
        };
        Self { signer, life: *life }
    }
}

/// What `credlet proxy` makes of these words: for those who write them into a kubeconfig, or find them there.
pub(crate) fn parsed(words: impl IntoIterator<Item = String>) -> Result<Wanted, CliError> {
    #[derive(clap::Parser)]
    #[command(name = "credlet proxy", disable_help_subcommand = true)]
    struct Alone {
        /// As everywhere; they count where the words are used.
        #[command(flatten)]
        _global: Global,
        #[command(subcommand)]
        verb: SignerVerb,
    }
    let words = ["credlet proxy".to_owned()].into_iter().chain(words);
    let parsed = <Alone as clap::Parser>::try_parse_from(words).map_err(|error| CliError::usage(brief(&error)))?;
    let wanted = Wanted::from(parsed.verb);
    wanted.signer.check()?;
    Ok(wanted)
}

/// What is wrong, without the advice that is for whoever typed it.
fn brief(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<_> = first.strip_prefix("error: ").unwrap_or(first).split_whitespace().collect();
    words.join(" ")
}

/// `--max-life`: with none of it, a proxy would end before the client that had it started could send anything.
fn life(text: &str) -> Result<Duration, String> {
    let life = span(text)?;
    if life.is_zero() { Err("a proxy that ends at once serves nobody: give more than 0".to_owned()) } else { Ok(life) }
}
