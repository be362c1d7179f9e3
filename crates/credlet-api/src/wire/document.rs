//! One reader for every document that comes from outside: JSON or YAML, by position, never by content.
//!
//! A parser's own error text quotes what it rejects, and what it rejects may be a token. So no such text survives
//! here: a [`Fault`] knows the kind of mistake, the field by its name in the specification, and the position.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::fault::{Fault, Position};
use super::visit::{Any, Found, Objects, OptionalObject, Root, Scalar, Strings, TextList, Texts, Trace};
use super::yaml::{self, first_document};
use crate::Secret;
use crate::exec::Extension;

/// Go insists on padding and does not mind stray bits in the last character.
const GO_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// How forgiving a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// As Go's decoders: the last one stands.
    LastWins,
    /// For documents in which a silently dropped line would be dangerous.
    Refuse,
}

/// A type that reads itself member by member, as Go's `encoding/json` does: unknown names are skipped.
pub(crate) trait Object: Default {
    /// Reads one member. Unknown ones must be [skipped](Member::skip).
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error>;
}

/// The value of one member, not read yet.
pub(crate) struct Member<'a, A> {
    pub(super) map: &'a mut A,
    pub(super) trace: &'a Trace,
    pub(super) line: usize,
}

impl<'de, A: MapAccess<'de>> Member<'_, A> {
    /// The line on which the member's name stands. 0: this reader does not count lines, see [`read_located`].
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn skip(self) -> Result<(), A::Error> {
        self.map.next_value::<IgnoredAny>().map(drop)
    }

    pub(crate) fn string(self, path: &'static str, into: &mut String) -> Result<(), A::Error> {
        let null_clears = self.trace.replaces;
        self.read(path, "a string", Scalar { into, null_clears, take: |found: Found<'_>| found.text() })
    }

    pub(crate) fn secret(self, path: &'static str, into: &mut Secret) -> Result<(), A::Error> {
        let null_clears = self.trace.replaces;
        let take = |found: Found<'_>| found.text().map(Secret::new);
        self.read(path, "a string", Scalar { into, null_clears, take })
    }

    pub(crate) fn boolean(self, path: &'static str, into: &mut bool) -> Result<(), A::Error> {
        let null_clears = self.trace.replaces;
        self.read(path, "true or false", Scalar { into, null_clears, take: |found: Found<'_>| found.boolean() })
    }

    pub(crate) fn integer(self, path: &'static str, into: &mut Option<i64>) -> Result<(), A::Error> {
        let take = |found: Found<'_>| found.integer().map(Some);
        self.read(path, "a whole number", Scalar { into, null_clears: true, take })
    }

    /// Text that must have a form of its own, such as a time: `parse` says whether it has.
    pub(crate) fn parsed<T>(
        self,
        path: &'static str,
        expected: &'static str,
        into: &mut Option<T>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(), A::Error> {
        let take = |found: Found<'_>| parse(&found.text()?).map(Some);
        self.read(path, expected, Scalar { into, null_clears: true, take })
    }

    /// An object; `null` removes it.
    pub(crate) fn object<O: Object>(self, path: &'static str, into: &mut Option<O>) -> Result<(), A::Error> {
        let trace = self.trace;
        let mut object = into.take().filter(|_| !trace.replaces);
        self.read(path, "an object", OptionalObject { into: &mut object, trace })?;
        *into = object;
        Ok(())
    }

    /// A list of objects; `null` empties it.
    pub(crate) fn objects<O: Object>(self, path: &'static str, into: &mut Option<Vec<O>>) -> Result<(), A::Error> {
        let trace = self.trace;
        self.read(path, "a list of objects", Objects { into, trace })
    }

    /// A list of strings, each of them only from a string; `null` among them is an empty one.
    pub(crate) fn texts(self, path: &'static str, into: &mut Vec<Secret>) -> Result<(), A::Error> {
        self.read(path, "a list of strings", Texts(into))
    }

    /// A mapping from strings to lists of strings, each of them only from a string.
    pub(crate) fn text_lists(
        self,
        path: &'static str,
        into: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<(), A::Error> {
        let mut lists = BTreeMap::<String, TextList>::new();
        self.read(path, "a mapping of strings to lists of strings", Strings(&mut lists))?;
        let plain = |texts: TextList| texts.0.iter().map(|text| text.expose().to_owned()).collect();
        into.extend(lists.into_iter().map(|(name, texts)| (name, plain(texts))));
        Ok(())
    }

    /// Bytes in base64, as Go reads them: padded, with or without line breaks.
    pub(crate) fn base64(self, path: &'static str, into: &mut Zeroizing<Vec<u8>>) -> Result<(), A::Error> {
        let take = |found: Found<'_>| {
            let mut text = Zeroizing::new(found.text()?);
            text.retain(|c| !matches!(c, '\r' | '\n'));
            GO_BASE64.decode(text.as_bytes()).ok().map(Zeroizing::new)
        };
        self.read(path, "base64", Scalar { into, null_clears: true, take })
    }

    /// A mapping from strings to strings.
    pub(crate) fn strings(self, path: &'static str, into: &mut BTreeMap<String, String>) -> Result<(), A::Error> {
        self.read(path, "a mapping of strings to strings", Strings(into))
    }

    /// Anything at all. Numbers lose their form.
    pub(crate) fn any(self, path: &'static str, into: &mut Option<serde_json::Value>) -> Result<(), A::Error> {
        self.trace.enter(path, "plain data");
        let value = self.map.next_value::<serde_json::Value>()?;
        self.trace.leave();
        *into = Some(value).filter(|value| !value.is_null());
        Ok(())
    }

    /// Anything at all, to be passed on: from JSON as it was written, from YAML with sorted keys.
    pub(crate) fn extension(self, path: &'static str, into: &mut Option<Extension>) -> Result<(), A::Error> {
        if self.trace.replaces {
            let mut value = None;
            self.any(path, &mut value)?;
            *into = value.as_ref().map(Extension::from_value);
        } else {
            self.trace.enter(path, "plain data");
            let raw = self.map.next_value::<Box<RawValue>>()?;
            self.trace.leave();
            *into = Extension::from_json(raw.get()).ok().filter(|_| raw.get() != "null");
        }
        Ok(())
    }

    fn read<V: Visitor<'de>>(
        self,
        path: &'static str,
        expected: &'static str,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.trace.enter(path, expected);
        let value = self.map.next_value_seed(Any(visitor))?;
        self.trace.leave();
        Ok(value)
    }
}

/// Reads one document.
pub(crate) fn read<O: Object>(bytes: &[u8], duplicates: Duplicates) -> Result<O, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| Fault::NotText { byte: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(Fault::Empty);
    }
    if is_json(text) { read_json(text) } else { read_yaml(text, duplicates) }
}

/// Whether to hold a text to the rules of JSON. A `{` is also how YAML's flow style begins, but the name after it tells
/// them apart; a slip in JSON must not be read as something else in YAML, where a line break in a string is a blank.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().strip_prefix('{').is_some_and(|inside| inside.trim_start().starts_with(['"', '}']))
}

/// Reads one large document that people write by hand, knowing the [line](Member::line) of every member. JSON is read
/// as the YAML that it also is, as Kubernetes does with kubeconfigs; the last of equal keys stands.
pub(crate) fn read_located<O: Object>(text: &str) -> Result<O, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::Empty);
    }
    let text = first_document(text);
    let trace = Trace { lines: true, replaces: true, ..Trace::default() };
    serde_saphyr::with_deserializer_from_str_with_options(text, yaml::large_options(text.len()), |yaml| {
        Root::<O>::new(&trace).deserialize(yaml)
    })
    .map_err(|error| yaml::fault(&error, &trace))
}

/// Reads one JSON object and nothing else.
pub(crate) fn read_json<O: Object>(text: &str) -> Result<O, Fault> {
    let trace = Trace::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let at = |error: &serde_json::Error| Position { line: error.line(), column: error.column() };
    let object = Root::<O>::new(&trace).deserialize(&mut json).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => trace.type_fault(at(&error)),
        _ => Fault::Syntax { at: at(&error) },
    })?;
    json.end().map_err(|error| Fault::Trailing { at: at(&error) })?;
    Ok(object)
}

fn read_yaml<O: Object>(text: &str, duplicates: Duplicates) -> Result<O, Fault> {
    let trace = Trace { replaces: true, ..Trace::default() };
    serde_saphyr::with_deserializer_from_str_with_options(first_document(text), yaml::options(duplicates), |yaml| {
        Root::<O>::new(&trace).deserialize(yaml)
    })
    .map_err(|error| yaml::fault(&error, &trace))
}
