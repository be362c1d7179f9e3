//! The command line: help, completions and man pages are all made of this.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand};
use credlet_api::Secret;

use crate::commands::{self, Outcome};
use crate::duration;
use crate::exit::Exit;

/// Kubernetes exec credentials from one small binary.
#[derive(Debug, Parser)]
#[command(
    name = "credlet",
    version,
    arg_required_else_help = true,
    override_usage = "credlet <COMMAND> [OPTIONS]",
    after_long_help = EXAMPLES
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One variant for each verb, with the arguments of its file in `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Get(commands::get::Args),
    Request(commands::request::Args),
    Whoami(commands::whoami::Args),
    Token(commands::token::Args),
    Config(commands::config::Args),
    Doctor(commands::doctor::Args),
    Image(commands::image::Args),
    Cache(commands::cache::Args),
    Proxy(commands::proxy::Args),
    Bridge(commands::bridge::Args),
    Run(commands::run::Args),
    Shell(commands::shell::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
    Plugin(commands::plugin::Args),
    Demo(commands::demo::Args),
    /// The plugin that the demo runs.
    #[command(hide = true)]
    DemoPlugin,
}

impl Command {
    /// Whether what its libraries say goes into a file, as soon as it has one.
    pub(crate) fn keeps_a_log(&self) -> bool {
        matches!(self, Self::Proxy(args) if args.is_in_the_foreground())
    }

    /// Does it.
    pub(crate) fn run(self, global: &Global) -> Outcome {
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
            // A plugin has its own way to end, and so has another program: `main` runs them.
            Self::Plugin(_) | Self::Cache(_) | Self::Proxy(_) | Self::DemoPlugin => Ok(Exit::Ok),
            Self::Run(_) | Self::Shell(_) => Ok(Exit::Ok),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  credlet get /readyz                      ask the API server of the current context something
  credlet whoami                           whom the server takes you for, and what your credential says
  credlet token -o header                  the credential, for curl and other tools
  credlet doctor                           find out why it does not work
  credlet config resolve --context blue    which server, user and plugin would be used, and which line says so

Exit codes:
  0 done · 1 the server said no · 2 usage or kubeconfig · 3 no credential · 4 refused by policy · 5 timed out ·
  6 server not reached";

const WHO: &str = "Which server, and as whom (as with kubectl)";

/// The flags that all verbs share, spelled as kubectl spells them.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// The kubeconfig file to use, and no other
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = WHO)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context to use
    #[arg(long, global = true, value_name = "NAME", help_heading = WHO)]
    pub(crate) context: Option<String>,
    /// The cluster to use, of those in the kubeconfig
    #[arg(long, global = true, value_name = "NAME", help_heading = WHO, hide_short_help = true)]
    pub(crate) cluster: Option<String>,
    /// The user to be, of those in the kubeconfig
    #[arg(long, global = true, value_name = "NAME", help_heading = WHO, hide_short_help = true)]
    pub(crate) user: Option<String>,
    /// The namespace to use
    #[arg(short, long, global = true, value_name = "NAME", help_heading = WHO)]
    pub(crate) namespace: Option<String>,

    /// The address of the API server
    #[arg(short, long, global = true, value_name = "URL", help_heading = WHO, hide_short_help = true)]
    pub(crate) server: Option<String>,
    /// The name to expect in the server's certificate
    #[arg(long, global = true, value_name = "NAME", help_heading = WHO, hide_short_help = true)]
    pub(crate) tls_server_name: Option<String>,
    /// A file with the certificate authorities to trust
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = WHO, hide_short_help = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Do not check the server's certificate: anybody could read your credential
    #[arg(
        long, global = true, value_name = "BOOL", help_heading = WHO, hide_short_help = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false,
        hide_default_value = true, action = clap::ArgAction::Set
    )]
    pub(crate) insecure_skip_tls_verify: bool,
    /// The proxy to reach the server through: http, https or socks5
    #[arg(long, global = true, value_name = "URL", value_parser = secret, help_heading = WHO, hide_short_help = true)]
    pub(crate) proxy_url: Option<Secret>,

    /// A bearer token to use instead of the user's credential
    #[arg(long, global = true, value_name = "TOKEN", value_parser = secret, help_heading = WHO, hide_short_help = true)]
    pub(crate) token: Option<Secret>,
    /// A user name for basic authentication
    #[arg(long, global = true, value_name = "NAME", help_heading = WHO, hide_short_help = true)]
    pub(crate) username: Option<String>,
    /// A password for basic authentication
    #[arg(long, global = true, value_name = "PASSWORD", value_parser = secret, help_heading = WHO, hide_short_help = true)]
    pub(crate) password: Option<Secret>,
    /// A file with a client certificate
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = WHO, hide_short_help = true)]
    pub(crate) client_certificate: Option<PathBuf>,
    /// A file with the key of that certificate
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), help_heading = WHO, hide_short_help = true)]
    pub(crate) client_key: Option<PathBuf>,

    /// The user to act as
    #[arg(long = "as", global = true, value_name = "NAME", help_heading = WHO, hide_short_help = true)]
    pub(crate) impersonate: Option<String>,
    /// A group to act as a member of; may be given several times
    #[arg(long, global = true, value_name = "NAME", help_heading = WHO, hide_short_help = true)]
    pub(crate) as_group: Vec<String>,
    /// The uid to act as
    #[arg(long, global = true, value_name = "UID", help_heading = WHO, hide_short_help = true)]
    pub(crate) as_uid: Option<String>,
    /// A further attribute of the user to act as; may be given several times
    #[arg(
        long, global = true, value_name = "KEY=VALUE", value_parser = pair, help_heading = WHO, hide_short_help = true
    )]
    pub(crate) as_user_extra: Vec<(String, String)>,

    /// How long a request may take, with getting its credential: 30, 1m30s; 0 is no limit
    #[arg(
        long, global = true, value_name = "DURATION", value_parser = duration::timeout, default_value = "0",
        hide_default_value = true, hide_short_help = true
    )]
    pub(crate) request_timeout: Limit,
    /// The kuberc file with the plugin policy
    #[arg(long, global = true, value_name = "FILE", value_parser = path(), hide_short_help = true)]
    pub(crate) kuberc: Option<PathBuf>,
    /// Say more of what is done: 0 to 9
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

/// A limit in time, or none. (An alias, because clap takes the word `Option` for something of its own.)
type Limit = Option<Duration>;

/// A path that may be empty, which kubectl takes for none.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("a key, `=` and a value are needed")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }
}
