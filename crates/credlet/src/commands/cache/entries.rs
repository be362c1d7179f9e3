//! What is kept: shown, forgotten, explained.

use std::path::{Path, PathBuf};

use credlet_core::{Clock as _, SystemClock, SystemEnv};
use credlet_plugins::cache::{self, Call, Listed, Options};
use credlet_plugins::store::{Store, StoreError};
use serde::Serialize;

use super::{DirArg, LsArgs, RmArgs};
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

pub(super) fn rm(args: &RmArgs) -> Outcome {
    let mut printer = Printer::default();
    let mut removed = 0;
    if let Some((store, path)) = opened(&args.dir)? {
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
