//! Extent of the value that belongs to a secret name.

use std::ops::Range;

use super::name::SecretName;
use super::{REDACTED, count, floor, shape};

/// Maximum length of a quoted text that may be a sentence.
const SENTENCE: usize = 256;

/// Schemes of an `Authorization` header.
const SCHEMES: [&str; 9] =
    ["bearer", "basic", "negotiate", "digest", "token", "ntlm", "apikey", "aws4-hmac-sha256", "sharedkey"];

/// Separator between a name and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    /// `name=value`, `name := value`, `name:value`.
    Tight,
    /// `name: value`, as in YAML and headers.
    Colon,
    /// `--name value`, as on a command line.
    Flag,
    /// `<name>value`, as in XML.
    Element,
    /// `PIN 1234`, as in a sentence.
    Space,
}

/// Returns the ranges of `text` to redact for the name at `start..end`.
pub(super) fn of(kind: SecretName, text: &str, start: usize, end: usize) -> Option<Vec<Range<usize>>> {
    let before = &text[..start];
    let (quoted, after_name) = closing_quote(&text[end..]);
    let name_end = text.len() - after_name.len();
    let (separator, value) = split_separator(kind, text, start, name_end, quoted)?;
    let at = text.len() - value.len();
    match kind {
        SecretName::Authorization => return authorization(text, at),
        SecretName::Cookie if separator != Separator::Flag => {
            let length = value.find(['\n', '\r', '"']).unwrap_or(value.len());
            return one(at..at + value[..length].trim_end().len());
        }
        _ => {}
    }
    if separator == Separator::Element {
        let length = value.find('<').unwrap_or(value.len());
        return one(at..at + length);
    }
    if let Some(block) = block_scalar(text, start, at).filter(|_| separator != Separator::Flag) {
        return one(block);
    }
    if let Some(list) = value.strip_prefix('[').filter(|_| quoted || separator == Separator::Tight) {
        let all = list_items(text, text.len() - list.len());
        if !all.is_empty() {
            return Some(all);
        }
    }
    let is_member = quoted || begins_member(before);
    let digits = kind == SecretName::Digits;
    if let Some(range) = quoted_value(text, at) {
        let inner = &text[range.clone()];
        if inner.is_empty() || (inner.starts_with(REDACTED) && inner.len() <= SENTENCE) {
            return None;
        }
        let sentence = inner.len() <= SENTENCE && inner.contains(' ') && !shape::is_value(inner, digits);
        let prose = !is_member && separator == Separator::Colon && (sentence || shape::is_ordinary(inner));
        return if prose { None } else { one(range) };
    }
    // A source position: `token:12:5`.
    if separator == Separator::Tight && text[name_end..at].ends_with(':') && !digits && is_line_number(value) {
        return None;
    }
    let length = bare_length(value);
    let word = &value[..length];
    let hide = match separator {
        // `bare_length` takes the closing bracket for punctuation.
        _ if word.is_empty() || value.starts_with('{') || format!("{word}]") == REDACTED => false,
        Separator::Tight => !shape::is_ordinary(word),
        Separator::Flag => !shape::is_ordinary(word) && !word.starts_with('-'),
        Separator::Colon if is_member && !quoted && is_last_of_line(&value[length..]) => {
            !shape::is_ordinary(word) && !word.ends_with(':') && !word.starts_with(['/', '~', '$'])
        }
        // Words of a sentence are short.
        Separator::Colon => word.len() > SENTENCE || shape::is_value(word, digits),
        Separator::Space => word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_digit()),
        Separator::Element => true,
    };
    if hide { one(at..at + length) } else { None }
}

/// Returns how many bytes to keep and then to redact behind the name of an authentication scheme.
pub(super) fn of_scheme(word: &str, after: &str) -> Option<(usize, usize)> {
    let (bearer, basic) = (word.eq_ignore_ascii_case("bearer"), word.eq_ignore_ascii_case("basic"));
    let value = after.trim_start_matches(' ');
    let skipped = after.len() - value.len();
    if !(bearer || basic) || skipped == 0 || value.starts_with(REDACTED) {
        return None;
    }
    let token = value.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=%:".contains(byte)).count();
    let token = value[..token].trim_end_matches([':', '.']);
    // `Bearer realm="x"` is a challenge.
    let challenge =
        token.trim_end_matches('=').contains('=') || (value[token.len()..].starts_with('"') && token.ends_with('='));
    let is_credential =
        if bearer { !shape::is_ordinary(token) } else { token.len() >= 8 && shape::is_value(token, false) };
    (is_credential && !challenge && !token.is_empty()).then_some((skipped, token.len()))
}

