//! `credlet cache ls`, `rm`, `stats` and `explain`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_exec::cache::{self, CacheInvocation, CacheOptions, KeyDifference, ListedEntry};
use credlet_exec::store::{Store, StoreError};
use credlet_exec::{Clock as _, SystemClock, SystemEnv};
use serde::Serialize;

use super::{DirArg, LsArgs, RmArgs, wrap};
use crate::args::GlobalArgs;
use crate::commands::Outcome;
use crate::duration;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{self, OutputFormat, Printer};

pub(super) fn ls(args: &LsArgs) -> Outcome {
    let listed = listed(&args.dir)?;
    let mut printer = Printer::default();
    if args.output.format == OutputFormat::Text {
        if listed.is_empty() {
            printer.line("no entries");
        } else {
            let width = listed.iter().map(|entry| command(entry).chars().count()).max().unwrap_or_default();
            for entry in &listed {
                let left = if entry.remaining.is_zero() {
                    "expired".to_owned()
                } else {
                    duration::format_duration(entry.remaining)
                };
                let sealed = if entry.encrypted { " encrypted" } else { "" };
                let (key, command, server) = (&entry.key[..12], command(entry), &entry.server);
                printer.untrusted_line(format!("{key}  {command:<width$}  {left:>8}{sealed}  {server}").trim_end());
            }
        }
    } else {
        let shown: Vec<_> = listed.iter().map(EntryRow::from).collect();
        printer.object(&shown, args.output.format);
    }
    printer.finish()?;
    Ok(ExitStatus::Success)
}

fn listed(dir: &DirArg) -> Result<Vec<ListedEntry>, CliError> {
    let Some((store, path)) = open_store(dir)? else { return Ok(Vec::new()) };
    cache::list(&store, &SystemEnv, SystemClock::new().now()).map_err(|error| unusable(&path, error))
}

/// The plugin, or a dash if the entry cannot be decrypted.
fn command(entry: &ListedEntry) -> &str {
    if entry.created.is_none() { "-" } else { &entry.command }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryRow<'a> {
    key: &'a str,
    command: &'a str,
    server: &'a str,
    created: Option<String>,
    end: Option<String>,
    seconds_left: u64,
    encrypted: bool,
}

impl<'a> From<&'a ListedEntry> for EntryRow<'a> {
    fn from(entry: &'a ListedEntry) -> Self {
        Self {
            key: &entry.key,
            command: &entry.command,
            server: &entry.server,
            created: entry.created.map(|created| created.to_string()),
            end: entry.expires_at.map(|end| end.to_string()),
            seconds_left: entry.remaining.as_secs(),
            encrypted: entry.encrypted,
        }
    }
}

/// Prints how often each entry was served and how often its plugin was run.
pub(super) fn stats(args: &LsArgs) -> Outcome {
    let listed = listed(&args.dir)?;
    let mut printer = Printer::default();
    if args.output.format == OutputFormat::Text {
        let (mut hits, mut runs, mut saved) = (0, 0, Duration::ZERO);
        let width = listed.iter().map(|entry| entry.command.chars().count()).max().unwrap_or_default();
        for ListedEntry { command, server, stats, .. } in &listed {
            let (of_hits, of_runs) = (stats.hits(), stats.runs + stats.refreshes);
            let line = format!("{command:<width$}  {of_hits:>6} from the cache  {of_runs:>4} runs  {server}");
            printer.untrusted_line(line.trim_end());
            (hits, runs, saved) = (hits + of_hits, runs + of_runs, saved + stats.saved());
        }
        let waited = duration::format_duration(saved);
        printer.line(format!("{hits} responses from the cache, {runs} runs, about {waited} saved"));
    } else {
        let shown: Vec<_> = listed.iter().map(StatsRow::from).collect();
        printer.object(&shown, args.output.format);
    }
    printer.finish()?;
    Ok(ExitStatus::Success)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatsRow<'a> {
    key: &'a str,
    command: &'a str,
    server: &'a str,
    hits: u64,
    runs: u64,
    runs_ahead: u64,
    seconds_run: f64,
    seconds_saved: f64,
}

impl<'a> From<&'a ListedEntry> for StatsRow<'a> {
    fn from(entry: &'a ListedEntry) -> Self {
        let ListedEntry { key, command, server, stats, .. } = entry;
        Self {
            key,
            command,
            server,
            hits: stats.hits(),
            runs: stats.runs,
            runs_ahead: stats.refreshes,
            seconds_run: stats.run_time.as_secs_f64(),
            seconds_saved: stats.saved().as_secs_f64(),
        }
    }
}

