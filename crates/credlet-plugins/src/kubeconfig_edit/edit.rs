//! Guesses, and the check that one of them is right.

use credlet_api::Secret;
use credlet_api::kubeconfig::{Config, ExecSection};
use zeroize::Zeroizing;

/// The text in which the plugin of `user` is `command`, without its first `cut` arguments and with `front` before the
/// others. `None`: it is written in none of the ways that we know.
pub(super) fn exec(text: &str, user: &str, command: &str, cut: usize, front: &[Secret]) -> Option<Zeroizing<String>> {
    let old = section(&mut Config::decode(text.as_bytes()).ok()?, user)?.clone();
    let front: Vec<_> = front.iter().map(|word| quoted(word.expose())).collect();
    scalars(text, old.command.line, "command").into_iter().find_map(|(start, end)| {
        let replaced = joined(&[&text[..start], &in_form(&text[start..end], command), &text[end..]]);
        let after = replaced.len() - (text.len() - end);
        let mut guesses = Vec::new();
        if cut > 0 {
            cut_guesses(&replaced, old.args.line, cut, &mut guesses);
        } else if old.args.line > 0 {
            front_guesses(&replaced, old.args.line, &front, old.args.is_empty(), &mut guesses);
        } else {
            new_guesses(&replaced, old.command.line, after, &front, &mut guesses);
        }
        guesses
            .into_iter()
            .find(|guess| guess.is_right(text, user, command, cut, &front_words(&front)))
            .map(|guess| guess.text)
    })
}

/// One way in which it may have been meant.
struct Guess {
    text: Zeroizing<String>,
    /// Lines that are new: after so many lines, so many. Negative: they are gone.
    lines: (usize, isize),
}

impl Guess {
    /// Blank lines stand where one of the two texts has lines that the other has not, so that all that is the same is on
    /// the same lines, and can be compared with them.
    fn is_right(&self, old: &str, user: &str, command: &str, cut: usize, front: &[Secret]) -> bool {
        let (at, more) = self.lines;
        let new = with_blank_lines(&self.text, at, (-more).max(0).unsigned_abs());
        let old = with_blank_lines(old, at, more.max(0).unsigned_abs());
        let (Ok(mut new), Ok(mut wanted)) = (Config::decode(new.as_bytes()), Config::decode(old.as_bytes())) else {
            return false;
        };
        let (Some(found), Some(exec)) = (section(&mut new, user), section(&mut wanted, user)) else { return false };
        if exec.args.len() < cut {
            return false;
        }
        exec.command.value = command.to_owned();
        exec.args.value.splice(..cut, front.iter().cloned());
        // A list that was not there has a line now, and a list that is gone may have lost its own.
        exec.args.line = found.args.line;
        new == wanted
    }
}

fn section<'a>(config: &'a mut Config, user: &str) -> Option<&'a mut ExecSection> {
    let user = config.users.iter_mut().find(|entry| entry.name == user)?;
    user.item.exec.as_mut().map(|exec| &mut exec.value)
}

/// Words before the first of a list: in brackets, or lines of their own.
fn front_guesses(text: &str, line: usize, front: &[String], empty: bool, guesses: &mut Vec<Guess>) {
    let (begin, end) = row(text, line);
    for bracket in after_key(text, begin, end, "args").filter(|at| text[*at..].starts_with('[')) {
        let separator = if empty { "" } else { ", " };
        let words = [&front.join(", "), separator].concat();
        guesses.push(Guess { text: joined(&[&text[..=bracket], &words, &text[bracket + 1..]]), lines: (0, 0) });
    }
    if empty {
        // `args:`, `args: null`.
        for (start, stop) in
            scalars(text, line, "args").into_iter().chain(after_key(text, begin, end, "args").map(|at| (at, at)))
        {
            let list = format!(" [{}]", front.join(", "));
            guesses.push(Guess { text: joined(&[&text[..start], &list, &text[stop..]]), lines: (0, 0) });
        }
    } else if let Some(first) = items(text, line).first() {
        let (begin, _) = row(text, *first);
        let dash = begin + text[begin..].find('-').unwrap_or_default();
        let lines: String =
            front.iter().map(|word| format!("{}- {word}{}", &text[begin..dash], ending(text))).collect();
        let more = isize::try_from(front.len()).unwrap_or_default();
        guesses.push(Guess { text: joined(&[&text[..begin], &lines, &text[begin..]]), lines: (first - 1, more) });
    }
}

