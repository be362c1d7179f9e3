//! `credlet cache`: caches the output of a credential plugin.

mod entries;
mod serve;
mod wrap;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use credlet_exec::cache::{CacheOptions, StormGuard};

pub(crate) use self::serve::early;
use super::Outcome;
use crate::args::GlobalArgs;
use crate::duration::parse_duration;
use crate::printer::OutputArgs;

/// Cache the output of a credential plugin until it expires
///
/// Put it in front of any plugin in a kubeconfig. If the cache cannot be used, the plugin is run without it. Set
/// CREDLET_CACHE=off in the environment to disable the cache.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "credlet cache [OPTIONS] -- <PLUGIN> [ARGS]...\n       credlet cache <COMMAND>",
    after_long_help = EXAMPLES
)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    command: Option<CacheCommand>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, clap::Subcommand)]
enum CacheCommand {
    /// List cached entries
    Ls(LsArgs),
    /// Remove entries, in every cache directory of this user
    #[command(visible_alias = "invalidate")]
    Rm(RmArgs),
    /// Show hits and plugin runs per entry
    Stats(LsArgs),
    /// Show what the key of a call depends on, and how it differs from other entries of the plugin
    Explain(RunArgs),
    /// Put the cache in front of the plugins of a kubeconfig, without other changes to the file
    Wrap(WrapArgs),
    /// Remove the cache from the plugins of a kubeconfig
    Unwrap(WrapArgs),
}

/// The options that [`CacheOptions::parse`] reads without clap.
#[derive(Clone, Debug, clap::Args)]
struct RunArgs {
    /// Session variable that the credential depends on; other variables always count. A trailing `*` matches any suffix
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// File that the credential depends on: if it changes, the plugin is run again
    #[arg(long, value_name = "FILE")]
    watch: Vec<PathBuf>,
    /// Lifetime of a credential without a known expiry
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    default_ttl: Duration,
    /// Maximum lifetime of any credential in the cache
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    max_age: Duration,
    /// Whether a failed login delays further ones: auto, on or off
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    storm_guard: StormGuard,
    /// Store nothing, only convert the output to the requested API version
    #[arg(long)]
    no_store: bool,
    /// Run the plugin even if a valid entry is cached
    #[arg(long)]
    force_refresh: bool,
    /// Encrypt stored credentials with a key in the kernel's keyring; without a keyring, do not store them
    #[arg(long)]
    encrypt: bool,
    /// Directory for entries, in its subdirectory `credlet-exec` [default: credlet/exec in the user's cache directory]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Plugin and its arguments
    #[arg(last = true, required = true, value_name = "PLUGIN")]
    plugin: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    #[command(flatten)]
    dir: DirArg,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
struct RmArgs {
    #[command(flatten)]
    dir: DirArg,
    /// Remove all entries
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    /// Prefixes of keys that `ls` shows [default: entries of the plugin of --context]
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct DirArg {
    /// Directory with entries, in its subdirectory `credlet-exec` [default: credlet/exec in the user's cache directory; for `rm`
    /// every directory in use]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct WrapArgs {
    /// Edit all users with a plugin instead of the context's user
    #[arg(long)]
    all: bool,
    /// Print the changes without writing them
    #[arg(long)]
    dry_run: bool,
    /// credlet command to write into the kubeconfig
    #[arg(long, value_name = "PROGRAM", default_value = "credlet")]
    program: String,
    /// Options for the cache, for example `--encrypt`
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Configuration directory as the help shows it, see [`credlet_platform::dirs`].
#[cfg(not(target_os = "macos"))]
macro_rules! config_dir {
    () => {
        "~/.config"
    };
}
#[cfg(target_os = "macos")]
macro_rules! config_dir {
    () => {
        "~/Library/Application Support"
    };
}

const EXAMPLES: &str = concat!(
    "\
Examples:
  credlet cache -- aws eks get-token --cluster-name blue
  credlet cache --encrypt --max-age 15m -- gke-gcloud-auth-plugin
  credlet cache wrap --context blue        put the cache in front of the plugin of a context
  credlet cache explain -- aws eks get-token --cluster-name blue

A link named credlet-cache-aws runs `aws` and no other name, so kuberc can allow that link. Plugins that the cache may
run can be listed in ",
    config_dir!(),
    "/credlet/cache-allowlist, one name or path per line; write absolute paths, because a
kubeconfig can set PATH. Without that file, kuberc decides when a kubeconfig runs the cache."
);

impl From<RunArgs> for CacheOptions {
    fn from(args: RunArgs) -> Self {
        let mut plugin = args.plugin.into_iter();
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
            // clap requires at least one.
            command: plugin.next().unwrap_or_default(),
            args: plugin.collect(),
        }
    }
}

/// Runs the cache as a plugin, or one of its subcommands.
pub(crate) fn run(args: CacheArgs, global: &GlobalArgs) -> ExitCode {
    let outcome = match args.command {
        None => return serve::run(args.run.into()),
        Some(command) => manage(command, global),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => error.report(),
    }
}

fn manage(command: CacheCommand, global: &GlobalArgs) -> Outcome {
    match command {
        CacheCommand::Ls(args) => entries::ls(&args),
        CacheCommand::Rm(args) => entries::rm(&args, global),
        CacheCommand::Stats(args) => entries::stats(&args),
        CacheCommand::Explain(args) => entries::explain(args.into()),
        CacheCommand::Wrap(args) => wrap::wrap(&args, global),
        CacheCommand::Unwrap(args) => wrap::unwrap(&args, global),
    }
}

/// Parses cache options with clap, for `wrap` and for tests of [`CacheOptions::parse`].
fn parse_options(args: impl IntoIterator<Item = String>) -> Result<CacheOptions, clap::Error> {
    let command = RunArgs::augment_args(clap::Command::new("credlet cache"));
    let args = ["credlet cache".to_owned()].into_iter().chain(args);
    let matches = command.try_get_matches_from(args)?;
    RunArgs::from_arg_matches(&matches).map(CacheOptions::from)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn both_parsers_agree_on_valid_options() {
        for line in [
            "-- aws",
            "-- aws eks --cluster-name=x -- -v",
            "--env A --env=B* --watch f --watch=/g -- p",
            "--default-ttl 5 --max-age=15m --storm-guard on -- p",
            "--default-ttl 1m30s --max-age=1.5h -- p",
            "--no-store --force-refresh --encrypt --cache-dir /d -- p --encrypt",
        ] {
            let args: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let fast = CacheOptions::parse(&args.iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(fast, Some(parse_options(args).unwrap()), "{line}");
        }
    }

    #[test]
    fn both_parsers_reject_invalid_options() {
        for line in
            ["--bogus -- p", "--watch -- p", "--max-age x -- p", "--encrypt=1 -- p", "--storm-guard x -- p", "--"]
        {
            let args: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(CacheOptions::parse(&args.iter().map(OsString::from).collect::<Vec<_>>()), None, "{line}");
            assert!(parse_options(args).is_err(), "{line}");
        }
    }
}