fn one(range: Range<usize>) -> Option<Vec<Range<usize>>> {
    (!range.is_empty()).then(|| vec![range])
}

/// Strips the quote, escaped or not, that ends a name.
fn closing_quote(after: &str) -> (bool, &str) {
    let quote = after.trim_start_matches('\\');
    match quote.strip_prefix(['"', '\'', '`']).or_else(|| quote.strip_prefix("%22")) {
        Some(rest) => (true, rest.strip_prefix(']').unwrap_or(rest)),
        None => (false, after),
    }
}

/// Returns the separator and the text from the value on.
fn split_separator(
    kind: SecretName,
    text: &str,
    start: usize,
    name_end: usize,
    quoted: bool,
) -> Option<(Separator, &str)> {
    let after = &text[name_end..];
    count(after.len() - after.trim_start().len());
    let blank = |c: char| c == ' ' || c == '\t' || (quoted && matches!(c, '\n' | '\r'));
    let rest = after.trim_start_matches(blank);
    let escaped = ["%3D", "%3d", "%3A", "%3a"].iter().find_map(|escape| rest.strip_prefix(escape));
    if let Some(value) = escaped {
        let quote = value.strip_prefix("%22").unwrap_or(value);
        return Some((Separator::Tight, quote));
    }
    if let Some(value) = rest.strip_prefix('=') {
        let value = value.trim_start_matches(['=', '>']);
        return Some((Separator::Tight, value.trim_start_matches([' ', '\t'])));
    }
    if let Some(value) = rest.strip_prefix(':') {
        // A module path, or a URL.
        if value.starts_with(':') || value.starts_with("//") {
            return None;
        }
        if let Some(value) = value.strip_prefix('=') {
            return Some((Separator::Tight, value.trim_start_matches([' ', '\t'])));
        }
        let trimmed = value.trim_start_matches(blank);
        let separator = if trimmed.len() == value.len() && !quoted { Separator::Tight } else { Separator::Colon };
        return Some((separator, trimmed));
    }
    let before = &text[..start];
    if rest.starts_with('>') && before.ends_with('<') {
        return Some((Separator::Element, &rest[1..]));
    }
    if rest.len() == after.len() || quoted {
        return None;
    }
    if text[start..].starts_with('-')
        && (start == 0 || before.ends_with(|c: char| c.is_whitespace() || "\"'`([".contains(c)))
    {
        return Some((Separator::Flag, rest));
    }
    (kind == SecretName::Digits).then_some((Separator::Space, rest))
}

/// Whether a name at this position is a member of a structure: at the start of a line, behind a brace or a
/// comma.
fn begins_member(before: &str) -> bool {
    let before = before.trim_end_matches(['"', '\'', '`', '\\']).trim_end_matches([' ', '\t']);
    let item = before.strip_suffix('-').map(|item| item.trim_end_matches([' ', '\t']));
    let is_start = |text: &str| text.is_empty() || text.ends_with('\n');
    is_start(before) || item.is_some_and(is_start) || before.ends_with(['{', '[', '(', ',', ';', '&', '?', '|'])
}

/// Returns the range inside the quotes of a value. In a quoted document the quotes are escaped, once per level.
fn quoted_value(text: &str, at: usize) -> Option<Range<usize>> {
    let value = &text[at..];
    let level = value.bytes().take_while(|byte| *byte == b'\\').count();
    let quote = *value.as_bytes().get(level).filter(|byte| b"\"'`".contains(byte))?;
    let start = at + level + 1;
    let mut slashes = 0;
    for (offset, byte) in text.as_bytes()[start..].iter().enumerate() {
        count(1);
        match *byte {
            b'\\' => slashes += 1,
            byte if byte == quote && (quote != b'"' || slashes < level || slashes % (2 * (level + 1)) == level) => {
                let end = start + offset - slashes.min(level);
                return Some(start..joined(text, start + offset + 1).unwrap_or(end));
            }
            // An apostrophe, not a quote.
            b'\n' if quote != b'"' => return None,
            _ => slashes = 0,
        }
    }
    // The text was truncated.
    (quote == b'"').then_some(start..text.len())
}

