//! Decoder of JSON and YAML documents.
//!
//! The error texts of parsers quote the value that they reject, which may be a token. They are replaced by a
//! [`DocumentError`]: the kind of error, the path of the field, and the position.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed as _, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::error::{DocumentError, Position};
use super::visit::{
    AnySeed, DecodeTrace, ObjectListVisitor, ObjectSeed, ObjectVisitor, ScalarValue, ScalarVisitor, StringList,
    StringListVisitor, StringMapVisitor,
};
use super::yaml::{self, first_document};
use crate::Secret;
use crate::exec::RawExtension;

/// Go requires padding and ignores trailing bits in the last character.
const GO_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// How equal keys of one mapping are treated in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateKeys {
    /// The last one wins, as in Go's decoders.
    LastWins,
    /// They are an error, for documents in which a silently ignored line would be dangerous.
    Reject,
}

/// A type that is decoded member by member, as by Go's `encoding/json`.
pub(crate) trait DecodeObject: Default {
    /// Decodes one member. Unknown members must be [skipped](MemberValue::skip).
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error>;
}

/// Implements [`DecodeObject`] for a type, each member of which is decoded by a method of [`MemberValue`] into a field. The path of a
/// member in errors is the prefix and its name. Unknown members are skipped.
macro_rules! decode_object {
    ($type:ty, $prefix:literal, $($name:literal $(| $alias:literal)* => $method:ident($($field:tt)+)),* $(,)?) => {
        impl $crate::wire::document::DecodeObject for $type {
            fn decode_member<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                value: $crate::wire::document::MemberValue<'_, A>,
            ) -> Result<(), A::Error> {
                match name {
                    $($name $(| $alias)* => value.$method(concat!($prefix, $name), &mut self.$($field)+),)*
                    _ => value.skip(),
                }
            }
        }
    };
}
pub(crate) use decode_object;

/// The value of one member, not decoded yet.
pub(crate) struct MemberValue<'a, A> {
    pub(super) map: &'a mut A,
    pub(super) trace: &'a DecodeTrace,
    pub(super) line: usize,
}

impl<'de, A: MapAccess<'de>> MemberValue<'_, A> {
    /// The line of the member's name; 0 unless the document is decoded by [`read_located`].
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn skip(self) -> Result<(), A::Error> {
        self.map.next_value::<IgnoredAny>().map(drop)
    }

    pub(crate) fn string(self, path: &'static str, into: &mut String) -> Result<(), A::Error> {
        let null_clears = self.trace.replaces;
        self.read(path, "a string", ScalarVisitor { into, null_clears, convert: |value: ScalarValue<'_>| value.text() })
    }

    pub(crate) fn secret(self, path: &'static str, into: &mut Secret) -> Result<(), A::Error> {
        let null_clears = self.trace.replaces;
        let convert = |value: ScalarValue<'_>| value.text().map(Secret::new);
        self.read(path, "a string", ScalarVisitor { into, null_clears, convert })
    }

    pub(crate) fn boolean(self, path: &'static str, into: &mut bool) -> Result<(), A::Error> {
        let null_clears = self.trace.replaces;
        self.read(
            path,
            "true or false",
            ScalarVisitor { into, null_clears, convert: |value: ScalarValue<'_>| value.boolean() },
        )
    }

    pub(crate) fn integer(self, path: &'static str, into: &mut Option<i64>) -> Result<(), A::Error> {
        let convert = |value: ScalarValue<'_>| value.integer().map(Some);
        self.read(path, "a whole number", ScalarVisitor { into, null_clears: true, convert })
    }

    /// Decodes text with a format, such as a time. `parse` returns `None` for invalid text.
    pub(crate) fn parsed<T>(
        self,
        path: &'static str,
        expected: &'static str,
        into: &mut Option<T>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(), A::Error> {
        let convert = |value: ScalarValue<'_>| parse(&value.text()?).map(Some);
        self.read(path, expected, ScalarVisitor { into, null_clears: true, convert })
    }

    /// Decodes an object; `null` removes it.
    pub(crate) fn object<O: DecodeObject>(self, path: &'static str, into: &mut Option<O>) -> Result<(), A::Error> {
        let trace = self.trace;
        let mut object = into.take().filter(|_| !trace.replaces);
        self.read(path, "an object", ObjectVisitor { into: &mut object, trace })?;
        *into = object;
        Ok(())
    }

    /// Decodes a list of objects; `null` empties it.
    pub(crate) fn objects<O: DecodeObject>(
        self,
        path: &'static str,
        into: &mut Option<Vec<O>>,
    ) -> Result<(), A::Error> {
        let trace = self.trace;
        self.read(path, "a list of objects", ObjectListVisitor { into, trace })
    }

    /// Decodes a list of objects; `null` is an empty list.
    pub(crate) fn list<O: DecodeObject>(self, path: &'static str, into: &mut Vec<O>) -> Result<(), A::Error> {
        let mut found = None;
        self.objects(path, &mut found)?;
        *into = found.unwrap_or_default();
        Ok(())
    }

    /// Decodes a list of strings. Elements of another type are an error; `null` is an empty string.
    pub(crate) fn string_list(self, path: &'static str, into: &mut Vec<Secret>) -> Result<(), A::Error> {
        self.read(path, "a list of strings", StringListVisitor(into))
    }

    /// Decodes a mapping of strings to lists of strings.
    pub(crate) fn string_lists(
        self,
        path: &'static str,
        into: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<(), A::Error> {
        let mut lists = BTreeMap::<String, StringList>::new();
        self.read(path, "a mapping of strings to lists of strings", StringMapVisitor(&mut lists))?;
        let plain = |texts: StringList| texts.0.iter().map(|text| text.expose().to_owned()).collect();
        into.extend(lists.into_iter().map(|(name, texts)| (name, plain(texts))));
        Ok(())
    }

    /// Decodes base64 as Go does: padding is required, line breaks are ignored.
    pub(crate) fn base64(self, path: &'static str, into: &mut Zeroizing<Vec<u8>>) -> Result<(), A::Error> {
        let convert = |value: ScalarValue<'_>| {
            let mut text = Zeroizing::new(value.text()?);
            text.retain(|c| !matches!(c, '\r' | '\n'));
            GO_BASE64.decode(text.as_bytes()).ok().map(Zeroizing::new)
        };
        self.read(path, "base64", ScalarVisitor { into, null_clears: true, convert })
    }

    /// Decodes a mapping of strings to strings.
    pub(crate) fn string_map(self, path: &'static str, into: &mut BTreeMap<String, String>) -> Result<(), A::Error> {
        self.read(path, "a mapping of strings to strings", StringMapVisitor(into))
    }

    /// Decodes any value. The form of numbers is lost.
    pub(crate) fn any(self, path: &'static str, into: &mut Option<serde_json::Value>) -> Result<(), A::Error> {
        self.trace.enter(path, "plain data");
        let value = self.map.next_value::<serde_json::Value>()?;
        self.trace.leave();
        *into = Some(value).filter(|value| !value.is_null());
        Ok(())
    }

    /// Decodes any value as an extension: JSON is preserved as written, YAML gets sorted keys.
    pub(crate) fn extension(self, path: &'static str, into: &mut Option<RawExtension>) -> Result<(), A::Error> {
        if self.trace.replaces {
            let mut value = None;
            self.any(path, &mut value)?;
            *into = value.as_ref().map(RawExtension::from_value);
        } else {
            self.trace.enter(path, "plain data");
            let raw = self.map.next_value::<Box<RawValue>>()?;
            self.trace.leave();
            *into = RawExtension::from_json(raw.get()).ok().filter(|_| raw.get() != "null");
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
        let value = self.map.next_value_seed(AnySeed(visitor))?;
        self.trace.leave();
        Ok(value)
    }
}

/// Decodes one JSON or YAML document.
pub(crate) fn read<O: DecodeObject>(bytes: &[u8], duplicates: DuplicateKeys) -> Result<O, DocumentError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DocumentError::NotUtf8 { byte: error.valid_up_to() })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(DocumentError::Empty);
    }
    if is_json(text) { read_json(text) } else { read_yaml(text, duplicates) }
}

/// Whether a text must be valid JSON. YAML's flow style starts with `{`, too; a quote behind it means JSON.
/// Invalid JSON must not be decoded as YAML, where a line break in a string is a space.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().strip_prefix('{').is_some_and(|inside| inside.trim_start().starts_with(['"', '}']))
}

