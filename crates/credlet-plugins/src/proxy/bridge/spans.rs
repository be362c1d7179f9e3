//! Where in a kubeconfig a cluster or a user stands.

use std::ops::Range;

use granit_parser::{Event, Parser, Span};

use super::BridgeError;

/// Deeper files are no kubeconfigs.
const DEEPEST: usize = 64;

/// A kubeconfig, as far as it matters where things stand.
pub(super) struct Spans {
    root: Node,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Section {
    Clusters,
    Users,
}

impl Section {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Clusters => ("clusters", "cluster"),
            Self::Users => ("users", "user"),
        }
    }
}

/// What can be replaced by something else of the same kind.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    /// Where its lines begin. `None`: it stands in braces.
    pub(super) column: Option<usize>,
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    range: Range<usize>,
    column: usize,
    /// Others refer to it or to something in it, or it to others.
    shared: bool,
}

#[derive(Debug)]
enum Kind {
    Scalar(String),
    List(Vec<Node>),
    Map { members: Vec<(Node, Node)>, braces: bool },
    Alias,
}

impl Spans {
    pub(super) fn of(text: &str) -> Result<Self, BridgeError> {
        let mut events = Parser::new_from_str(text);
        loop {
            match events.next() {
                // The beginning of the document, and comments if somebody has the parser report them.
                Some(Ok((event, _))) if !event.is_node() => {}
                Some(Ok((event, span))) => {
                    return Ok(Self { root: node(text, &mut events, event, &span, 0).ok_or(BridgeError::Form)? });
                }
                Some(Err(_)) | None => return Err(BridgeError::Form),
            }
        }
    }

    /// The value of this name in this section. `None`: it has none. The last of equal names is what counts.
    pub(super) fn find(&self, section: Section, name: &str) -> Result<Option<Found>, BridgeError> {
        let (list, value) = section.words();
        let Some(Node { kind: Kind::List(entries), .. }) = self.root.member(list) else { return Ok(None) };
        let is_meant = |entry: &&Node| matches!(entry.member("name"), Some(Node { kind: Kind::Scalar(found), .. }) if found == name);
        let mut meant = entries.iter().filter(is_meant);
        let (Some(entry), None) = (meant.next(), meant.next()) else {
            let several = entries.iter().filter(is_meant).count() > 1;
            return if several { Err(BridgeError::Form) } else { Ok(None) };
        };
        let value = entry.member(value).ok_or(BridgeError::Form)?;
        match &value.kind {
            Kind::Map { braces, .. } if !value.shared && !entry.shared => {
                let column = (!braces).then_some(value.column);
                Ok(Some(Found { range: value.range.clone(), column }))
            }
            _ => Err(BridgeError::Form),
        }
    }
}

impl Node {
    fn member(&self, name: &str) -> Option<&Self> {
        let Kind::Map { members, .. } = &self.kind else { return None };
        let is_meant = |key: &Self| matches!(&key.kind, Kind::Scalar(found) if found == name);
        members.iter().rfind(|(key, _)| is_meant(key)).map(|(_, value)| value)
    }

    fn new(kind: Kind, text: &str, range: Range<usize>, column: usize, shared: bool) -> Option<Self> {
        // Blanks and line ends behind it belong to whoever comes next.
        let trimmed = text.get(range.clone())?.trim_end().len();
        Some(Self { kind, range: range.start..range.start + trimmed, column, shared })
    }
}

/// The node that begins with this event. `None`: what we cannot read, we do not touch.
fn node<'a>(
    text: &str,
    events: &mut impl Iterator<Item = Result<(Event<'a>, Span), granit_parser::ScanError>>,
    event: Event<'a>,
    span: &Span,
    depth: usize,
) -> Option<Node> {
    if depth > DEEPEST {
        return None;
    }
    let start = span.byte_range()?;
    let column = span.start.col();
    let mut shared = event.anchor_id().is_some() || event.tag().is_some();
    match event {
        Event::Scalar(value, ..) => Node::new(Kind::Scalar(value.into_owned()), text, start, column, shared),
        Event::Alias(_) => Node::new(Kind::Alias, text, start, column, true),
        Event::SequenceStart(..) | Event::MappingStart(..) => {
            let is_map = matches!(event, Event::MappingStart(..));
            // In brackets it ends where they do; on lines of their own, with the last thing in it.
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
            // A map on lines of its own begins with its first name.
            let begin = items
                .first()
                .filter(|_| !braces)
                .map_or((start.start, column), |first| (first.range.start, first.column));
            let kind = if is_map { Kind::Map { members: pairs(items)?, braces } } else { Kind::List(items) };
            Node::new(kind, text, begin.0..end, begin.1, shared)
        }
        _ => None,
    }
}

fn pairs(items: Vec<Node>) -> Option<Vec<(Node, Node)>> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let Some(key) = items.next() {
        pairs.push((key, items.next()?));
    }
    Some(pairs)
}
