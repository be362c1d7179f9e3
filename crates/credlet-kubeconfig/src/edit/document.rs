//! Byte ranges of the nodes of a YAML or JSON document.

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use zeroize::Zeroizing;

/// Maximum nesting depth, that of `serde_json`.
const MAX_DEPTH: usize = 128;

/// Maximum number of merge keys (`<<`) that one look-up follows.
const MAX_MERGES: usize = 16;

/// The first document of a text. Nodes refer to each other by their index in `nodes`.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    nodes: Vec<Node>,
    root: NodeId,
}

pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) range: Range<usize>,
    /// Column of the first character, counted from 0.
    pub(super) column: usize,
    /// Has an anchor, an alias or a tag, or contains one.
    pub(super) shared: bool,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Scalar {
        value: Zeroizing<String>,
        style: ScalarStyle,
    },
    List {
        items: Vec<NodeId>,
        /// Whether it is in brackets.
        flow: bool,
    },
    Map {
        members: Vec<(NodeId, NodeId)>,
        /// Whether it is in braces.
        flow: bool,
    },
    /// Refers to the node with the anchor.
    Alias(Option<NodeId>),
}

impl<'a> Document<'a> {
    /// Parses the first document. Returns `None` if the YAML is invalid or too deep.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut parsing =
            Parsing { text, events: Parser::new_from_str(text), nodes: Vec::new(), anchors: HashMap::new() };
        loop {
            let (event, span) = parsing.events.next()?.ok()?;
            // Other events are the start of the stream and of the document, and comments.
            if event.is_node() {
                let root = parsing.node(event, &span, 0)?;
                return Some(Self { text, nodes: parsing.nodes, root });
            }
        }
    }

    pub(super) fn root(&self) -> &Node {
        &self.nodes[self.root]
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Returns key and value of the last member with this name, without following aliases.
    pub(super) fn own_member(&self, map: &Node, name: &str) -> Option<(&Node, &Node)> {
        let NodeKind::Map { members, .. } = &map.kind else { return None };
        members.iter().map(|(key, value)| (self.node(*key), self.node(*value))).rfind(|(key, _)| key.is_scalar(name))
    }

    /// Returns key and value of the last member with this name. Follows aliases and merge keys (`<<`).
    pub(super) fn member<'s>(&'s self, map: &'s Node, name: &str) -> Option<(&'s Node, &'s Node)> {
        self.merged_member(map, name, &mut { MAX_MERGES })
    }

    /// `merges` is the number of merge keys that may still be followed.
    fn merged_member<'s>(&'s self, map: &'s Node, name: &str, merges: &mut usize) -> Option<(&'s Node, &'s Node)> {
        let map = self.resolve(map);
        self.own_member(map, name).or_else(|| {
            let (_, merged) = self.own_member(map, "<<")?;
            *merges = merges.checked_sub(1)?;
            match &self.resolve(merged).kind {
                NodeKind::List { items, .. } => {
                    items.iter().find_map(|item| self.merged_member(self.node(*item), name, merges))
                }
                _ => self.merged_member(merged, name, merges),
            }
        })
    }

    /// Returns the node that an alias refers to, and other nodes as they are.
    pub(super) fn resolve<'s>(&'s self, node: &'s Node) -> &'s Node {
        match node.kind {
            NodeKind::Alias(Some(target)) => self.node(target),
            _ => node,
        }
    }

    /// Returns the value of the first user with this name. Follows aliases.
    pub(super) fn user(&self, name: &str) -> Option<&Node> {
        let NodeKind::List { items, .. } = &self.resolve(self.member(self.root(), "users")?.1).kind else {
            return None;
        };
        // An entry without a name has an empty one.
        let is_meant = |entry: &&Node| {
            self.member(entry, "name").map_or(name.is_empty(), |(_, found)| self.resolve(found).is_scalar(name))
        };
        let entry = items.iter().map(|item| self.node(*item)).find(is_meant)?;
        Some(self.member(entry, "user")?.1)
    }

    /// Returns the text of a node; `None` for an omitted scalar (`key:`), whose range is that of a neighbouring token.
    pub(super) fn source(&self, node: &Node) -> Option<&'a str> {
        let source = self.text.get(node.range.clone())?;
        match &node.kind {
            NodeKind::Scalar { value, style: ScalarStyle::Plain } if **value == "~" && source != "~" => None,
            _ => Some(source),
        }
    }
}

