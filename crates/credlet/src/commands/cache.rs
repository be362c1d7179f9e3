//! `credlet cache`: a credential plugin's answers, kept for as long as they are good.

mod entries;
mod serve;
mod wrap;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use credlet_plugins::cache::{Options, StormGuard, parse_duration};

pub(crate) use self::serve::early;
use super::Outcome;
use crate::args::Global;
use crate::printer::FormatArg;

/// Keep what a credential plugin answers, and run it only when it must be
///
/// Put it in front of any plugin in a kubeconfig. Whatever is wrong with the cache, the plugin is run and its answer
/// passed on. CREDLET_CACHE=off in the environment switches it off.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "credlet cache [OPTIONS] -- <PLUGIN> [ARGS]...\n       credlet cache <COMMAND>",
    after_long_help = EXAMPLES
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List what is kept
    Ls(LsArgs),
    /// Forget what is kept
    #[command(visible_alias = "invalidate")]
    Rm(RmArgs),
    /// Show how often the plugins did not have to be run
    Stats(LsArgs),
    /// Show what decides whether two calls get the same answer
    Explain(RunArgs),
    /// Put the cache in front of the plugins of a kubeconfig, leaving all else in it as it is
    Wrap(WrapArgs),
    /// Take it away again
    Unwrap(WrapArgs),
}

/// What [`Options`] reads too, without a parser's weight.
#[derive(Clone, Debug, clap::Args)]
struct RunArgs {
    /// A variable that the answer depends on, besides those of the large clouds; `*` at the end stands for anything
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// A file that the answer depends on: touched, the plugin is asked again
    #[arg(long, value_name = "FILE")]
    watch: Vec<PathBuf>,
    /// How long to keep a credential that does not say when it ends
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    default_ttl: Duration,
    /// How long to keep any credential at most
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    max_age: Duration,
    /// Whether a failed login holds up further ones: auto, on or off
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    storm_guard: StormGuard,
    /// Keep nothing, only answer in the version asked for
    #[arg(long)]
    no_store: bool,
    /// Ask the plugin whatever is kept
    #[arg(long)]
    force_refresh: bool,
    /// Keep answers encrypted, with the key in the kernel's keyring
    #[arg(long)]
    encrypt: bool,
    /// Where to keep them [default: credlet/exec in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// The plugin and its arguments
    #[arg(last = true, required = true, value_name = "PLUGIN")]
    plugin: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    output: FormatArg,
}

#[derive(Debug, clap::Args)]
struct RmArgs {
    #[command(flatten)]
    dir: DirArg,
    /// All of it
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    /// The beginnings of the keys that `ls` shows; none: what the plugin of --context has answered
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct DirArg {
    /// Where it is kept [default: credlet/exec in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct WrapArgs {
    /// All users that have a plugin, instead of the one of the context
    #[arg(long)]
    all: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// How the kubeconfig should call credlet
    #[arg(long, value_name = "PROGRAM", default_value = "credlet")]
    program: String,
    /// Options for the cache, as in `--encrypt`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  credlet cache -- aws eks get-token --cluster-name blue
  credlet cache --encrypt --max-age 15m -- gke-gcloud-auth-plugin
  credlet cache wrap --context blue        do that to the plugin of a context
  credlet cache explain -- aws eks get-token --cluster-name blue

A link named credlet-cache-aws runs `aws` and nothing else: one can allow that in kuberc. What may stand behind the cache
at all can be listed in ~/.config/credlet/cache-allowlist, a name or path on each line.";

impl From<RunArgs> for Options {
    fn from(args: RunArgs) -> Self {
        let mut words = args.plugin.into_iter();
        Self {
            env: args.env,
            watch: args.watch,
            default_ttl: args.default_ttl,
            max_age: args.max_age,
            storm_guard: args.storm_guard,
            no_store: args.no_store,
            force_refresh: args.force_refresh,
            encrypt: args.encrypt,
            cache_dir: args.cache_dir,
            // The parser has seen to it that there is one.
            command: words.next().unwrap_or_default(),
            args: words.collect(),
        }
    }
}

/// A plugin has its own way to end; all else ends as verbs do.
pub(crate) fn run(args: Args, global: &Global) -> ExitCode {
    let outcome = match args.verb {
        None => return serve::run(args.run.into()),
        Some(verb) => manage(verb, global),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => error.report(),
    }
}

fn manage(verb: Verb, global: &Global) -> Outcome {
    match verb {
        Verb::Ls(args) => entries::ls(&args),
        Verb::Rm(args) => entries::rm(&args, global),
        Verb::Stats(args) => entries::stats(&args),
        Verb::Explain(args) => entries::explain(args.into()),
        Verb::Wrap(args) => wrap::wrap(&args, global),
        Verb::Unwrap(args) => wrap::unwrap(&args, global),
    }
}

/// What the options must be, by the real parser: for the tests of the other one, and for `wrap`.
fn parsed(words: impl IntoIterator<Item = String>) -> Result<Options, clap::Error> {
    let command = RunArgs::augment_args(clap::Command::new("credlet cache"));
    let words = ["credlet cache".to_owned()].into_iter().chain(words);
    let matches = command.try_get_matches_from(words)?;
    RunArgs::from_arg_matches(&matches).map(Options::from)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn both_readers_of_options_read_the_same() {
        for line in [
            "-- aws",
            "-- aws eks --cluster-name=x -- -v",
            "--env A --env=B* --watch f --watch=/g -- p",
            "--default-ttl 5 --max-age=15m --storm-guard on -- p",
            "--no-store --force-refresh --encrypt --cache-dir /d -- p --encrypt",
        ] {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let quick = Options::parse(&words.iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(quick, Some(parsed(words).unwrap()), "{line}");
        }
    }

    #[test]
    fn what_the_quick_one_takes_the_real_one_takes() {
        for line in
            ["--bogus -- p", "--watch -- p", "--max-age x -- p", "--encrypt=1 -- p", "--storm-guard x -- p", "--"]
        {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(Options::parse(&words.iter().map(OsString::from).collect::<Vec<_>>()), None, "{line}");
            assert!(parsed(words).is_err(), "{line}");
        }
    }
}
