//! A parsed document with the line of every value, for decoders that report all errors instead of the first one.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed as _, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zeroize::Zeroizing;

use super::document::is_json;
use super::error::{DocumentError, Position};
use super::visit::DecodeTrace;
use super::yaml::{self, first_document, position};
use crate::Secret;

/// A value and the line on which it starts.
#[derive(Debug)]
pub(crate) struct YamlNode {
    pub(crate) line: usize,
    pub(crate) value: YamlValue,
}

/// Value of a node. Text is stored as a secret, because any field may hold one.
#[derive(Debug)]
pub(crate) enum YamlValue {
    Null,
    Boolean(bool),
    Number,
    Text(Secret),
    List(Vec<YamlNode>),
    /// Members in document order, including duplicate names.
    Map(Vec<(MemberName, YamlNode)>),
}

/// Name of a member and its line.
#[derive(Debug)]
pub(crate) struct MemberName {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Parses the first document of a text.
pub(crate) fn read(bytes: &[u8]) -> Result<YamlNode, DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DocumentError::NotUtf8 { byte: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let escaped = is_json(text).then(|| json_as_yaml(text)).transpose()?;
    let document = first_document(escaped.as_deref().map_or(text, String::as_str));
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#') || line.trim() == "---";
    if document.lines().all(is_blank) {
        return Err(DocumentError::Empty);
    }
    let options = yaml::large_options(document.len());
    serde_saphyr::with_deserializer_from_str_with_options(document, options, |yaml| NodeSeed.deserialize(yaml))
        .map_err(|error| yaml::document_error(&error, &DecodeTrace::default()))
}

/// Escapes the characters that JSON allows unescaped and YAML does not.
fn json_as_yaml(text: &str) -> Result<Zeroizing<String>, DocumentError> {
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

/// Whether anything but comments follows the first document. Kubernetes silently ignores it.
pub(crate) fn has_more_documents(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let rest = &text[first_document(text).len()..];
    let has_content = |line: &str| !line.is_empty() && !line.starts_with('#') && line != "---" && line != "...";
    rest.lines().any(|line| has_content(line.trim_end()))
}

/// Rejects invalid JSON, which might be valid YAML with another meaning.
fn check_json(text: &str) -> Result<(), DocumentError> {
    let at = |error: &serde_json::Error| Position { line: error.line(), column: error.column() };
    let mut json = serde_json::Deserializer::from_str(text);
    IgnoredAny::deserialize(&mut json).map_err(|error| DocumentError::Syntax { at: at(&error) })?;
    json.end().map_err(|error| DocumentError::TrailingData { at: at(&error) })
}

struct NodeSeed;

impl<'de> serde::de::DeserializeSeed<'de> for NodeSeed {
    type Value = YamlNode;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlNode, D::Error> {
        Ok(YamlNode { line: 1, value: YamlValue::deserialize(deserializer)? })
    }
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Boolean(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(Secret::new(text)))
    }

    fn visit_string<E>(self, text: String) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(Secret::new(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlValue, A::Error> {
        let mut nodes = Vec::new();
        while let Some(spanned) = list.next_element::<serde_saphyr::Spanned<YamlValue>>()? {
            nodes.push(YamlNode { line: position(spanned.defined).line, value: spanned.value });
        }
        Ok(YamlValue::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlValue, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<serde_saphyr::Spanned<String>>()? {
            let line = position(key.defined).line;
            let value = map.next_value()?;
            members.push((MemberName { text: key.value, line }, YamlNode { line, value }));
        }
        Ok(YamlValue::Map(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(node: &YamlNode) -> Vec<(String, usize)> {
        match &node.value {
            YamlValue::Map(members) => members.iter().map(|(name, _)| (name.text.clone(), name.line)).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn keeps_duplicate_names_and_lines() {
        let node = read(b"# a comment\na: 1\nb: [x,\n  y]\na: null\n").unwrap();
        assert_eq!(names(&node), [("a".into(), 2), ("b".into(), 3), ("a".into(), 5)]);
        let YamlValue::Map(members) = &node.value else { unreachable!() };
        let YamlValue::List(list) = &members[1].1.value else { unreachable!() };
        assert_eq!(list.iter().map(|item| item.line).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn escapes_control_chars_of_json() {
        let node = read("{\"a\": \"\u{7f}\u{9f}\\u007f\"}".as_bytes()).unwrap();
        let YamlValue::Map(members) = &node.value else { unreachable!() };
        let YamlValue::Text(text) = &members[0].1.value else { unreachable!() };
        assert_eq!(text.expose(), "\u{7f}\u{9f}\u{7f}");
        assert!(read("a: \"\u{7f}\"".as_bytes()).is_err());
    }

    #[test]
    fn rejects_invalid_json() {
        let node = read(b"{\n\t\"a\": true,\n\t\"b\": {\"c\": [1, \"x\\u0041\\n\"]}\n}\n").unwrap();
        assert_eq!(names(&node), [("a".into(), 2), ("b".into(), 3)]);
        assert!(matches!(read(b"{\"a\": 1}{"), Err(DocumentError::TrailingData { .. })));
        assert!(matches!(read(b"{\"a\": 1,}"), Err(DocumentError::Syntax { .. })));
    }

    #[test]
    fn merge_key_adds_no_duplicates() {
        let node = read(b"base: &base\n  x: 1\n  y: 2\nuse:\n  <<: *base\n  y: 3\n").unwrap();
        let YamlValue::Map(members) = &node.value else { unreachable!() };
        let mut merged: Vec<_> = names(&members[1].1).into_iter().map(|(name, _)| name).collect();
        merged.sort();
        assert_eq!(merged, ["x", "y"]);
    }

    #[test]
    fn detects_further_documents() {
        assert!(has_more_documents(b"a: 1\n---\nb: 2\n"));
        assert!(!has_more_documents(b"---\na: 1\n---\n# nothing\n"));
        assert!(matches!(read(b"# only a comment\n---\n"), Err(DocumentError::Empty)));
    }
}
