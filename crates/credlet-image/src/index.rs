//! Many patterns against one image, at a cost that does not grow with their number.
//!
//! Patterns are kept by port, by the number of labels, and then in a tree of labels from the last to the first, in which
//! labels without a star are found by one look. What is left to try one by one are labels such as `app*`, and for paths
//! as many looks as there are different lengths.

use std::collections::HashMap;

use crate::glob;
use crate::pattern::{Pattern, Target, labels};

/// Patterns by number, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct PatternIndex {
    /// By port, then by the number of labels.
    ports: HashMap<Box<[u8]>, Vec<Node>>,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Node {
    exact: HashMap<Box<[u8]>, Node>,
    any: Option<Box<Node>>,
    globs: Vec<(Box<[u8]>, Node)>,
    paths: Paths,
}

/// The patterns that have one host in common.
#[derive(Clone, Debug, Default)]
struct Paths {
    lengths: Vec<usize>,
    by_path: HashMap<Box<[u8]>, Vec<usize>>,
}

impl PatternIndex {
    /// Adds a pattern; its number is how many there were before.
    pub fn add(&mut self, pattern: &Pattern) {
        let (host, port) = pattern.host_and_port();
        let counts = self.ports.entry(port.into()).or_default();
        let count = labels(host).count();
        if counts.len() <= count {
            counts.resize_with(count + 1, Node::default);
        }
        if let Some(root) = counts.get_mut(count) {
            let leaf = labels(host).rev().fold(root, Node::child);
            leaf.paths.add(pattern.path(), self.len);
        }
        self.len += 1;
    }

    /// Uses up a number for something that matches nothing.
    pub(crate) fn skip(&mut self) {
        self.len += 1;
    }

    /// The numbers of all patterns that match, ascending.
    pub fn matching(&self, target: &Target<'_>) -> Vec<usize> {
        let Some(place) = target.place() else { return Vec::new() };
        let (host, port) = place.host_and_port();
        let mut found = Vec::new();
        let root = self.ports.get(port).and_then(|counts| counts.get(labels(host).count()));
        if let Some(root) = root {
            root.collect(Some(host), &place.path, &mut found);
        }
        found.sort_unstable();
        found
    }
}

impl<'a> FromIterator<&'a Pattern> for PatternIndex {
    fn from_iter<I: IntoIterator<Item = &'a Pattern>>(patterns: I) -> Self {
        let mut index = Self::default();
        patterns.into_iter().for_each(|pattern| index.add(pattern));
        index
    }
}

impl Node {
    fn child<'n>(&'n mut self, label: &[u8]) -> &'n mut Node {
        if label == b"*" {
            return self.any.get_or_insert_default();
        }
        if !label.iter().any(|byte| matches!(byte, b'*' | b'[')) {
            return self.exact.entry(label.into()).or_default();
        }
        let at = self.globs.iter().position(|(glob, _)| **glob == *label).unwrap_or_else(|| {
            self.globs.push((label.into(), Node::default()));
            self.globs.len() - 1
        });
        &mut self.globs[at].1
    }

    /// `host` is what is left of it on the left side; `None` when all labels have been used.
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

impl Paths {
    fn add(&mut self, path: &[u8], number: usize) {
        if let Err(at) = self.lengths.binary_search(&path.len()) {
            self.lengths.insert(at, path.len());
        }
        self.by_path.entry(path.into()).or_default().push(number);
    }

    fn collect(&self, path: &[u8], found: &mut Vec<usize>) {
        let beginnings = self.lengths.iter().map_while(|length| path.get(..*length));
        found.extend(beginnings.filter_map(|beginning| self.by_path.get(beginning)).flatten());
    }
}
