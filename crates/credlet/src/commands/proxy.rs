//! `credlet proxy`: exec proxies, which sign each request or hold a TLS key (KEP-2718).

mod bridge_ca;
mod daemon;
mod group;
mod identity;
mod manage;
mod pin_prompt;
mod plugin;
mod policy;
mod signer;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use self::bridge_ca::{authority, authority_file, remove_authority};
pub(crate) use self::daemon::{daemon, end, runtime};
use self::group::GroupArgs;
pub(crate) use self::plugin::{NO_FOREGROUND, ready};
pub(crate) use self::policy::PolicyArgs;
pub(crate) use self::signer::SignerArgs;
use self::signer::signer;
use crate::args::GlobalArgs;
use crate::duration::parse_duration;
use crate::error::CliError;
use crate::printer::OutputArgs;
use credlet_platform::fs::read_bounded;
use credlet_proxy::policy::Policy;
use zeroize::Zeroizing;

/// Run an exec proxy: a long-running plugin that signs requests or holds a TLS key (KEP-2718)
///
/// Use it as the command of a kubeconfig user, with `provideClusterInfo: true`. Clients that support exec proxies get
/// the address of a socket; for others, such as kubectl, see `credlet bridge`. CLIENT_EXEC_PROXY=false disables exec
/// proxies.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

impl Args {
    /// Whether this process runs the proxy itself.
    pub(crate) fn is_foreground(&self) -> bool {
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
    /// Use a proxy that another user shares with your group
    Join(group::JoinArgs),
    /// List running proxies
    Ls(LsArgs),
    /// Show the status of a proxy
    Status(SelectArgs),
    /// Print the metrics of a proxy in the Prometheus text format
    Metrics(SelectArgs),
    /// Unlock a proxy with a PIN read from the terminal
    Unlock(SelectArgs),
    /// Stop a proxy
    Stop(SelectArgs),
}

/// Plugins by signer.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum SignerVerb {
    /// Use a TLS key in a PKCS#11 token: smart card, YubiKey, TPM or HSM
    Pkcs11(With<signer::Pkcs11Args>),
    /// Sign each request with AWS Signature Version 4
    Sigv4(With<signer::Sigv4Args>),
    /// Add headers from a file or from the output of a command
    Headers(With<signer::HeadersArgs>),
    /// Use the credential of another exec plugin
    Exec(With<signer::ExecArgs>),
    /// Use a client certificate and key from files
    File(With<signer::FileArgs>),
}

impl SignerVerb {
    fn life(&self) -> &LifetimeArgs {
        match self {
            Self::Pkcs11(With { life, .. }) => life,
            Self::Sigv4(With { life, .. }) => life,
            Self::Headers(With { life, .. }) => life,
            Self::Exec(With { life, .. }) => life,
            Self::File(With { life, .. }) => life,
        }
    }
}

/// Arguments of a signer and the arguments of all signers.
#[derive(Debug, clap::Args)]
pub(crate) struct With<S: clap::Args> {
    #[command(flatten)]
    pub(crate) signer: S,
    #[command(flatten)]
    pub(crate) life: Box<LifetimeArgs>,
}

/// Lifetime and listeners of a proxy.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LifetimeArgs {
    /// Run the proxy in this process for a single client, instead of a shared daemon
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Disable TLS on the socket; access is restricted by its permissions
    #[arg(long)]
    plain: bool,
    /// Time to keep running after the last client exits
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5m")]
    linger: Duration,
    /// Maximum lifetime of the proxy
    #[arg(long, value_name = "TIME", value_parser = life, default_value = "12h")]
    max_life: Duration,
    /// Environment variable that the signer depends on; each value gets its own proxy (repeatable)
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    group: GroupArgs,
}

impl LifetimeArgs {
    /// The policy of these arguments.
    pub(crate) fn policy(&self) -> Policy {
        self.policy.policy("the arguments of `credlet proxy`")
    }
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct SelectArgs {
    /// Name of the proxy or a prefix of it, as shown by `ls` [default: the only running proxy]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Select all running proxies
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

/// Plugins report errors on their own; the other subcommands return an outcome.
pub(crate) fn run(args: Args, global: &GlobalArgs, argv: &[OsString]) -> ExitCode {
    let outcome = match args.verb {
        Verb::Sign(verb) => {
            let spec = ProxySpec::from(verb);
            return match spec.signer.check() {
                Ok(()) => plugin::run(spec, global, argv),
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

/// Arguments of a `credlet proxy` plugin.
#[derive(Debug)]
pub(crate) struct ProxySpec {
    pub(crate) signer: SignerArgs,
    pub(crate) life: LifetimeArgs,
}

impl From<SignerVerb> for ProxySpec {
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

/// Parses the arguments of `credlet proxy` in a kubeconfig.
pub(crate) fn parse_args(args: impl IntoIterator<Item = String>) -> Result<ProxySpec, CliError> {
    #[derive(clap::Parser)]
    #[command(name = "credlet proxy", disable_help_subcommand = true)]
    struct Alone {
        /// Accepted here, and evaluated when the plugin runs.
        #[command(flatten)]
        _global: GlobalArgs,
        #[command(subcommand)]
        verb: SignerVerb,
    }
    let args = ["credlet proxy".to_owned()].into_iter().chain(args);
    let parsed =
        <Alone as clap::Parser>::try_parse_from(args).map_err(|error| CliError::usage(short_message(&error)))?;
    let spec = ProxySpec::from(parsed.verb);
    spec.signer.check()?;
    Ok(spec)
}

/// Returns the message without usage and tips.
fn short_message(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let args: Vec<_> = first.strip_prefix("error: ").unwrap_or(first).split_whitespace().collect();
    args.join(" ")
}

/// Reads a regular file of at most 4 MiB.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, CliError> {
    const LARGEST: u64 = 4 << 20;
    read_bounded(path, LARGEST).map_err(|error| CliError::usage(format!("{} {error}", path.display())))
}

/// `--max-life` must be positive, or the proxy would exit before its client sends a request.
fn life(text: &str) -> Result<Duration, String> {
    let life = parse_duration(text)?;
    if life.is_zero() { Err("must be greater than 0".to_owned()) } else { Ok(life) }
}
