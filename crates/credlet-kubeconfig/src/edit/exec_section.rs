//! Candidate edits of an exec section, and their verification.

use credlet_api::Secret;
use credlet_api::kubeconfig::{ExecSection, KubeconfigFile};
use zeroize::Zeroizing;

/// Returns the text in which the plugin of `user` is `command`, with its first `cut` arguments replaced by `prefix`. Returns
/// `None` if no candidate edit has this meaning.
pub(super) fn edit(text: &str, user: &str, command: &str, cut: usize, prefix: &[Secret]) -> Option<Zeroizing<String>> {
    let old = section(&mut KubeconfigFile::decode(text.as_bytes()).ok()?, user)?.clone();
    let prefix: Vec<_> = prefix.iter().map(|arg| quote(arg.expose())).collect();
    scalars(text, old.command.line, "command").into_iter().find_map(|(start, end)| {
        let replaced = joined(&[&text[..start], &format_like(&text[start..end], command), &text[end..]]);
        let after = replaced.len() - (text.len() - end);
        let mut candidates = Vec::new();
        if cut > 0 {
            remove_candidates(&replaced, old.args.line, cut, &mut candidates);
        } else if old.args.line > 0 {
            insert_candidates(&replaced, old.args.line, &prefix, old.args.is_empty(), &mut candidates);
        } else {
            new_list_candidates(&replaced, old.command.line, after, &prefix, &mut candidates);
        }
        candidates
            .into_iter()
            .find(|candidate| candidate.is_correct(text, user, command, cut, &unquote(&prefix)))
            .map(|candidate| candidate.text)
    })
}

/// A candidate edit.
struct Candidate {
    text: Zeroizing<String>,
    /// Inserted lines: position and number. Negative: removed lines.
    lines: (usize, isize),
}

impl Candidate {
    /// Returns whether the edit has exactly the intended effect. The decoded values contain line numbers, so blank lines
    /// are inserted where only the other text has lines.
    fn is_correct(&self, old: &str, user: &str, command: &str, cut: usize, prefix: &[Secret]) -> bool {
        let (at, more) = self.lines;
        let new = with_blank_lines(&self.text, at, (-more).max(0).unsigned_abs());
        let old = with_blank_lines(old, at, more.max(0).unsigned_abs());
        let (Ok(mut new), Ok(mut expected)) =
            (KubeconfigFile::decode(new.as_bytes()), KubeconfigFile::decode(old.as_bytes()))
        else {
            return false;
        };
        let (Some(found), Some(exec)) = (section(&mut new, user), section(&mut expected, user)) else { return false };
        if exec.args.len() < cut {
            return false;
        }
        exec.command.value = command.to_owned();
        exec.args.value.splice(..cut, prefix.iter().cloned());
        // A new list has a line, and a removed one may have lost it.
        exec.args.line = found.args.line;
        new == expected
    }
}

fn section<'a>(config: &'a mut KubeconfigFile, user: &str) -> Option<&'a mut ExecSection> {
    let user = config.users.iter_mut().find(|entry| entry.name == user)?;
    user.item.exec.as_mut().map(|exec| &mut exec.value)
}

/// Inserts items at the beginning of a list: in brackets, or on separate lines.
fn insert_candidates(text: &str, line: usize, prefix: &[String], empty: bool, candidates: &mut Vec<Candidate>) {
    let (begin, end) = row(text, line);
    for bracket in after_key(text, begin, end, "args").filter(|at| text[*at..].starts_with('[')) {
        let separator = if empty { "" } else { ", " };
        let items = [&prefix.join(", "), separator].concat();
        candidates.push(Candidate { text: joined(&[&text[..=bracket], &items, &text[bracket + 1..]]), lines: (0, 0) });
    }
    if empty {
        // `args:`, `args: null`.
        for (start, stop) in
            scalars(text, line, "args").into_iter().chain(after_key(text, begin, end, "args").map(|at| (at, at)))
        {
            let list = format!(" [{}]", prefix.join(", "));
            candidates.push(Candidate { text: joined(&[&text[..start], &list, &text[stop..]]), lines: (0, 0) });
        }
    } else if let Some(first) = items(text, line).first() {
        let (begin, _) = row(text, *first);
        let dash = begin + text[begin..].find('-').unwrap_or_default();
        let lines: String =
            prefix.iter().map(|item| format!("{}- {item}{}", &text[begin..dash], line_break(text))).collect();
        let more = isize::try_from(prefix.len()).unwrap_or_default();
        candidates
            .push(Candidate { text: joined(&[&text[..begin], &lines, &text[begin..]]), lines: (first - 1, more) });
    }
}

/// Adds a list: on the line after the command, or behind the command in braces.
fn new_list_candidates(text: &str, line: usize, after: usize, prefix: &[String], candidates: &mut Vec<Candidate>) {
    let (begin, end) = row(text, line);
    let key = begin + text[begin..end].find(|c: char| !matches!(c, ' ' | '-')).unwrap_or_default();
    let indent: String = text[begin..key].replace('-', " ");
    let list = prefix.join(", ");
    let next = (end + 1).min(text.len());
    let lines = format!("{indent}args: [{list}]{}", line_break(text));
    candidates.push(Candidate { text: joined(&[&text[..next], &lines, &text[next..]]), lines: (line, 1) });
    let member = format!(", \"args\": [{list}]");
    candidates.push(Candidate { text: joined(&[&text[..after], &member, &text[after..]]), lines: (0, 0) });
}

