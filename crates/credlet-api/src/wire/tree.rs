//! A whole document with the line of everything in it, for readers that report all mistakes instead of the first.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed as _, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

use super::document::is_json;
use super::fault::{Fault, Position};
use super::visit::Trace;
use super::yaml::{self, first_document, position};
use crate::Secret;

/// A value and the line on which it begins.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// What a value is. All text is kept as if it were secret.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Number,
    Text(Secret),
    List(Vec<Node>),
    /// In the order of the document, equal names and all.
    Map(Vec<(Name, Node)>),
}

/// A member's name and where it stands.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Reads the first document of a text; `null` if there is nothing in it.
pub(crate) fn read(bytes: &[u8]) -> Result<Node, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| Fault::NotText { byte: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let escaped = is_json(text).then(|| json_as_yaml(text)).transpose()?;
    let document = first_document(escaped.as_deref().map_or(text, String::as_str));
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#') || line.trim() == "---";
    if document.lines().all(is_blank) {
        return Err(Fault::Empty);
    }
    let options = yaml::large_options(document.len());
    serde_saphyr::with_deserializer_from_str_with_options(document, options, |yaml| Seed.deserialize(yaml))
        .map_err(|error| yaml::fault(&error, &Trace::default()))
}

/// JSON may hold what YAML wants escaped.
fn json_as_yaml(text: &str) -> Result<Zeroizing<String>, Fault> {
    check_json(text)?;
    let mut yaml = Zeroizing::new(String::with_capacity(text.len()));
    for c in text.chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => yaml.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => yaml.push(c),
        }
    }
    Ok(yaml)
}

/// Whether something other than comments follows the first document: Kubernetes ignores it without a word.
pub(crate) fn has_more_documents(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let rest = &text[first_document(text).len()..];
    let says_something = |line: &str| !line.is_empty() && !line.starts_with('#') && line != "---" && line != "...";
    rest.lines().any(|line| says_something(line.trim_end()))
}

/// A slip in JSON must not be read as something else in YAML.
fn check_json(text: &str) -> Result<(), Fault> {
    let at = |error: &serde_json::Error| Position { line: error.line(), column: error.column() };
    let mut json = serde_json::Deserializer::from_str(text);
    IgnoredAny::deserialize(&mut json).map_err(|error| Fault::Syntax { at: at(&error) })?;
    json.end().map_err(|error| Fault::Trailing { at: at(&error) })
}

struct Seed;

impl<'de> serde::de::DeserializeSeed<'de> for Seed {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Ok(Node { line: 1, value: Value::deserialize(deserializer)? })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Whatever)
    }
}

struct Whatever;

impl<'de> Visitor<'de> for Whatever {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Secret::new(text)))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(Secret::new(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(spanned) = list.next_element::<serde_saphyr::Spanned<Value>>()? {
            nodes.push(Node { line: position(spanned.defined).line, value: spanned.value });
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<serde_saphyr::Spanned<String>>()? {
            let line = position(key.defined).line;
            let value = map.next_value()?;
            members.push((Name { text: key.value, line }, Node { line, value }));
        }
        Ok(Value::Map(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(node: &Node) -> Vec<(String, usize)> {
        match &node.value {
            Value::Map(members) => members.iter().map(|(name, _)| (name.text.clone(), name.line)).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn equal_names_are_all_there_with_their_lines() {
        let node = read(b"# a comment\na: 1\nb: [x,\n  y]\na: null\n").unwrap();
        assert_eq!(names(&node), [("a".into(), 2), ("b".into(), 3), ("a".into(), 5)]);
        let Value::Map(members) = &node.value else { unreachable!() };
        let Value::List(list) = &members[1].1.value else { unreachable!() };
        assert_eq!(list.iter().map(|item| item.line).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn json_may_hold_what_yaml_wants_escaped() {
        let node = read("{\"a\": \"\u{7f}\u{9f}\\u007f\"}".as_bytes()).unwrap();
        let Value::Map(members) = &node.value else { unreachable!() };
        let Value::Text(text) = &members[0].1.value else { unreachable!() };
        assert_eq!(text.expose(), "\u{7f}\u{9f}\u{7f}");
        assert!(read("a: \"\u{7f}\"".as_bytes()).is_err());
    }

    #[test]
    fn json_is_held_to_its_own_rules_and_has_lines_too() {
        let node = read(b"{\n\t\"a\": true,\n\t\"b\": {\"c\": [1, \"x\\u0041\\n\"]}\n}\n").unwrap();
        assert_eq!(names(&node), [("a".into(), 2), ("b".into(), 3)]);
        assert!(matches!(read(b"{\"a\": 1}{"), Err(Fault::Trailing { .. })));
        assert!(matches!(read(b"{\"a\": 1,}"), Err(Fault::Syntax { .. })));
    }

    #[test]
    fn merged_members_are_no_duplicates_of_their_own() {
        let node = read(b"base: &base\n  x: 1\n  y: 2\nuse:\n  <<: *base\n  y: 3\n").unwrap();
        let Value::Map(members) = &node.value else { unreachable!() };
        let mut merged: Vec<_> = names(&members[1].1).into_iter().map(|(name, _)| name).collect();
        merged.sort();
        assert_eq!(merged, ["x", "y"]);
    }

    #[test]
    fn what_follows_the_first_document_is_noticed() {
        assert!(has_more_documents(b"a: 1\n---\nb: 2\n"));
        assert!(!has_more_documents(b"---\na: 1\n---\n# nothing\n"));
        assert!(matches!(read(b"# only a comment\n---\n"), Err(Fault::Empty)));
    }
}
