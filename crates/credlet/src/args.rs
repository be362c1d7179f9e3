//! Definition of the command line. Help, shell completions and man pages are generated from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand};
use credlet_api::Secret;

use crate::commands::{self, Outcome};
use crate::duration;
use crate::exit::ExitStatus;

/// Kubernetes exec credentials from one small binary.
#[derive(Debug, Parser)]
#[command(
    name = "credlet",
    version,
    arg_required_else_help = true,
    override_usage = "credlet <COMMAND> [OPTIONS]",
    after_long_help = EXAMPLES
)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One variant per subcommand, with the arguments that its module in `commands/` defines.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Get(commands::get::GetArgs),
    Request(commands::request::RequestArgs),
    Whoami(commands::whoami::WhoamiArgs),
    Token(commands::token::TokenArgs),
    Config(commands::config::ConfigArgs),
    Doctor(commands::doctor::DoctorArgs),
    Image(commands::image::Args),
    Cache(commands::cache::CacheArgs),
    Proxy(commands::proxy::Args),
    Bridge(commands::bridge::BridgeArgs),
    Run(commands::run::Args),
    Shell(commands::shell::Args),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
    Plugin(commands::plugin::PluginArgs),
    Demo(commands::demo::DemoArgs),
    /// Run the plugin of the demo
    #[command(hide = true)]
    DemoPlugin,
}

impl Command {
    /// Whether the command installs a log file later, so that no subscriber for standard error is installed first.
    pub(crate) fn logs_to_file(&self) -> bool {
        matches!(self, Self::Proxy(args) if args.is_foreground())
    }

    /// Runs the subcommand. `main` runs those that do not return an [`Outcome`].
    pub(crate) fn run(self, global: &GlobalArgs) -> Outcome {
        match self {
            Self::Get(args) => commands::get::run(args, global),
            Self::Request(args) => commands::request::run(args, global),
            Self::Whoami(args) => commands::whoami::run(args, global),
            Self::Token(args) => commands::token::run(args, global),
            Self::Config(args) => commands::config::run(args, global),
            Self::Doctor(args) => commands::doctor::run(args, global),
            Self::Image(args) => commands::image::run(args, global),
            Self::Bridge(args) => commands::bridge::run(args, global),
            Self::Completions(args) => commands::completions::run(args, global),
            Self::Man(args) => commands::man::run(args, global),
            Self::Demo(args) => commands::demo::run(args),
            Self::Plugin(_) | Self::Cache(_) | Self::Proxy(_) | Self::DemoPlugin => Ok(ExitStatus::Success),
            Self::Run(_) | Self::Shell(_) => Ok(ExitStatus::Success),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  credlet get /readyz                      send a GET to the API server of the current context
  credlet whoami                           show the user that the server authenticates you as
  credlet token -o header                  print the credential for curl and other tools
  credlet doctor                           diagnose a credential that does not work
  credlet config resolve --context blue    show server, user and plugin with the kubeconfig line of each

Exit codes:
  0 success · 1 error response from the server · 2 usage or kubeconfig error · 3 no credential ·
  4 denied by policy · 5 timed out · 6 server unreachable · 70 internal error";

/// Help heading of the flags that select server and user.
const CONNECTION: &str = "Server and user (as in kubectl)";

/// Flags of all subcommands, with the names that kubectl uses.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GlobalArgs {
    /// Kubeconfig file to use instead of $KUBECONFIG and the default
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = CONNECTION)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION)]
    pub(crate) context: Option<String>,
    /// Kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) cluster: Option<String>,
    /// Kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) user: Option<String>,
    /// Namespace to use
    #[arg(short, long, global = true, value_name = "NAME", help_heading = CONNECTION)]
    pub(crate) namespace: Option<String>,

    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) server: Option<String>,
    /// Server name to verify in the server certificate
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) tls_server_name: Option<String>,
    /// File with the certificate authorities to trust
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Skip verification of the server certificate; insecure, another server can read your credential
    #[arg(
        long, global = true, value_name = "BOOL", help_heading = CONNECTION, hide_short_help = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false,
        hide_default_value = true, action = clap::ArgAction::Set
    )]
    pub(crate) insecure_skip_tls_verify: bool,
    /// Proxy for connections to the server: an http, https or socks5 URL
    #[arg(long, global = true, value_name = "URL", value_parser = secret, help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) proxy_url: Option<Secret>,

    /// Bearer token to send instead of the user's credential
    #[arg(long, global = true, value_name = "TOKEN", value_parser = secret, help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) token: Option<Secret>,
    /// User name for basic authentication
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) username: Option<String>,
    /// Password for basic authentication
    #[arg(long, global = true, value_name = "PASSWORD", value_parser = secret, help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) password: Option<Secret>,
    /// File with the client certificate
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) client_certificate: Option<PathBuf>,
    /// File with the key of the client certificate
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) client_key: Option<PathBuf>,

    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; repeatable
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) as_group: Vec<String>,
    /// UID to impersonate
    #[arg(long, global = true, value_name = "UID", help_heading = CONNECTION, hide_short_help = true)]
    pub(crate) as_uid: Option<String>,
    /// Extra attribute of the impersonated user; repeatable
    #[arg(
        long, global = true, value_name = "KEY=VALUE", value_parser = pair, help_heading = CONNECTION, hide_short_help = true
    )]
    pub(crate) as_user_extra: Vec<(String, String)>,

    /// Time limit of a request, including its credential: 30 (seconds), 1m30s; 0 disables it
    #[arg(
        long, global = true, value_name = "DURATION", value_parser = duration::parse_timeout, default_value = "0",
        hide_default_value = true, hide_short_help = true
    )]
    pub(crate) request_timeout: OptionalTimeout,
    /// kuberc file with the plugin policy
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), hide_short_help = true)]
    pub(crate) kuberc: Option<PathBuf>,
    /// Log verbosity (0–9)
    #[arg(
        short = 'v',
        long = "v",
        global = true,
        value_name = "LEVEL",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) verbosity: u8,
}

/// An alias, because clap's derive treats a field of type `Option<…>` as an optional argument.
type OptionalTimeout = Option<Duration>;

/// Parses a path that may be empty; like kubectl, credlet treats an empty path as absent.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn clap_definition_is_valid() {
        CliArgs::command().debug_assert();
    }
}
