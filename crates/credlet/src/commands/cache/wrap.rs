//! `credlet cache wrap` and `unwrap`: edit a kubeconfig so that its plugins run through the cache.

use std::path::{Path, PathBuf};

use credlet_kubeconfig::edit::{self as edit, EditError, ExecUser};
use zeroize::Zeroizing;

use super::WrapArgs;
use crate::args::GlobalArgs;
use crate::commands::Outcome;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::kubeconfig_file::read;
use crate::printer::Printer;

pub(super) fn wrap(args: &WrapArgs, global: &GlobalArgs) -> Outcome {
    let args_with_plugin = args.options.iter().cloned().chain(["--".to_owned(), "plugin".to_owned()]);
    super::parse_options(args_with_plugin)
        .map_err(|error| CliError::usage(format!("invalid cache options: {error}")))?;
    each_file(args, global, "wrap", |text, user| {
        if user.wrapped { Ok(None) } else { edit::wrap(text, &user.name, &args.program, &args.options).map(Some) }
    })
}

pub(super) fn unwrap(args: &WrapArgs, global: &GlobalArgs) -> Outcome {
    each_file(
        args,
        global,
        "unwrap",
        |text, user| {
            if user.wrapped { edit::unwrap(text, &user.name).map(Some) } else { Ok(None) }
        },
    )
}

/// Edits the selected users, file by file. `change` returns `None` if a user needs no change.
fn each_file(
    args: &WrapArgs,
    global: &GlobalArgs,
    what: &str,
    change: impl Fn(&str, &ExecUser) -> Result<Option<Zeroizing<String>>, EditError>,
) -> Outcome {
    let wanted = if args.all { None } else { Some(user(global)?) };
    let mut printer = Printer::default();
    let mut found = false;
    for path in files(global) {
        let Some(old) = read(&path)? else { continue };
        let at = |error: EditError| CliError::usage(format!("{}: {error}", path.display()));
        let mut new = old.clone();
        let mut changed = Vec::new();
        for user in edit::exec_users(&old).map_err(at)? {
            if wanted.as_ref().is_some_and(|wanted| *wanted != user.name) {
                continue;
            }
            found = true;
            if let Some(text) = change(&new, &user).map_err(at)? {
                new = text;
                changed.push(user);
            }
        }
        let names: Vec<_> = changed.iter().map(|user| format!("{} ({})", user.name, user.plugin)).collect();
        if changed.is_empty() {
            continue;
        }
        let (names, shown) = (names.join(", "), path.display());
        if args.dry_run {
            printer.untrusted_line(&format!("{shown}: would {what} {names}"));
        } else {
            let saved = edit::save(&path, &old, &new);
            let backup = saved.map_err(|error| CliError::usage(format!("{shown}: {error}")))?;
            printer.untrusted_line(&format!("{shown}: {what}ped {names}; the old file is {}", backup.display()));
        }
        if wanted.is_some() {
            break;
        }
    }
    match (found, wanted) {
        (false, Some(user)) => Err(CliError::usage(format!("no kubeconfig has a user {user:?} with an exec plugin"))),
        (false, None) => Err(CliError::usage("no kubeconfig has a user with an exec plugin")),
        (true, _) => {
            printer.finish()?;
            Ok(ExitStatus::Success)
        }
    }
}

/// The plugin of the context, with or without the cache in front of it, and the URL of its cluster.
pub(super) fn plugin(global: &GlobalArgs) -> Result<(String, String), CliError> {
    let wanted = user(global)?;
    let mut found = None;
    for path in files(global) {
        let Some(text) = read(&path)? else { continue };
        let users = edit::exec_users(&text).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
        found = found.or_else(|| users.into_iter().find(|user| user.name == wanted));
    }
    let user =
        found.ok_or_else(|| CliError::usage(format!("no kubeconfig has a user {wanted:?} with an exec plugin")))?;
    Ok((user.plugin, global.resolve()?.server.value))
}

/// The user of `--user`, or that of the context.
fn user(global: &GlobalArgs) -> Result<String, CliError> {
    if let Some(user) = &global.user {
        return Ok(user.clone());
    }
    let mut named = None;
    let mut contexts = Vec::new();
    for path in files(global) {
        let Some(text) = read(&path)? else { continue };
        let config = credlet_api::kubeconfig::KubeconfigFile::decode(text.as_bytes())
            .map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
        named = named.or(Some(config.current_context.value).filter(|name| !name.is_empty()));
        contexts.extend(config.contexts);
    }
    let name = global.context.clone().or(named);
    let name = name.ok_or_else(|| {
        CliError::usage("no context is set").hint("name one with --context, a user with --user, or all with --all")
    })?;
    let context = contexts.into_iter().find(|context| context.name == name);
    let context = context.ok_or_else(|| CliError::usage(format!("there is no context {name:?}")))?;
    Ok(context.item.user.value)
}

fn files(global: &GlobalArgs) -> Vec<PathBuf> {
    global.loading_rules().files().map(Path::to_owned).collect()
}
