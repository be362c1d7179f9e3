//! Replacement of byte ranges, verification of the result, and formatting of scalars.

use std::ops::Range;

use credlet_api::kubeconfig::KubeconfigFile;
use granit_parser::ScalarStyle;
use zeroize::Zeroizing;

use super::document::{Document, Node, NodeKind};

/// Words that a version of YAML reads as a boolean or null.
const RESERVED_WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// Replacement of a byte range. An insertion has an empty range.
pub(super) struct TextEdit {
    pub(super) range: Range<usize>,
    pub(super) text: Zeroizing<String>,
}

impl TextEdit {
    pub(super) fn insert(at: usize, text: String) -> Self {
        Self { range: at..at, text: Zeroizing::new(text) }
    }

    pub(super) fn remove(range: Range<usize>) -> Self {
        Self { range, text: Zeroizing::default() }
    }

    /// Replaces a plain or quoted scalar on one line by `value`, in the same style if that can represent it. Returns `None`
    /// for other nodes, and for scalars with an anchor or a tag.
    pub(super) fn set_scalar(document: &Document<'_>, node: &Node, value: &str) -> Option<Self> {
        let NodeKind::Scalar { style, .. } = &node.kind else { return None };
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        if node.shared || is_block || document.source(node)?.contains(['\n', '\r']) {
            return None;
        }
        Some(Self { range: node.range.clone(), text: format_scalar(*style, value) })
    }
}

/// Applies edits that do not overlap. Returns `None` unless the decoded result equals the decoded text after `change`, which
/// also receives the result.
pub(super) fn apply_verified(
    text: &str,
    mut edits: Vec<TextEdit>,
    change: impl FnOnce(&mut KubeconfigFile, &KubeconfigFile) -> Option<()>,
) -> Option<Zeroizing<String>> {
    edits.sort_by_key(|edit| edit.range.start);
    let line_breaks = |text: &str| text.matches('\n').count();
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut new = Zeroizing::new(String::with_capacity(text.len() + added));
    let (mut copied, mut line_change) = (0, None);
    for edit in &edits {
        new.push_str(text.get(copied..edit.range.start)?);
        let removed = text.get(edit.range.clone())?;
        if line_breaks(removed) != line_breaks(&edit.text) {
            line_change = line_change.or(Some((edit.range.start, new.len())));
        }
        new.push_str(&edit.text);
        copied = edit.range.end;
    }
    new.push_str(text.get(copied..)?);

    // Decoded values contain line numbers, so blank lines are inserted where only the other text has lines.
    let (in_old, in_new) = line_change.unwrap_or_default();
    let (before, after) = (line_breaks(text), line_breaks(&new));
    let mut expected = decode_padded(text, in_old, after.saturating_sub(before))?;
    let found = decode_padded(&new, in_new, before.saturating_sub(after))?;
    change(&mut expected, &found)?;
    (found == expected).then_some(new)
}

/// Decodes the text with blank lines at the first beginning of a line at or behind `at`.
fn decode_padded(text: &str, at: usize, lines: usize) -> Option<KubeconfigFile> {
    let at = if at == 0 || text[..at].ends_with('\n') { at } else { next_line(text, at) };
    let padded = Zeroizing::new([&text[..at], &"\n".repeat(lines), &text[at..]].concat());
    KubeconfigFile::decode(padded.as_bytes()).ok()
}

/// Replaces one range without verification.
pub(super) fn splice(text: &str, range: Range<usize>, with: &str) -> Zeroizing<String> {
    Zeroizing::new([&text[..range.start], with, &text[range.end..]].concat())
}

/// Returns the beginning of the line that contains `at`.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |found| found + 1)
}

/// Returns the beginning of the line after the one that contains `at`, or the end of the text.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |found| at + found + 1)
}

/// Returns the line break that the text uses.
pub(super) fn line_break(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Formats a scalar in this style, or double-quoted if the style cannot represent it.
fn format_scalar(style: ScalarStyle, value: &str) -> Zeroizing<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/+=~".contains(c);
    match style {
        ScalarStyle::SingleQuoted if !value.contains(char::is_control) => {
            Zeroizing::new(format!("'{}'", *Zeroizing::new(value.replace('\'', "''"))))
        }
        // Plain only if no version of YAML reads it as a number, timestamp, boolean or null.
        ScalarStyle::Plain
            if value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
                && value.chars().all(is_plain)
                && !RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(value)) =>
        {
            Zeroizing::new(value.to_owned())
        }
        _ => double_quoted(value),
    }
}

/// Quotes a scalar so that both JSON and YAML accept it.
pub(super) fn double_quoted(value: &str) -> Zeroizing<String> {
    let mut quoted = Zeroizing::new(String::with_capacity(value.len() * 6 + 2));
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