/// Removes entries by key, those of a context's plugin, or all: in the directory of `--cache-dir`, or in every known directory.
pub(super) fn rm(args: &RmArgs, global: &GlobalArgs) -> Outcome {
    let of_context = global.context.is_some() && args.keys.is_empty() && !args.all;
    if !of_context && args.keys.is_empty() && !args.all {
        return Err(CliError::usage("missing entries to remove").hint("pass a key that `ls` shows, --context or --all"));
    }
    if args.keys.iter().any(String::is_empty) {
        return Err(CliError::usage("an empty key is not allowed: it would match every entry")
            .hint("pass --all to remove all entries"));
    }
    let plugin = if of_context { Some(wrap::plugin(global)?) } else { None };
    let everywhere = args.dir.cache_dir.is_none();
    let now = SystemClock::new().now();
    let mut removed = 0;
    if args.all && everywhere {
        // Also invalidates entries in unknown directories.
        removed = cache::invalidate_all(&SystemEnv).map_err(|error| CliError::usage(error.to_string()))?;
    } else {
        for (store, path) in known_stores(&args.dir)? {
            let failed = |error| unusable(&path, error);
            removed += match &plugin {
                Some((command, server)) => {
                    cache::remove_for_cluster(&store, command, server, &SystemEnv, now).map_err(failed)?
                }
                None if args.all => cache::remove(&store, "").map_err(failed)?,
                None => {
                    let keys = args.keys.iter().map(|key| cache::remove(&store, key));
                    keys.sum::<Result<usize, _>>().map_err(failed)?
                }
            };
        }
    }
    let mut printer = Printer::default();
    printer.line(format!("{removed} removed"));
    printer.finish()?;
    Ok(ExitStatus::Success)
}

/// The store of `--cache-dir`, or all known stores. A directory that cannot be used as a cache has no entries to remove.
fn known_stores(args: &DirArg) -> Result<Vec<(Store, PathBuf)>, CliError> {
    if args.cache_dir.is_some() {
        return Ok(open_store(args)?.into_iter().collect());
    }
    let known = cache::known_directories(&SystemEnv).into_iter();
    Ok(known.filter_map(|path| Some((Store::open_existing(&path).ok()??, path))).collect())
}

/// Limits of `explain`: compared entries, and differences per entry.
const MAX_COMPARED: usize = 3;
const MAX_DIFFERENCES: usize = 12;

pub(super) fn explain(options: CacheOptions) -> Outcome {
    let call = CacheInvocation::new(options, &SystemEnv).map_err(|warning| CliError::usage(warning.to_string()))?;
    if call.key_parts().is_empty() {
        return Err(CliError::usage("invalid KUBERNETES_EXEC_INFO: the call would not be cached"));
    }
    let mut printer = Printer::default();
    printer.line(format!("key {}", call.key()));
    let parts = call.key_parts().iter().map(|part| (part.name.clone(), part.shown()));
    printer::print_rows(&mut printer, "  ", &parts.collect::<Vec<_>>());
    let now = SystemClock::new().now();
    let Some(dir) = call.dir() else {
        printer.line("no entries");
        printer.finish()?;
        return Ok(ExitStatus::Success);
    };
    match Store::open_existing(dir).map_err(|error| unusable(dir, error))? {
        None => printer.line("no entries"),
        Some(store) => {
            let listed = cache::list(&store, &SystemEnv, now).map_err(|error| unusable(dir, error))?;
            match listed.into_iter().find(|entry| entry.key == call.key().as_str()) {
                Some(entry) if entry.remaining.is_zero() => printer.line("cached, but expired"),
                Some(entry) => {
                    printer.line(format!("cached, valid for another {}", duration::format_duration(entry.remaining)))
                }
                None => printer.line("not cached"),
            }
            let comparisons = cache::compare(&call, &store).map_err(|error| unusable(dir, error))?;
            for comparison in comparisons.iter().take(MAX_COMPARED) {
                printer.line(format!("differs from entry {} in", &comparison.key.as_str()[..12]));
                let rows = comparison.differences.iter().take(MAX_DIFFERENCES).map(difference);
                printer::print_rows(&mut printer, "  ", &rows.collect::<Vec<_>>());
                let more = comparison.differences.len().saturating_sub(MAX_DIFFERENCES);
                if more > 0 {
                    printer.line(format!("  and {more} more"));
                }
            }
        }
    }
    printer.finish()?;
    Ok(ExitStatus::Success)
}

/// The name of a differing key part and the kind of difference, never a value.
fn difference(difference: &KeyDifference) -> (String, String) {
    let (what, how) = match difference {
        KeyDifference::Changed(what) => (what, "another value"),
        KeyDifference::Added(what) => (what, "only in this call"),
        KeyDifference::Removed(what) => (what, "not in this call"),
    };
    (what.clone(), how.to_owned())
}

/// Returns the store of `--cache-dir` or the default one. `None`: it does not exist.
fn open_store(args: &DirArg) -> Result<Option<(Store, PathBuf)>, CliError> {
    let path = cache::directory(args.cache_dir.as_ref(), &SystemEnv).ok_or_else(|| {
        CliError::usage("the cache directory is unknown: HOME is not set").hint("set HOME or pass --cache-dir")
    })?;
    let store = Store::open_existing(&path).map_err(|error| unusable(&path, error))?;
    Ok(store.map(|store| (store, path)))
}

fn unusable(path: &Path, error: StoreError) -> CliError {
    CliError::usage(format!("cannot use the cache at {}: {error}", path.display()))
}
