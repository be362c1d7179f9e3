//! Inserts `credlet cache` in front of the exec plugin of a kubeconfig user, and removes it.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

use credlet_api::Secret;
use credlet_api::kubeconfig::{ExecSection, KubeconfigDecodeError, KubeconfigFile};
use credlet_platform::session_env;
use zeroize::Zeroizing;

use super::document::{Document, Node, NodeKind};
use super::text_edit::{TextEdit, apply_verified, double_quoted, line_break, line_start, next_line};

/// A user with an exec plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecUser {
    /// User name, untrusted text.
    pub name: String,
    /// Command of the plugin, without the cache.
    pub plugin: String,
    /// Whether the plugin is run through the cache.
    pub wrapped: bool,
}

/// Returns all users with an exec plugin, in the order of the file.
///
/// # Errors
/// Returns an error if the text is not a kubeconfig.
pub fn exec_users(text: &str) -> Result<Vec<ExecUser>, EditError> {
    let config = KubeconfigFile::decode(text.as_bytes()).map_err(EditError::Unreadable)?;
    let users = config.users.iter().filter_map(|user| {
        let exec = &user.item.exec.as_ref()?.value;
        let wrapper = CacheWrapper::of(exec);
        let plugin = wrapper.as_ref().map_or(&*exec.command.value, |wrapper| wrapper.plugin(exec)).to_owned();
        Some(ExecUser { name: user.name.clone(), plugin, wrapped: wrapper.is_some() })
    });
    Ok(users.collect())
}

/// Returns the text with `credlet cache [options] --` in front of the plugin of this user; `program` is the credlet command.
/// Adds `--env NAME` for each variable of `exec.env` that is not part of the cache key by default.
///
/// # Errors
/// Returns an error if the user does not exist, its plugin is already wrapped, or the text cannot be edited safely.
pub fn wrap(text: &str, user: &str, program: &str, options: &[String]) -> Result<Zeroizing<String>, EditError> {
    let exec = section(text, user)?;
    if CacheWrapper::of(&exec).is_some() {
        return Err(EditError::Wrapped { user: user.to_owned() });
    }
    // Variables of terminals and sessions are not part of the cache key. If the kubeconfig sets one, two users may differ
    // in it, so it is added to the key.
    let session = exec.env.iter().filter(|variable| {
        let (name, value): (&OsStr, &OsStr) = (variable.name.value.as_ref(), variable.value.expose().as_ref());
        session_env::is_session_variable(name, value)
    });
    let named = session.flat_map(|variable| ["--env", variable.name.value.as_str()]);
    let args = ["cache"].into_iter().chain(options.iter().map(String::as_str)).chain(named);
    let prefix: Vec<_> = args.chain(["--", &exec.command.value]).map(Secret::from).collect();
    edit(text, user, program, 0, &prefix).ok_or(EditError::Form { line: exec.command.line })
}

/// Returns the text without the cache in front of the plugin of this user.
///
/// # Errors
/// Returns an error if the user does not exist, its plugin is not wrapped, or the text cannot be edited safely.
pub fn unwrap(text: &str, user: &str) -> Result<Zeroizing<String>, EditError> {
    let exec = section(text, user)?;
    let wrapper = CacheWrapper::of(&exec).ok_or_else(|| EditError::NotWrapped { user: user.to_owned() })?;
    let arguments = match &wrapper {
        CacheWrapper::Arguments { plugin } => plugin + 1,
        CacheWrapper::Link { .. } => 0,
    };
    let command = wrapper.plugin(&exec);
    edit(text, user, command, arguments, &[]).ok_or(EditError::Form { line: exec.command.line })
}

fn section(text: &str, user: &str) -> Result<ExecSection, EditError> {
    let config = KubeconfigFile::decode(text.as_bytes()).map_err(EditError::Unreadable)?;
    let found = config.users.into_iter().find(|entry| entry.name == user);
    let found = found.ok_or_else(|| EditError::NoUser { user: user.to_owned() })?;
    let exec = found.item.exec.ok_or_else(|| EditError::NoPlugin { user: user.to_owned() })?;
    if exec.command.is_empty() { Err(EditError::NoPlugin { user: user.to_owned() }) } else { Ok(exec.value) }
}

