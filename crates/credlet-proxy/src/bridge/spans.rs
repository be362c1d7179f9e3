//! Finds the byte ranges of clusters and users in a kubeconfig.

use std::ops::Range;

use granit_parser::{Event, Parser, Span};

use super::BridgeError;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;

/// The parsed YAML with byte ranges.
pub(super) struct KubeconfigSpans {
    root: YamlNode,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Section {
    Clusters,
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

/// Range of the value of an entry.
#[derive(Debug)]
pub(super) struct SectionSpan {
    pub(super) range: Range<usize>,
    /// Indentation of a block mapping. `None` for a flow mapping.
    pub(super) column: Option<usize>,
}

#[derive(Debug)]
struct YamlNode {
    kind: NodeKind,
    range: Range<usize>,
    column: usize,
    /// Has an anchor, an alias or a tag, or contains one.
    shared: bool,
}

#[derive(Debug)]
enum NodeKind {
    Scalar(String),
    List(Vec<YamlNode>),
    Map { members: Vec<(YamlNode, YamlNode)>, braces: bool },
    Alias,
}

impl KubeconfigSpans {
    /// Parses the first document.
    pub(super) fn parse(text: &str) -> Result<Self, BridgeError> {
        let mut events = Parser::new_from_str(text);
        loop {
            match events.next() {
                // Stream start, document start, comments.
                Some(Ok((event, _))) if !event.is_node() => {}
                Some(Ok((event, span))) => {
                    return Ok(Self { root: node(text, &mut events, event, &span, 0).ok_or(BridgeError::Form)? });
                }
                Some(Err(_)) | None => return Err(BridgeError::Form),
            }
        }
    }

    /// Returns the range of the entry's value, or `None` if there is no such entry. Of entries with the same name the last one counts.
    pub(super) fn find(&self, section: Section, name: &str) -> Result<Option<SectionSpan>, BridgeError> {
        let (list, value) = section.keys();
        let Some(YamlNode { kind: NodeKind::List(entries), .. }) = self.root.member(list) else { return Ok(None) };
        let is_meant = |entry: &&YamlNode| matches!(entry.member("name"), Some(YamlNode { kind: NodeKind::Scalar(found), .. }) if found == name);
        let mut meant = entries.iter().filter(is_meant);
        let (Some(entry), None) = (meant.next(), meant.next()) else {
            let several = entries.iter().filter(is_meant).count() > 1;
            return if several { Err(BridgeError::Form) } else { Ok(None) };
        };
        let value = entry.member(value).ok_or(BridgeError::Form)?;
        match &value.kind {
            NodeKind::Map { braces, .. } if !value.shared && !entry.shared => {
                let column = (!braces).then_some(value.column);
                Ok(Some(SectionSpan { range: value.range.clone(), column }))
            }
            _ => Err(BridgeError::Form),
        }
    }
}

impl YamlNode {
    fn member(&self, name: &str) -> Option<&Self> {
        let NodeKind::Map { members, .. } = &self.kind else { return None };
        let is_meant = |key: &Self| matches!(&key.kind, NodeKind::Scalar(found) if found == name);
        members.iter().rfind(|(key, _)| is_meant(key)).map(|(_, value)| value)
    }

    fn new(kind: NodeKind, text: &str, range: Range<usize>, column: usize, shared: bool) -> Option<Self> {
        // Trailing white space belongs to the following node.
        let trimmed = text.get(range.clone())?.trim_end().len();
        Some(Self { kind, range: range.start..range.start + trimmed, column, shared })
    }
}

/// Parses the node that begins with this event. Returns `None` if the YAML is invalid or too deep.
fn node<'a>(
    text: &str,
    events: &mut impl Iterator<Item = Result<(Event<'a>, Span), granit_parser::ScanError>>,
    event: Event<'a>,
    span: &Span,
    depth: usize,
) -> Option<YamlNode> {
    if depth > MAX_DEPTH {
        return None;
    }
    let start = span.byte_range()?;
    let column = span.start.col();
    let mut shared = event.anchor_id().is_some() || event.tag().is_some();
    match event {
        Event::Scalar(value, ..) => YamlNode::new(NodeKind::Scalar(value.into_owned()), text, start, column, shared),
        Event::Alias(_) => YamlNode::new(NodeKind::Alias, text, start, column, true),
        Event::SequenceStart(..) | Event::MappingStart(..) => {
            let is_map = matches!(event, Event::MappingStart(..));
            // A flow collection ends with its bracket, a block collection with its last item.
            let open = if is_map { '{' } else { '[' };
            let braces = text.get(start.start..)?.starts_with(open);
            let (mut items, mut end) = (Vec::new(), start.end);
            loop {
                let (event, span) = events.next()?.ok()?;
                match event {
                    Event::SequenceEnd | Event::MappingEnd => {
                        if braces {
                            end = span.byte_range()?.end;
                        }
                        break;
                    }
                    event if !event.is_node() => {}
                    event => {
                        let item = node(text, events, event, &span, depth + 1)?;
                        shared |= item.shared;
                        end = end.max(item.range.end);
                        items.push(item);
                    }
                }
            }
            // A block mapping begins with its first key.
            let begin = items
                .first()
                .filter(|_| !braces)
                .map_or((start.start, column), |first| (first.range.start, first.column));
            let kind = if is_map { NodeKind::Map { members: pairs(items)?, braces } } else { NodeKind::List(items) };
            YamlNode::new(kind, text, begin.0..end, begin.1, shared)
        }
        _ => None,
    }
}

fn pairs(items: Vec<YamlNode>) -> Option<Vec<(YamlNode, YamlNode)>> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let Some(key) = items.next() {
        pairs.push((key, items.next()?));
    }
    Some(pairs)
}