/// Removes items from the beginning of a list: in brackets, or on separate lines.
fn remove_candidates(text: &str, line: usize, cut: usize, candidates: &mut Vec<Candidate>) {
    let (begin, end) = row(text, line);
    for bracket in after_key(text, begin, end, "args").filter(|at| text[*at..].starts_with('[')) {
        let inside = bracket + 1;
        let closing = text[inside..].find(']').map(|at| inside + at);
        // Items may contain commas, so any of the first commas may be the end; the last item has none behind it.
        let commas = text[inside..].match_indices(',').map(|(at, _)| inside + at + 1).take(cut + 16);
        for stop in commas.chain(closing) {
            let rest = text[stop..].trim_start_matches(' ');
            let removed = text[inside..stop].matches('\n').count();
            let lines = (line, -isize::try_from(removed).unwrap_or_default());
            candidates.push(Candidate { text: joined(&[&text[..inside], rest]), lines });
        }
    }
    let items = items(text, line);
    if let (Some(first), true) = (items.first(), items.len() >= cut) {
        let mut edited = Zeroizing::new(String::with_capacity(text.len()));
        for (index, row) in text.split_inclusive('\n').enumerate() {
            if !items[..cut].contains(&(index + 1)) {
                edited.push_str(row);
            }
        }
        candidates.push(Candidate { text: edited, lines: (first - 1, -isize::try_from(cut).unwrap_or_default()) });
    }
}

/// Returns the line numbers of the items of a block list.
fn items(text: &str, line: usize) -> Vec<usize> {
    let is_item = |row: &str| row.trim_start().starts_with("- ");
    let rows = text.lines().enumerate().skip(line).map(|(index, row)| (index + 1, row));
    let rows = rows.skip_while(|(_, row)| row.trim().is_empty() || row.trim_start().starts_with('#'));
    let mut indent = None;
    let mut items = Vec::new();
    for (number, row) in rows {
        let depth = row.len() - row.trim_start().len();
        match indent {
            _ if row.trim().is_empty() || row.trim_start().starts_with('#') => {}
            None if is_item(row) => {
                indent = Some(depth);
                items.push(number);
            }
            Some(indent) if is_item(row) && depth == indent => items.push(number),
            _ => break,
        }
    }
    items
}

/// Returns the possible positions of the value of `key` on this line.
fn after_key<'a>(text: &'a str, begin: usize, end: usize, key: &'a str) -> impl Iterator<Item = usize> + 'a {
    text[begin..end].match_indices(key).filter_map(move |(at, _)| {
        let rest = &text[begin + at + key.len()..end];
        let value = rest.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?;
        Some(end - value.trim_start().len())
    })
}

/// Returns the possible ranges of the scalar of `key` on this line.
fn scalars(text: &str, line: usize, key: &str) -> Vec<(usize, usize)> {
    let (begin, end) = row(text, line);
    let scalar = |at: usize| {
        let rest = &text[at..end];
        let length = match rest.chars().next()? {
            quote @ ('"' | '\'') => rest[1..].find(quote)? + 2,
            '|' | '>' | '*' | '&' | '!' | '{' | '[' | '#' => return None,
            _ => rest.find([',', '}', ']', ' ', '\t', '\r']).unwrap_or(rest.len()),
        };
        (length > 0).then_some((at, at + length))
    };
    after_key(text, begin, end, key).filter_map(scalar).collect()
}

/// Returns the range of a line, counted from 1, without its line break.
fn row(text: &str, line: usize) -> (usize, usize) {
    let begin = match line.saturating_sub(2) {
        0 if line <= 1 => 0,
        breaks => text.match_indices('\n').nth(breaks).map_or(text.len(), |(at, _)| at + 1),
    };
    (begin, text[begin..].find('\n').map_or(text.len(), |length| begin + length))
}

fn line_break(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn with_blank_lines(text: &str, after: usize, count: usize) -> Zeroizing<String> {
    let (at, _) = row(text, after + 1);
    joined(&[&text[..at], &"\n".repeat(count), &text[at..]])
}

fn joined(parts: &[&str]) -> Zeroizing<String> {
    Zeroizing::new(parts.concat())
}

/// Formats the new scalar plain if the old one is plain and the new one allows it, else quoted.
fn format_like(old: &str, new: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_plain = new.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && new.chars().all(plain);
    if is_plain && !old.starts_with(['"', '\'']) { new.to_owned() } else { quote(new) }
}

/// Quotes a string as JSON, which is valid YAML.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn unquote(prefix: &[String]) -> Vec<Secret> {
    prefix.iter().filter_map(|item| serde_json::from_str::<Secret>(item).ok()).collect()
}