impl Node {
    pub(super) fn is_scalar(&self, text: &str) -> bool {
        matches!(&self.kind, NodeKind::Scalar { value, .. } if **value == text)
    }
}

struct Parsing<'a, E> {
    text: &'a str,
    events: E,
    nodes: Vec<Node>,
    anchors: HashMap<usize, NodeId>,
}

impl<'a, E: Iterator<Item = Result<(Event<'a>, Span), ScanError>>> Parsing<'a, E> {
    /// Adds the node that begins with this event.
    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Option<NodeId> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (start, column) = (span.byte_range()?, span.start.col());
        let anchor = event.anchor_id();
        let shared = anchor.is_some() || event.tag().is_some();
        let id = match event {
            Event::Scalar(value, style, ..) => {
                let value = Zeroizing::new(value.into_owned());
                self.add(NodeKind::Scalar { value, style }, start, column, shared)?
            }
            Event::Alias(anchor) => {
                let target = self.anchors.get(&anchor).copied();
                self.add(NodeKind::Alias(target), start, column, true)?
            }
            Event::SequenceStart(..) => self.collection(false, start, column, shared, depth)?,
            Event::MappingStart(..) => self.collection(true, start, column, shared, depth)?,
            _ => return None,
        };
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        Some(id)
    }

    fn collection(
        &mut self,
        is_map: bool,
        start: Range<usize>,
        column: usize,
        mut shared: bool,
        depth: usize,
    ) -> Option<NodeId> {
        // A flow collection ends with its bracket, a block collection with its last item.
        let flow = self.text.get(start.start..)?.starts_with(if is_map { '{' } else { '[' });
        let (mut items, mut end) = (Vec::new(), start.end);
        loop {
            let (event, span) = self.events.next()?.ok()?;
            match event {
                Event::SequenceEnd | Event::MappingEnd => {
                    if flow {
                        end = span.byte_range()?.end;
                    }
                    break;
                }
                event if !event.is_node() => {}
                event => {
                    let id = self.node(event, &span, depth + 1)?;
                    let item = &self.nodes[id];
                    shared |= item.shared;
                    end = end.max(item.range.end);
                    items.push(id);
                }
            }
        }
        // A block mapping begins with its first key.
        let first = items.first().filter(|_| !flow).map(|first| &self.nodes[*first]);
        let (begin, column) = first.map_or((start.start, column), |first| (first.range.start, first.column));
        let kind = if is_map {
            let (pairs, []) = items.as_chunks::<2>() else { return None };
            NodeKind::Map { members: pairs.iter().map(|[key, value]| (*key, *value)).collect(), flow }
        } else {
            NodeKind::List { items, flow }
        };
        self.add(kind, begin..end, column, shared)
    }

    fn add(&mut self, kind: NodeKind, range: Range<usize>, column: usize, shared: bool) -> Option<NodeId> {
        // Trailing white space belongs to the following node.
        let trimmed = self.text.get(range.clone())?.trim_end().len();
        self.nodes.push(Node { kind, range: range.start..range.start + trimmed, column, shared });
        Some(self.nodes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn nested_merge_keys_are_bounded() {
        let mut text = String::from("a0: &a0 {x: y}\n");
        for level in 1..=16 {
            let merged = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(text, "a{level}: &a{level} {{<<: [{merged}]}}").unwrap();
        }
        let document = Document::parse(&text).unwrap();
        let (_, last) = document.member(document.root(), "a16").unwrap();
        assert!(document.member(last, "missing").is_none());
        let (_, first) = document.member(document.root(), "a1").unwrap();
        assert!(document.member(first, "x").is_some());
    }
}
