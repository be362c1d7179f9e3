//! What is kept: shown, forgotten, explained.

use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_core::{Clock as _, SystemClock, SystemEnv};
use credlet_plugins::cache::{self, Call, Listed, Options};
use credlet_plugins::store::{Store, StoreError};
use serde::Serialize;

use super::{DirArg, LsArgs, RmArgs, wrap};
use crate::args::Global;
use crate::commands::Outcome;
use crate::duration;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::{self, Format, Printer};

pub(super) fn ls(args: &LsArgs) -> Outcome {
    let now = SystemClock::new().now();
    let listed = match opened(&args.dir)? {
        Some((store, path)) => cache::list(&store, now).map_err(|error| unusable(&path, error))?,
        None => Vec::new(),
    };
    let mut printer = Printer::default();
    if args.output.format == Format::Text {
        if listed.is_empty() {
            printer.line("nothing is kept");
        } else {
            let width = listed.iter().map(|entry| entry.command.chars().count()).max().unwrap_or_default();
            for entry in &listed {
                let left = if entry.left.is_zero() { "over".to_owned() } else { duration::rough(entry.left) };
                let sealed = if entry.encrypted { " encrypted" } else { "" };
                let (key, command, server) = (&entry.key[..12], &entry.command, &entry.server);
                printer.foreign(format!("{key}  {command:<width$}  {left:>8}{sealed}  {server}").trim_end());
            }
        }
    } else {
        let shown: Vec<_> = listed.iter().map(Shown::from).collect();
        printer.object(&shown, args.output.format);
    }
    printer.done()?;
    Ok(Exit::Ok)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    key: &'a str,
    command: &'a str,
    server: &'a str,
    created: String,
    end: Option<String>,
    seconds_left: u64,
    encrypted: bool,
}

impl<'a> From<&'a Listed> for Shown<'a> {
    fn from(entry: &'a Listed) -> Self {
        Self {
            key: &entry.key,
            command: &entry.command,
            server: &entry.server,
            created: entry.created.to_string(),
            end: entry.end.map(|end| end.to_string()),
            seconds_left: entry.left.as_secs(),
            encrypted: entry.encrypted,
        }
    }
}

/// What the cache was good for, by the plugins whose answers are kept.
pub(super) fn stats(args: &LsArgs) -> Outcome {
    let now = SystemClock::new().now();
    let listed = match opened(&args.dir)? {
        Some((store, path)) => cache::list(&store, now).map_err(|error| unusable(&path, error))?,
        None => Vec::new(),
    };
    let mut printer = Printer::default();
    if args.output.format == Format::Text {
        let (mut hits, mut runs, mut saved) = (0, 0, Duration::ZERO);
        let width = listed.iter().map(|entry| entry.command.chars().count()).max().unwrap_or_default();
        for Listed { command, server, tally, .. } in &listed {
            let (of_hits, of_runs) = (tally.hits(), tally.runs + tally.ahead);
            let line = format!("{command:<width$}  {of_hits:>6} from the cache  {of_runs:>4} runs  {server}");
            printer.foreign(line.trim_end());
            (hits, runs, saved) = (hits + of_hits, runs + of_runs, saved + tally.saved());
        }
        let waited = duration::rough(saved);
        printer.line(format!("{hits} answers from the cache, {runs} runs; about {waited} of waiting saved"));
    } else {
        let shown: Vec<_> = listed.iter().map(Good::from).collect();
        printer.object(&shown, args.output.format);
    }
    printer.done()?;
    Ok(Exit::Ok)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Good<'a> {
    key: &'a str,
    command: &'a str,
    server: &'a str,
    hits: u64,
    runs: u64,
    runs_ahead: u64,
    seconds_run: f64,
    seconds_saved: f64,
}

impl<'a> From<&'a Listed> for Good<'a> {
    fn from(entry: &'a Listed) -> Self {
        let Listed { key, command, server, tally, .. } = entry;
        Self {
            key,
            command,
            server,
            hits: tally.hits(),
            runs: tally.runs,
            runs_ahead: tally.ahead,
            seconds_run: tally.ran.as_secs_f64(),
            seconds_saved: tally.saved().as_secs_f64(),
        }
    }
}

/// By keys, all of it, or what the plugin of a context has answered.
pub(super) fn rm(args: &RmArgs, global: &Global) -> Outcome {
    let mut printer = Printer::default();
    let mut removed = 0;
    let of_context = global.context.is_some() && args.keys.is_empty() && !args.all;
    if !of_context && args.keys.is_empty() && !args.all {
        return Err(
            CliError::usage("what to forget is not said").hint("name a key that `ls` shows, --context or --all")
        );
    }
    let plugin = if of_context { Some(wrap::plugin(global)?) } else { None };
    if let (Some((store, path)), Some((command, server))) = (opened(&args.dir)?, plugin) {
        let now = SystemClock::new().now();
        removed += cache::remove_of(&store, &command, &server, now).map_err(|error| unusable(&path, error))?;
    } else if let Some((store, path)) = opened(&args.dir)? {
        let all = [String::new()];
        for key in if args.all { &all[..] } else { &args.keys } {
            if key.is_empty() && !args.all {
                return Err(CliError::usage("an empty key is every key").hint("--all forgets all of it"));
            }
            removed += cache::remove(&store, key).map_err(|error| unusable(&path, error))?;
        }
    }
    printer.line(format!("{removed} forgotten"));
    printer.done()?;
    Ok(Exit::Ok)
}

pub(super) fn explain(options: Options) -> Outcome {
    let call = Call::new(options, &SystemEnv).map_err(|note| CliError::usage(note.to_string()))?;
    if call.inputs().is_empty() {
        return Err(CliError::usage("KUBERNETES_EXEC_INFO cannot be understood, so nothing would be kept"));
    }
    let mut printer = Printer::default();
    printer.line(format!("key {}", call.key()));
    let inputs = call.inputs().iter().map(|input| (input.what.clone(), input.shown.clone()));
    printer::rows(&mut printer, "  ", &inputs.collect::<Vec<_>>());
    let now = SystemClock::new().now();
    let store = call.dir().filter(|dir| dir.exists()).map(|dir| (Store::open(dir), dir));
    match store {
        None => printer.line("nothing is kept"),
        Some((Err(error), dir)) => return Err(unusable(dir, error)),
        Some((Ok(store), dir)) => {
            let listed = cache::list(&store, now).map_err(|error| unusable(dir, error))?;
            match listed.into_iter().find(|entry| entry.key == call.key().as_str()) {
                Some(entry) if entry.left.is_zero() => printer.line("kept, but not good any more"),
                Some(entry) => printer.line(format!("kept, and served for another {}", duration::rough(entry.left))),
                None => printer.line("not kept"),
            }
        }
    }
    printer.done()?;
    Ok(Exit::Ok)
}

/// `None`: nothing was ever kept.
fn opened(args: &DirArg) -> Result<Option<(Store, PathBuf)>, CliError> {
    let path = cache::directory(args.cache_dir.as_ref(), &SystemEnv)
        .ok_or_else(|| CliError::usage("there is no directory for a cache").hint("set HOME, or use --cache-dir"))?;
    if !path.exists() {
        return Ok(None);
    }
    let store = Store::open(&path).map_err(|error| unusable(&path, error))?;
    Ok(Some((store, path)))
}

fn unusable(path: &Path, error: StoreError) -> CliError {
    CliError::usage(format!("{} cannot be used: {error}", path.display()))
}