/// Returns the text in which the plugin of `user` is `command`, with its first `cut` arguments replaced by `prefix`. Returns
/// `None` if no safe edit has this meaning.
fn edit(text: &str, user: &str, command: &str, cut: usize, prefix: &[Secret]) -> Option<Zeroizing<String>> {
    let document = Document::parse(text)?;
    let exec = document.resolve(document.member(document.user(user)?, "exec")?.1);
    let (key, old) = document.member(exec, "command")?;
    let mut edits = vec![TextEdit::set_scalar(&document, old, command)?];
    match document.member(exec, "args") {
        Some((_, args)) if cut > 0 => edits.extend(remove_items(&document, args, cut)?),
        Some((key, args)) if !prefix.is_empty() => edits.push(insert_items(&document, key, args, prefix)?),
        None if !prefix.is_empty() => edits.push(new_list(text, exec, key, old, prefix)),
        None if cut > 0 => return None,
        _ => {}
    }
    apply_verified(text, edits, |expected, found| {
        let exec = expected.users.iter_mut().find(|entry| entry.name == user)?.item.exec.as_mut()?;
        exec.value.command.value = command.to_owned();
        if exec.args.len() < cut {
            return None;
        }
        exec.value.args.value.splice(..cut, prefix.iter().cloned());
        // A new list has a line, and a removed one may have lost it.
        exec.value.args.line = found.users.iter().find(|entry| entry.name == user)?.item.exec.as_ref()?.args.line;
        Some(())
    })
}

/// Inserts items at the beginning of a list: in brackets, or on separate lines.
fn insert_items(document: &Document<'_>, key: &Node, args: &Node, prefix: &[Secret]) -> Option<TextEdit> {
    let text = document.text;
    match &args.kind {
        NodeKind::List { items, flow: true } => {
            let separator = if items.is_empty() { "" } else { ", " };
            Some(TextEdit::insert(args.range.start + 1, flow_items(prefix) + separator))
        }
        NodeKind::List { items, flow: false } => {
            let row = item_row(text, document.node(*items.first()?))?;
            let indent = &text[row.start..row.start + text[row.clone()].find('-')?];
            let lines = prefix
                .iter()
                .map(|item| format!("{indent}- {}{}", *double_quoted(item.expose()), line_break(text)))
                .collect();
            Some(TextEdit::insert(row.start, lines))
        }
        // `args: null`, or `args:` without a value.
        NodeKind::Scalar { .. } if document.source(args).is_some() => {
            let list = Zeroizing::new(format!("[{}]", flow_items(prefix)));
            Some(TextEdit { range: args.range.clone(), text: list })
        }
        NodeKind::Scalar { .. } => {
            let rest = &text[key.range.end..];
            let colon = key.range.end + (rest.len() - rest.trim_start().strip_prefix(':')?.len());
            Some(TextEdit::insert(colon, format!(" [{}]", flow_items(prefix))))
        }
        _ => None,
    }
}

/// Adds a list: on the line after the command, or behind the command in braces.
fn new_list(text: &str, exec: &Node, key: &Node, command: &Node, prefix: &[Secret]) -> TextEdit {
    let list = flow_items(prefix);
    if matches!(exec.kind, NodeKind::Map { flow: true, .. }) {
        return TextEdit::insert(command.range.end, format!(", \"args\": [{list}]"));
    }
    let (at, line_break) = (next_line(text, command.range.end), line_break(text));
    let member = format!("{}args: [{list}]", " ".repeat(key.column));
    // The last line may have no line break.
    let is_next = text[..at].ends_with('\n');
    TextEdit::insert(at, if is_next { member + line_break } else { line_break.to_owned() + &member })
}

