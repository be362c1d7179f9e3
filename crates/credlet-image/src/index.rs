//! Index of patterns, with a lookup cost independent of their number.
//!
//! Patterns are indexed by port, by number of labels, and by a tree of host labels from last to first. Labels without `*` take one
//! hash lookup; labels such as `app*` are tried one by one. Paths take one hash lookup per distinct length.

use std::collections::HashMap;

use crate::glob;
use crate::pattern::{ImagePattern, MatchTarget, labels};

/// Index of patterns. Patterns are numbered in the order in which they are added.
#[derive(Clone, Debug, Default)]
pub struct PatternIndex {
    /// By port, then by the number of labels.
    ports: HashMap<Box<[u8]>, Vec<LabelNode>>,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct LabelNode {
    exact: HashMap<Box<[u8]>, LabelNode>,
    any: Option<Box<LabelNode>>,
    globs: Vec<(Box<[u8]>, LabelNode)>,
    paths: PathIndex,
}

/// Patterns with the same host, by path.
#[derive(Clone, Debug, Default)]
struct PathIndex {
    lengths: Vec<usize>,
    by_path: HashMap<Box<[u8]>, Vec<usize>>,
}

impl PatternIndex {
    /// Adds a pattern. Its number is the count of earlier ones.
    pub fn add(&mut self, pattern: &ImagePattern) {
        let (host, port) = pattern.host_and_port();
        let counts = self.ports.entry(port.into()).or_default();
        let count = labels(host).count();
        if counts.len() <= count {
            counts.resize_with(count + 1, LabelNode::default);
        }
        if let Some(root) = counts.get_mut(count) {
            let leaf = labels(host).rev().fold(root, LabelNode::child);
            leaf.paths.add(pattern.path(), self.len);
        }
        self.len += 1;
    }

    /// Skips a number, for an entry that matches nothing.
    pub(crate) fn skip(&mut self) {
        self.len += 1;
    }

    /// Returns the numbers of all matching patterns in ascending order.
    pub fn matching(&self, target: &MatchTarget<'_>) -> Vec<usize> {
        let Some(location) = target.location() else { return Vec::new() };
        let (host, port) = location.host_and_port();
        let mut found = Vec::new();
        let root = self.ports.get(port).and_then(|counts| counts.get(labels(host).count()));
        if let Some(root) = root {
            root.collect(Some(host), &location.path, &mut found);
        }
        found.sort_unstable();
        found
    }
}

impl<'a> FromIterator<&'a ImagePattern> for PatternIndex {
    fn from_iter<I: IntoIterator<Item = &'a ImagePattern>>(patterns: I) -> Self {
        let mut index = Self::default();
        patterns.into_iter().for_each(|pattern| index.add(pattern));
        index
    }
}

impl LabelNode {
    fn child<'n>(&'n mut self, label: &[u8]) -> &'n mut LabelNode {
        if label == b"*" {
            return self.any.get_or_insert_default();
        }
        if !label.iter().any(|byte| matches!(byte, b'*' | b'[')) {
            return self.exact.entry(label.into()).or_default();
        }
        let at = self.globs.iter().position(|(glob, _)| **glob == *label).unwrap_or_else(|| {
            self.globs.push((label.into(), LabelNode::default()));
            self.globs.len() - 1
        });
        &mut self.globs[at].1
    }

    /// `host` is the rest of the host on the left; `None` if all labels were matched.
    fn collect(&self, host: Option<&[u8]>, path: &[u8], found: &mut Vec<usize>) {
        let Some(host) = host else { return self.paths.collect(path, found) };
        let (rest, label) = match host.iter().rposition(|byte| *byte == b'.') {
            Some(dot) => (Some(&host[..dot]), &host[dot + 1..]),
            None => (None, host),
        };
        let globs = self.globs.iter().filter(|(glob, _)| glob::matches(glob, label) == Ok(true)).map(|(_, node)| node);
        for child in self.exact.get(label).into_iter().chain(self.any.as_deref()).chain(globs) {
            child.collect(rest, path, found);
        }
    }
}

impl PathIndex {
    fn add(&mut self, path: &[u8], number: usize) {
        if let Err(at) = self.lengths.binary_search(&path.len()) {
            self.lengths.insert(at, path.len());
        }
        self.by_path.entry(path.into()).or_default().push(number);
    }

    fn collect(&self, path: &[u8], found: &mut Vec<usize>) {
        let prefixes = self.lengths.iter().map_while(|length| path.get(..*length));
        found.extend(prefixes.filter_map(|prefix| self.by_path.get(prefix)).flatten());
    }
}