/// Returns the end of the text that a shell would append to the quoted text before `end`: `"abc"def`.
fn joined(text: &str, end: usize) -> Option<usize> {
    let rest = &text[end..];
    let goes_on =
        rest.starts_with(|c: char| c.is_alphanumeric() || "$'\"_-+/".contains(c)) && !rest.starts_with("\"\"");
    goes_on.then(|| end + rest.find(|c: char| c.is_whitespace() || ",;&)}]".contains(c)).unwrap_or(rest.len()))
}

/// Returns the ranges of the items of a list of quoted texts.
fn list_items(text: &str, mut at: usize) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let Some(item) = quoted_value(text, at) else { return items };
        let after = text[item.end..].trim_start_matches(['\\', '"', '\'', '`']).trim_start();
        if !item.is_empty() && !text[item.clone()].starts_with(REDACTED) {
            items.push(item);
        }
        let Some(next) = after.strip_prefix(',') else { return items };
        at = text.len() - next.len();
    }
}

/// The length of an unquoted value. It ends at white space, at a quote, and before the next member.
fn bare_length(value: &str) -> usize {
    let mut end = value.len();
    let mut chars = value.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = c.is_whitespace()
            || (matches!(c, '"' | '\'' | '`') && !next.is_some_and(char::is_alphanumeric))
            || (c == '\\' && matches!(next, Some('"' | '\'' | 'n' | 'r' | 't')))
            || (c == '\u{1b}')
            || (matches!(c, ',' | ';' | '&') && begins_next(&value[at + 1..]));
        if ends {
            end = at;
            break;
        }
    }
    count(end);
    value[..end].trim_end_matches([',', ';', '.', ')', ']', '}', '>']).len()
}

/// Whether another member, or nothing, follows a separator.
fn begins_next(after: &str) -> bool {
    let window = &after[..floor(after, 64)];
    let name = window.trim_start_matches(['"', '\'', '\\', ' ']);
    let length = name.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte)).count();
    window.is_empty()
        || window.starts_with(char::is_whitespace)
        || (length > 0 && name[length..].trim_start_matches(['"', '\'', '\\']).starts_with(['=', ':']))
}

fn is_line_number(value: &str) -> bool {
    let digits = value.bytes().take(8).take_while(u8::is_ascii_digit).count();
    let after = value[digits..].chars().next();
    (1..8).contains(&digits) && after.is_none_or(|c| c == ':' || c == ')' || c.is_whitespace())
}

/// Whether only punctuation follows on this line.
fn is_last_of_line(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '\r', ',', ';', '.', ')', ']', '}', '>', '"', '\'']);
    rest.is_empty() || rest.starts_with('\n') || rest.starts_with('#')
}

/// The range of the credential in `Authorization: SCHEME credential`.
fn authorization(text: &str, at: usize) -> Option<Vec<Range<usize>>> {
    let value = text[at..].trim_start_matches(['"', '\'', '`', '\\', '[', ' ']);
    let start = text.len() - value.len();
    let scheme = value.bytes().take(32).take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'-').count();
    let name = value[..scheme].to_ascii_lowercase();
    let after = &value[scheme..];
    let credential = after.trim_start_matches([' ', '+']);
    if SCHEMES.contains(&name.as_str()) && credential.len() < after.len() {
        let length = match name.as_str() {
            "bearer" | "basic" | "negotiate" | "token" => bare_length(credential),
            // Parameters, up to the end of the line.
            _ => credential.find(['"', '\'', '`', '\\', '\n', '\r']).unwrap_or(credential.len()),
        };
        let hide = !shape::is_ordinary(&credential[..length]) && !credential.starts_with(REDACTED);
        let start = text.len() - credential.len();
        return if hide { one(start..start + length) } else { None };
    }
    let length = bare_length(value);
    let hide = (length > SENTENCE || shape::is_value(&value[..length], false)) && !value.starts_with(REDACTED);
    if hide { one(start..start + length) } else { None }
}

/// The range of the indented lines below `name: |`.
fn block_scalar(text: &str, start: usize, at: usize) -> Option<Range<usize>> {
    let value = &text[at..];
    let header =
        value.strip_prefix(['|', '>'])?.trim_start_matches(['-', '+', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    let body = header.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let own = indent(&text[line..start]).min(start - line);
    let mut length = 0;
    for line in body.split_inclusive('\n') {
        if !line.trim().is_empty() && indent(line) <= own {
            break;
        }
        length += line.len();
    }
    count(length);
    let body_start = text.len() - body.len();
    let skipped = body.len() - body.trim_start().len();
    let range = body_start + skipped.min(length)..body_start + body[..length].trim_end().len();
    (range.start < range.end).then_some(range)
}