/// Removes items from the beginning of a list: in brackets, or on separate lines.
fn remove_items(document: &Document<'_>, args: &Node, cut: usize) -> Option<Vec<TextEdit>> {
    let text = document.text;
    let NodeKind::List { items, flow } = &args.kind else { return None };
    let removed = items.get(..cut)?;
    if !flow {
        return removed.iter().map(|item| item_row(text, document.node(*item)).map(TextEdit::remove)).collect();
    }
    let mut rest = &text[document.node(*removed.last()?).range.end..args.range.end];
    // White space and comments may precede the comma.
    while let Some(comment) = rest.trim_start().strip_prefix('#') {
        rest = &comment[next_line(comment, 0)..];
    }
    let rest = match rest.trim_start().strip_prefix(',') {
        Some(rest) => rest.trim_start_matches(' '),
        None => text[..args.range.end].get(args.range.end - 1..).filter(|end| *end == "]")?,
    };
    Some(vec![TextEdit::remove(args.range.start + 1..args.range.end - rest.len())])
}

/// Returns the line of an item of a block list, with its line break. Returns `None` if the item is not alone on one line.
fn item_row(text: &str, item: &Node) -> Option<Range<usize>> {
    let row = line_start(text, item.range.start)..next_line(text, item.range.start);
    let is_alone = text[row.clone()].trim_start_matches(' ').starts_with("- ") && item.range.end <= row.end;
    is_alone.then_some(row)
}

fn flow_items(items: &[Secret]) -> String {
    items.iter().map(|item| double_quoted(item.expose()).to_string()).collect::<Vec<_>>().join(", ")
}

/// Form in which a plugin is run through the cache.
enum CacheWrapper {
    /// `credlet cache … -- PLUGIN`, `credlet plugin cache … -- PLUGIN` or `credlet-cache … -- PLUGIN`.
    Arguments {
        /// Index of the plugin in the arguments.
        plugin: usize,
    },
    /// The link `credlet-cache-PLUGIN`.
    Link {
        /// Name of the plugin.
        plugin: String,
    },
}

impl CacheWrapper {
    /// Returns `None` if the plugin is run without the cache.
    fn of(exec: &ExecSection) -> Option<Self> {
        let name = Path::new(&exec.command.value).file_name()?.to_str()?;
        let args: Vec<_> = exec.args.iter().take(2).map(Secret::expose).collect();
        let is_cache = match name {
            "credlet" => matches!(args.as_slice(), ["cache", ..] | ["plugin", "cache"]),
            "credlet-cache" => true,
            _ => {
                let plugin = name.strip_prefix("credlet-cache-").filter(|plugin| !plugin.is_empty())?;
                return Some(Self::Link { plugin: plugin.to_owned() });
            }
        };
        let end = exec.args.iter().position(|arg| arg.expose() == "--").filter(|_| is_cache)?;
        (end + 1 < exec.args.len()).then_some(Self::Arguments { plugin: end + 1 })
    }

    fn plugin<'a>(&'a self, exec: &'a ExecSection) -> &'a str {
        match self {
            Self::Arguments { plugin } => exec.args[*plugin].expose(),
            Self::Link { plugin } => plugin,
        }
    }
}

/// A kubeconfig that was not edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text is not a kubeconfig.
    #[error("invalid kubeconfig: {0}")]
    Unreadable(KubeconfigDecodeError),
    /// The user does not exist.
    #[error("user {user:?} not found")]
    NoUser {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// The user has no plugin.
    #[error("missing exec plugin of user {user:?}")]
    NoPlugin {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// The plugin is already run through the cache.
    #[error("exec plugin of user {user:?} is already cached")]
    Wrapped {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// The plugin is not run through the cache.
    #[error("exec plugin of user {user:?} is not a cached one")]
    NotWrapped {
        /// Name of the kubeconfig user.
        user: String,
    },
    /// No candidate edit has the intended meaning.
    #[error("line {line}: cannot edit the exec section safely: it is shared between users or has an unsupported form")]
    Form {
        /// Line of the exec section.
        line: usize,
    },
}

#[cfg(test)]
mod tests;
