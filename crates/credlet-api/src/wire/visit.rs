//! The serde visitors of the document decoder.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::document::{DecodeObject, MemberValue};
use super::error::{DocumentError, Position};
use super::yaml::position;
use crate::Secret;

/// State of a decoder: the field being decoded, for error messages, and the rules of the format.
#[derive(Default)]
pub(super) struct DecodeTrace {
    pub(super) field: Cell<Option<(&'static str, &'static str)>>,
    pub(super) lines: bool,
    pub(super) last_name: Cell<Option<Position>>,
    /// Whether the last of equal keys replaces the earlier ones, as in YAML. In JSON, as Go decodes it, `null` leaves a
    /// string unchanged, and an object is merged into an earlier one.
    pub(super) replaces: bool,
}

impl DecodeTrace {
    pub(super) fn enter(&self, path: &'static str, expected: &'static str) {
        self.field.set(Some((path, expected)));
    }

    pub(super) fn leave(&self) {
        self.field.set(None);
    }

    fn next_key<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<Option<(String, usize)>, A::Error> {
        if !self.lines {
            return Ok(map.next_key()?.map(|KeyName(name)| (name, 0)));
        }
        let Some(key) = map.next_key::<serde_saphyr::Spanned<KeyName>>()? else { return Ok(None) };
        if key.defined == key.referenced {
            self.last_name.set(Some(position(key.defined)));
        }
        // For a member from a merge key: the line of its definition.
        Ok(Some((key.value.0, position(key.defined).line)))
    }

    pub(super) fn type_error(&self, at: Position) -> DocumentError {
        // The parser may report the position of the enclosing list or object only.
        let at = self.last_name.get().filter(|last| last.line > at.line).unwrap_or(at);
        match self.field.get() {
            Some((field, expected)) => DocumentError::InvalidType { field, expected, at },
            None => DocumentError::NotAnObject { at },
        }
    }
}

/// Uses `deserialize_any`, so that YAML numbers and booleans are not accepted as strings, as in Go.
pub(super) struct AnySeed<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for AnySeed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}

/// Decodes the document or an element of a list: an object, or `null`, which counts as an object without members.
pub(super) struct ObjectSeed<'a, O>(&'a DecodeTrace, PhantomData<O>);

impl<'a, O> ObjectSeed<'a, O> {
    pub(super) fn new(trace: &'a DecodeTrace) -> Self {
        Self(trace, PhantomData)
    }
}

impl<'de, O: DecodeObject> DeserializeSeed<'de> for ObjectSeed<'_, O> {
    type Value = O;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<O, D::Error> {
        let mut object = None;
        AnySeed(ObjectVisitor { into: &mut object, trace: self.0 }).deserialize(deserializer)?;
        Ok(object.unwrap_or_default())
    }
}

pub(super) struct ObjectVisitor<'a, O> {
    pub(super) into: &'a mut Option<O>,
    pub(super) trace: &'a DecodeTrace,
}

impl<'de, O: DecodeObject> Visitor<'de> for ObjectVisitor<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        *self.into = None;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let object = self.into.get_or_insert_default();
        while let Some((name, line)) = self.trace.next_key(&mut map)? {
            object.decode_member(&name, MemberValue { map: &mut map, trace: self.trace, line })?;
        }
        Ok(())
    }
}

pub(super) struct ObjectListVisitor<'a, O> {
    pub(super) into: &'a mut Option<Vec<O>>,
    pub(super) trace: &'a DecodeTrace,
}

impl<'de, O: DecodeObject> Visitor<'de> for ObjectListVisitor<'_, O> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        *self.into = None;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let objects = self.into.insert(Vec::new());
        let this_field = self.trace.field.get();
        while let Some(object) = list.next_element_seed(ObjectSeed::new(self.trace))? {
            objects.push(object);
            // The members of the element have overwritten the field.
            self.trace.field.set(this_field);
        }
        Ok(())
    }
}

/// A mapping with values of one scalar type.
pub(super) struct StringMapVisitor<'a, V>(pub(super) &'a mut BTreeMap<String, V>);

impl<'de, V: serde::Deserialize<'de>> Visitor<'de> for StringMapVisitor<'_, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((KeyName(name), value)) = map.next_entry::<KeyName, V>()? {
            self.0.insert(name, value);
        }
        Ok(())
    }
}

pub(super) struct StringListVisitor<'a>(pub(super) &'a mut Vec<Secret>);

impl<'de> Visitor<'de> for StringListVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(StrictString(text)) = list.next_element()? {
            self.0.push(text);
        }
        Ok(())
    }
}

/// A list of strings as the value of a mapping.
pub(super) struct StringList(pub(super) Vec<Secret>);

impl<'de> serde::Deserialize<'de> for StringList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut texts = Vec::new();
        deserializer.deserialize_any(StringListVisitor(&mut texts))?;
        Ok(Self(texts))
    }
}

/// A string in JSON and YAML; `null` is an empty string.
pub(super) struct StrictString(pub(super) Secret);

impl<'de> serde::Deserialize<'de> for StrictString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = Secret::default();
        let convert = |value: ScalarValue<'_>| value.text().map(Secret::new);
        deserializer.deserialize_any(ScalarVisitor { into: &mut text, null_clears: true, convert })?;
        Ok(Self(text))
    }
}

/// Name of a member. YAML keys of other types are converted to text, which matches no field.
struct KeyName(String);

impl<'de> serde::Deserialize<'de> for KeyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// A scalar that is not `null`.
pub(super) enum ScalarValue<'a> {
    Text(Cow<'a, str>),
    Boolean(bool),
    Integer(i64),
    /// A fraction, or an integer beyond 64 bits.
    OtherNumber,
}

impl ScalarValue<'_> {
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    pub(super) fn boolean(self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            _ => None,
        }
    }
}

/// A scalar that `convert` accepts; `None` rejects it.
pub(super) struct ScalarVisitor<'a, T, F> {
    pub(super) into: &'a mut T,
    pub(super) null_clears: bool,
    pub(super) convert: F,
}

impl<T, F: FnOnce(ScalarValue<'_>) -> Option<T>> ScalarVisitor<'_, T, F> {
    fn accept<E: serde::de::Error>(self, value: ScalarValue<'_>) -> Result<(), E> {
        // `DocumentError` replaces this text.
        *self.into = (self.convert)(value).ok_or_else(|| E::custom("invalid type"))?;
        Ok(())
    }
}

impl<T: Default, F: FnOnce(ScalarValue<'_>) -> Option<T>> Visitor<'_> for ScalarVisitor<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.accept(ScalarValue::Text(text.into()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<(), E> {
        self.accept(ScalarValue::Text(text.into()))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.accept(ScalarValue::Boolean(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.accept(ScalarValue::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.accept(i64::try_from(value).map_or(ScalarValue::OtherNumber, ScalarValue::Integer))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.accept(ScalarValue::OtherNumber)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        if self.null_clears {
            *self.into = T::default();
        }
        Ok(())
    }
}
