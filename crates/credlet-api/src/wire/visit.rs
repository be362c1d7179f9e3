//! The visitors behind a document's reader: what is there, rather than what was expected.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::document::{Member, Object};
use super::fault::{Fault, Position};
use super::yaml::position;
use crate::Secret;

/// The field being read, so that an error can name it. After a success nothing is left in here.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) field: Cell<Option<(&'static str, &'static str)>>,
    pub(super) lines: bool,
    pub(super) last_name: Cell<Option<Position>>,
    /// In YAML the last of equal keys stands alone. In JSON, as Go reads it, `null` changes no string, and an object
    /// adds to an earlier one.
    pub(super) replaces: bool,
}

impl Trace {
    pub(super) fn enter(&self, path: &'static str, expected: &'static str) {
        self.field.set(Some((path, expected)));
    }

    pub(super) fn leave(&self) {
        self.field.set(None);
    }

    fn next_name<'de, A: MapAccess<'de>>(&self, map: &mut A) -> Result<Option<(String, usize)>, A::Error> {
        if !self.lines {
            return Ok(map.next_key()?.map(|Key(name)| (name, 0)));
        }
        let Some(key) = map.next_key::<serde_saphyr::Spanned<Key>>()? else { return Ok(None) };
        if key.defined == key.referenced {
            self.last_name.set(Some(position(key.defined)));
        }
        // Of a merged member the line where it is written, and not the one where it is merged.
        Ok(Some((key.value.0, position(key.defined).line)))
    }

    pub(super) fn type_fault(&self, at: Position) -> Fault {
        // The parser may know no more than where the surrounding list or object begins.
        let at = self.last_name.get().filter(|last| last.line > at.line).unwrap_or(at);
        match self.field.get() {
            Some((field, expected)) => Fault::Type { field, expected, at },
            None => Fault::NotAnObject { at },
        }
    }
}

/// Asks the parser what is there, instead of telling it what to expect: so numbers and booleans stay apart from
/// strings in YAML, as they do in Go.
pub(super) struct Any<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Any<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}

/// The document itself, or an element of a list: an object, or `null`, which is an object without members.
pub(super) struct Root<'a, O>(&'a Trace, PhantomData<O>);

impl<'a, O> Root<'a, O> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        Self(trace, PhantomData)
    }
}

impl<'de, O: Object> DeserializeSeed<'de> for Root<'_, O> {
    type Value = O;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<O, D::Error> {
        let mut object = None;
        Any(OptionalObject { into: &mut object, trace: self.0 }).deserialize(deserializer)?;
        Ok(object.unwrap_or_default())
    }
}

pub(super) struct OptionalObject<'a, O> {
    pub(super) into: &'a mut Option<O>,
    pub(super) trace: &'a Trace,
}

impl<'de, O: Object> Visitor<'de> for OptionalObject<'_, O> {
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
        while let Some((name, line)) = self.trace.next_name(&mut map)? {
            object.member(&name, Member { map: &mut map, trace: self.trace, line })?;
        }
        Ok(())
    }
}

pub(super) struct Objects<'a, O> {
    pub(super) into: &'a mut Option<Vec<O>>,
    pub(super) trace: &'a Trace,
}

impl<'de, O: Object> Visitor<'de> for Objects<'_, O> {
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
        while let Some(object) = list.next_element_seed(Root::new(self.trace))? {
            objects.push(object);
            // Reading the element's members has left another field's name, or none.
            self.trace.field.set(this_field);
        }
        Ok(())
    }
}

/// A mapping whose values are all of one simple type.
pub(super) struct Strings<'a, V>(pub(super) &'a mut BTreeMap<String, V>);

impl<'de, V: serde::Deserialize<'de>> Visitor<'de> for Strings<'_, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((Key(name), value)) = map.next_entry::<Key, V>()? {
            self.0.insert(name, value);
        }
        Ok(())
    }
}

/// A list of strings.
pub(super) struct Texts<'a>(pub(super) &'a mut Vec<Secret>);

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(Text(text)) = list.next_element()? {
            self.0.push(text);
        }
        Ok(())
    }
}

/// A list of strings in a mapping.
pub(super) struct TextList(pub(super) Vec<Secret>);

impl<'de> serde::Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut texts = Vec::new();
        deserializer.deserialize_any(Texts(&mut texts))?;
        Ok(Self(texts))
    }
}

/// A string that is nothing else in YAML either; `null` is an empty one.
pub(super) struct Text(pub(super) Secret);

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = Secret::default();
        let take = |found: Found<'_>| found.text().map(Secret::new);
        deserializer.deserialize_any(Scalar { into: &mut text, null_clears: true, take })?;
        Ok(Self(text))
    }
}

/// A member's name. YAML allows others than strings; written as text those are nobody's members.
struct Key(String);

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

/// A scalar that is not `null`.
pub(super) enum Found<'a> {
    Text(Cow<'a, str>),
    Boolean(bool),
    Integer(i64),
    /// A fraction, or a number beyond 64 bits: nothing of ours is one.
    OtherNumber,
}

impl Found<'_> {
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

/// A scalar that `take` accepts, or refuses by `None`.
pub(super) struct Scalar<'a, T, F> {
    pub(super) into: &'a mut T,
    pub(super) null_clears: bool,
    pub(super) take: F,
}

impl<T, F: FnOnce(Found<'_>) -> Option<T>> Scalar<'_, T, F> {
    fn take<E: serde::de::Error>(self, found: Found<'_>) -> Result<(), E> {
        // The text is never shown: `Trace` knows what belongs here.
        *self.into = (self.take)(found).ok_or_else(|| E::custom("another type"))?;
        Ok(())
    }
}

impl<T: Default, F: FnOnce(Found<'_>) -> Option<T>> Visitor<'_> for Scalar<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.take(Found::Text(text.into()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<(), E> {
        self.take(Found::Text(text.into()))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.take(Found::Boolean(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.take(Found::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.take(i64::try_from(value).map_or(Found::OtherNumber, Found::Integer))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.take(Found::OtherNumber)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        if self.null_clears {
            *self.into = T::default();
        }
        Ok(())
    }
}