/// Decodes a document of any size and provides the [line](MemberValue::line) of every member. JSON is decoded as YAML
/// and the last of equal keys wins, as Kubernetes decodes kubeconfigs.
pub(crate) fn read_located<O: DecodeObject>(text: &str) -> Result<O, DocumentError> {
    if text.trim().is_empty() {
        return Err(DocumentError::Empty);
    }
    let text = first_document(text);
    let trace = DecodeTrace { lines: true, replaces: true, ..DecodeTrace::default() };
    serde_saphyr::with_deserializer_from_str_with_options(text, yaml::large_options(text.len()), |yaml| {
        ObjectSeed::<O>::new(&trace).deserialize(yaml)
    })
    .map_err(|error| yaml::document_error(&error, &trace))
}

/// Decodes an object for an implementation of `Deserialize`, by the rules for JSON. The error of the deserializer is
/// replaced, because it may quote a value.
pub(crate) fn deserialize<'de, O: DecodeObject, D: Deserializer<'de>>(deserializer: D) -> Result<O, D::Error> {
    let trace = DecodeTrace::default();
    ObjectSeed::<O>::new(&trace).deserialize(deserializer).map_err(|_| match trace.field.get() {
        Some((field, expected)) => D::Error::custom(format_args!("failed to decode `{field}`: expected {expected}")),
        None => D::Error::custom("failed to decode: expected an object"),
    })
}

/// Decodes one JSON object. Data behind it is an error.
pub(crate) fn read_json<O: DecodeObject>(text: &str) -> Result<O, DocumentError> {
    let trace = DecodeTrace::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let at = |error: &serde_json::Error| Position { line: error.line(), column: error.column() };
    let object = ObjectSeed::<O>::new(&trace).deserialize(&mut json).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => trace.type_error(at(&error)),
        _ => DocumentError::Syntax { at: at(&error) },
    })?;
    json.end().map_err(|error| DocumentError::TrailingData { at: at(&error) })?;
    Ok(object)
}

fn read_yaml<O: DecodeObject>(text: &str, duplicates: DuplicateKeys) -> Result<O, DocumentError> {
    let trace = DecodeTrace { replaces: true, ..DecodeTrace::default() };
    serde_saphyr::with_deserializer_from_str_with_options(first_document(text), yaml::options(duplicates), |yaml| {
        ObjectSeed::<O>::new(&trace).deserialize(yaml)
    })
    .map_err(|error| yaml::document_error(&error, &trace))
}
