//! Replaces and restores whole clusters and users.

use std::ops::Range;

use serde_json::Value;
use zeroize::Zeroizing;

use super::document::{Document, NodeKind};
use super::text_edit::{line_break, splice};

/// A list of a kubeconfig with named entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `clusters`, with the value `cluster`.
    Clusters,
    /// `users`, with the value `user`.
    Users,
}

impl Section {
    /// Returns the names of the list and of the value in its entries.
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Clusters => ("clusters", "cluster"),
            Self::Users => ("users", "user"),
        }
    }
}

/// An entry that cannot be replaced or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SectionError {
    /// The entry shares parts with other entries (anchor, alias), has a tag, has the name of another entry, or is not a mapping.
    #[error("unsupported form of the entry")]
    Unsupported,
    /// The entry does not exist in the text that it is restored from.
    #[error("missing entry")]
    Missing,
}

/// Range of the value of an entry.
struct SectionSpan {
    range: Range<usize>,
    /// Indentation of a block mapping. `None` for a flow mapping.
    column: Option<usize>,
}

/// Returns the text with the value of the entry replaced by `fields`, in the old value's style: block or flow mapping. Nothing
/// else changes. The result is not verified.
///
/// # Errors
/// Returns [`SectionError::Unsupported`] if there is no such entry or it cannot be replaced safely.
pub fn replace_section(
    text: &str,
    section: Section,
    name: &str,
    fields: &[(&str, Value)],
) -> Result<Zeroizing<String>, SectionError> {
    let span = find(&parse(text)?, section, name)?.ok_or(SectionError::Unsupported)?;
    let written = match span.column {
        Some(column) => block(fields, column, line_break(text)),
        None => flow(fields),
    };
    Ok(splice(text, span.range, &written))
}

/// Returns the text with the value of the entry replaced by that in `original`, byte for byte except for the indentation.
/// Returns the text unchanged if it has no such entry. The result is not verified.
///
/// # Errors
/// Returns an error if `original` lacks the entry, or one of the two cannot be edited safely.
pub fn restore_section(
    text: &str,
    original: &str,
    section: Section,
    name: &str,
) -> Result<Zeroizing<String>, SectionError> {
    let source = parse(original)?;
    let Some(span) = find(&parse(text)?, section, name)? else { return Ok(Zeroizing::new(text.to_owned())) };
    let old = find(&source, section, name)?.ok_or(SectionError::Missing)?;
    match (old.column, span.column) {
        (Some(from), Some(to)) => Ok(splice(text, span.range, &reindent(&original[old.range], from, to))),
        // A block mapping cannot be inside a flow mapping.
        (Some(_), None) => Err(SectionError::Unsupported),
        (None, _) => Ok(splice(text, span.range, &original[old.range])),
    }
}

fn parse(text: &str) -> Result<Document<'_>, SectionError> {
    Document::parse(text).ok_or(SectionError::Unsupported)
}

/// Returns the range of the entry's value, or `None` if there is no such entry. Aliases are not followed.
fn find(document: &Document<'_>, section: Section, name: &str) -> Result<Option<SectionSpan>, SectionError> {
    let (list, value) = section.keys();
    let entries = document.own_member(document.root(), list).map(|(_, entries)| &entries.kind);
    let Some(NodeKind::List { items, .. }) = entries else { return Ok(None) };
    let mut meant = items
        .iter()
        .map(|item| document.node(*item))
        .filter(|entry| matches!(document.own_member(entry, "name"), Some((_, found)) if found.is_scalar(name)));
    let Some(entry) = meant.next() else { return Ok(None) };
    let (_, value) = document.own_member(entry, value).ok_or(SectionError::Unsupported)?;
    match &value.kind {
        NodeKind::Map { flow, .. } if !entry.shared && meant.next().is_none() => {
            Ok(Some(SectionSpan { range: value.range.clone(), column: (!flow).then_some(value.column) }))
        }
        _ => Err(SectionError::Unsupported),
    }
}

/// Renders a block mapping with this indentation; the first line has none. The fields of `exec` are on separate lines, other values are
/// JSON on one line, which is valid YAML.
fn block(fields: &[(&str, Value)], column: usize, ending: &str) -> Zeroizing<String> {
    let mut lines = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Object(plugin) if *name == "exec" => {
                lines.push(format!("{name}:"));
                lines.extend(plugin.iter().map(|(name, value)| format!("  {name}: {value}")));
            }
            value => lines.push(format!("{name}: {value}")),
        }
    }
    Zeroizing::new(lines.join(&format!("{ending}{}", " ".repeat(column))))
}

/// Renders a flow mapping on one line.
fn flow(fields: &[(&str, Value)]) -> Zeroizing<String> {
    let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{}: {value}", Value::from(*name))).collect();
    Zeroizing::new(format!("{{{}}}", fields.join(", ")))
}

/// Changes the indentation of a section from one column to another: kubectl reformats the whole file when it changes it. The first line
/// has no indentation.
fn reindent(section: &str, from: usize, to: usize) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(section.len()));
    for (at, line) in section.split_inclusive('\n').enumerate() {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        let is_empty = line.trim_end().is_empty();
        if at > 0 && !is_empty {
            text.extend(std::iter::repeat_n(' ', to));
        }
        text.push_str(if at > 0 { &line[blanks.min(from)..] } else { line });
    }
    text
}