/// A list where there was none: on a line after the command's, or behind it in braces.
fn new_guesses(text: &str, line: usize, after: usize, front: &[String], guesses: &mut Vec<Guess>) {
    let (begin, end) = row(text, line);
    let key = begin + text[begin..end].find(|c: char| !matches!(c, ' ' | '-')).unwrap_or_default();
    let indent: String = text[begin..key].replace('-', " ");
    let list = front.join(", ");
    let next = (end + 1).min(text.len());
    let lines = format!("{indent}args: [{list}]{}", ending(text));
    guesses.push(Guess { text: joined(&[&text[..next], &lines, &text[next..]]), lines: (line, 1) });
    let member = format!(", \"args\": [{list}]");
    guesses.push(Guess { text: joined(&[&text[..after], &member, &text[after..]]), lines: (0, 0) });
}

/// The first words of a list cut away, in brackets or on lines of their own.
fn cut_guesses(text: &str, line: usize, cut: usize, guesses: &mut Vec<Guess>) {
    let (begin, end) = row(text, line);
    for bracket in after_key(text, begin, end, "args").filter(|at| text[*at..].starts_with('[')) {
        let inside = bracket + 1;
        let closing = text[inside..].find(']').map(|at| inside + at);
        // Words can hold commas, so any of the first few may be the one; and the last word has none behind it.
        let commas = text[inside..].match_indices(',').map(|(at, _)| inside + at + 1).take(cut + 16);
        for stop in commas.chain(closing) {
            let rest = text[stop..].trim_start_matches(' ');
            // Line breaks that are cut away leave fewer lines.
            let gone = text[inside..stop].matches('\n').count();
            let lines = (line, -isize::try_from(gone).unwrap_or_default());
            guesses.push(Guess { text: joined(&[&text[..inside], rest]), lines });
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
        guesses.push(Guess { text: edited, lines: (first - 1, -isize::try_from(cut).unwrap_or_default()) });
    }
}

/// The lines of a list's items after the line of its name.
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

/// Where the values of `key` on this line may begin: behind its colon and blanks.
fn after_key<'a>(text: &'a str, begin: usize, end: usize, key: &'a str) -> impl Iterator<Item = usize> + 'a {
    text[begin..end].match_indices(key).filter_map(move |(at, _)| {
        let rest = &text[begin + at + key.len()..end];
        let value = rest.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?;
        Some(end - value.trim_start().len())
    })
}

/// Where the scalar of `key` on this line may be.
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

/// From where to where a line is, counted from 1, without its end.
fn row(text: &str, line: usize) -> (usize, usize) {
    let begin = match line.saturating_sub(2) {
        0 if line <= 1 => 0,
        breaks => text.match_indices('\n').nth(breaks).map_or(text.len(), |(at, _)| at + 1),
    };
    (begin, text[begin..].find('\n').map_or(text.len(), |length| begin + length))
}

fn ending(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn with_blank_lines(text: &str, after: usize, count: usize) -> Zeroizing<String> {
    let (at, _) = row(text, after + 1);
    joined(&[&text[..at], &"\n".repeat(count), &text[at..]])
}

fn joined(parts: &[&str]) -> Zeroizing<String> {
    Zeroizing::new(parts.concat())
}

/// In the quotes that the old one had, if it had any; a plain word stays plain.
fn in_form(old: &str, new: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_plain = new.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && new.chars().all(plain);
    if is_plain && !old.starts_with(['"', '\'']) { new.to_owned() } else { quoted(new) }
}

/// As JSON writes it, which YAML reads too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn front_words(front: &[String]) -> Vec<Secret> {
    front.iter().filter_map(|word| serde_json::from_str::<Secret>(word).ok()).collect()
}
