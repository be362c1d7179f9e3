//! One reader for every document that comes from outside: JSON or YAML, by position, never by content.
//!
//! A parser's own error text quotes what it rejects, and what it rejects may be a token. So no such text survives
//! here: a [`Fault`] knows the kind of mistake, the field by its name in the specification, and the position.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use zeroize::Zeroizing;

use crate::Secret;
use crate::exec::Extension;

/// Go insists on padding and does not mind stray bits in the last character.
const GO_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// Where in a document something is, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing but white space.
    #[error("is empty")]
    Empty,
    /// Bytes that are not UTF-8.
    #[error("is not UTF-8 text (byte {byte})")]
    NotText {
        /// How many bytes before the first bad one.
        byte: usize,
    },
    /// Neither JSON nor YAML.
    #[error("is neither JSON nor YAML ({at})")]
    Syntax {
        /// Where the parser gave up.
        at: Position,
    },
    /// A complete JSON object, and then something else.
    #[error("has something after the JSON object ({at})")]
    Trailing {
        /// Where that begins.
        at: Position,
    },
    /// A list, a string or a number where an object belongs.
    #[error("is not an object ({at})")]
    NotAnObject {
        /// Where it begins.
        at: Position,
    },
    /// A field holds a value of another type.
    #[error("has a `{field}` that is not {expected} ({at})")]
    Type {
        /// The field's path.
        field: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// Where the value is.
        at: Position,
    },
    /// A key stands twice in one mapping of a document in which that is a mistake.
    #[error("has the same key twice ({at})")]
    DuplicateKey {
        /// Where the second one is.
        at: Position,
    },
    /// Larger or deeper than any honest document, such as aliases that multiply.
    #[error("is larger or deeper than any honest document")]
    TooComplex,
}

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
    map: &'a mut A,
    trace: &'a Trace,
    line: usize,
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

    /// A mapping from strings to secret strings, each of them only from a string.
    pub(crate) fn text_map(self, path: &'static str, into: &mut BTreeMap<String, Secret>) -> Result<(), A::Error> {
        let mut texts = BTreeMap::<String, Text>::new();
        self.read(path, "a mapping of strings to strings", Strings(&mut texts))?;
        into.extend(texts.into_iter().map(|(name, text)| (name, text.0)));
        Ok(())
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

    /// A mapping from strings to lists of strings.
    pub(crate) fn string_lists(
        self,
        path: &'static str,
        into: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<(), A::Error> {
        self.read(path, "a mapping of strings to lists of strings", Strings(into))
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
fn is_json(text: &str) -> bool {
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
    serde_saphyr::with_deserializer_from_str_with_options(text, large_yaml_options(text.len()), |yaml| {
        Root::<O>::new(&trace).deserialize(yaml)
    })
    .map_err(|error| yaml_fault(&error, &trace))
}

fn read_json<O: Object>(text: &str) -> Result<O, Fault> {
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
    serde_saphyr::with_deserializer_from_str_with_options(first_document(text), yaml_options(duplicates), |yaml| {
        Root::<O>::new(&trace).deserialize(yaml)
    })
    .map_err(|error| yaml_fault(&error, &trace))
}

/// The first YAML document of a stream. A `---` or `...` at the start of a line can be nothing but a marker.
pub(crate) fn first_document(text: &str) -> &str {
    let mut begun = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let marker = line.trim_end();
        let ends = marker == "..." || marker == "---" || marker.starts_with("--- ");
        if ends && begun {
            return &text[..start];
        }
        begun |= !(marker.is_empty() || marker.starts_with('#') || marker.starts_with('%') || marker == "---");
        start += line.len();
    }
    text
}

fn yaml_options(duplicates: Duplicates) -> serde_saphyr::Options {
    serde_saphyr::options! {
        // A credential has a dozen nodes and two anchors at the very most; this is room for an odd `config`.
        budget: serde_saphyr::budget! {
            max_nodes: 20_000,
            max_events: 60_000,
            max_aliases: 200,
            max_anchors: 200,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: 4 << 20,
            max_merge_keys: 200,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 20_000,
        },
        duplicate_keys: match duplicates {
            Duplicates::LastWins => DuplicateKeyPolicy::LastWins,
            Duplicates::Refuse => DuplicateKeyPolicy::Error,
        },
        merge_keys: MergeKeyPolicy::Merge,
        // Go's YAML is version 1.1: `010` is a number and `yes` a boolean, hence neither is a string.
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn large_yaml_options(bytes: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        // Without aliases no text has more nodes than bytes, or more than three events to a byte (`[[[`): only what
        // aliases add to it needs a limit. 20,000 users that each merge one anchor stay far below this one.
        budget: serde_saphyr::budget! {
            max_nodes: bytes.saturating_add(500_000),
            max_events: bytes.saturating_mul(3).saturating_add(1_000_000),
            max_aliases: 100_000,
            max_anchors: 100_000,
            max_recorded_anchor_events: 1_000_000,
            max_recorded_anchor_bytes: 64 << 20,
            max_merge_keys: 100_000,
            max_total_scalar_bytes: bytes.saturating_mul(2).saturating_add(64 << 20),
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 500_000,
            max_alias_expansions_per_anchor: 100_000,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: MergeKeyPolicy::Merge,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn yaml_fault(error: &serde_saphyr::Error, trace: &Trace) -> Fault {
    use serde_saphyr::Error as Yaml;

    let at = error.location().map_or(Position { line: 1, column: 1 }, position);
    match error {
        // A mistake in what an alias stands for is that mistake.
        Yaml::AliasError { error, .. } => yaml_fault(error, trace),
        Yaml::Budget { .. }
        | Yaml::AliasReplayCounterOverflow { .. }
        | Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. } => Fault::TooComplex,
        Yaml::DuplicateMappingKey { .. } => Fault::DuplicateKey { at },
        Yaml::Message { .. } | Yaml::SerdeInvalidType { .. } | Yaml::SerdeInvalidValue { .. } => trace.type_fault(at),
        // A scalar that its tag or its size contradicts: still one field's value and not the document's form.
        Yaml::InvalidScalar { .. } | Yaml::NonFiniteFloat { .. } if trace.field.get().is_some() => trace.type_fault(at),
        _ => Fault::Syntax { at },
    }
}

fn position(at: serde_saphyr::Location) -> Position {
    Position {
        line: usize::try_from(at.line()).unwrap_or(usize::MAX),
        column: usize::try_from(at.column()).unwrap_or(usize::MAX),
    }
}

/// The field being read, so that an error can name it. After a success nothing is left in here.
#[derive(Default)]
struct Trace {
    field: Cell<Option<(&'static str, &'static str)>>,
    lines: bool,
    last_name: Cell<Option<Position>>,
    /// In YAML the last of equal keys stands alone. In JSON, as Go reads it, `null` changes no string, and an object
    /// adds to an earlier one.
    replaces: bool,
}

impl Trace {
    fn enter(&self, path: &'static str, expected: &'static str) {
        self.field.set(Some((path, expected)));
    }

    fn leave(&self) {
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

    fn type_fault(&self, at: Position) -> Fault {
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
struct Any<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Any<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}

/// The document itself, or an element of a list: an object, or `null`, which is an object without members.
struct Root<'a, O>(&'a Trace, PhantomData<O>);

impl<'a, O> Root<'a, O> {
    fn new(trace: &'a Trace) -> Self {
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

struct OptionalObject<'a, O> {
    into: &'a mut Option<O>,
    trace: &'a Trace,
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

struct Objects<'a, O> {
    into: &'a mut Option<Vec<O>>,
    trace: &'a Trace,
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
struct Strings<'a, V>(&'a mut BTreeMap<String, V>);

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
struct Texts<'a>(&'a mut Vec<Secret>);

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
struct TextList(Vec<Secret>);

impl<'de> serde::Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut texts = Vec::new();
        deserializer.deserialize_any(Texts(&mut texts))?;
        Ok(Self(texts))
    }
}

/// A string that is nothing else in YAML either; `null` is an empty one.
struct Text(Secret);

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
enum Found<'a> {
    Text(Cow<'a, str>),
    Boolean(bool),
    Integer(i64),
    /// A fraction, or a number beyond 64 bits: nothing of ours is one.
    OtherNumber,
}

impl Found<'_> {
    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.into_owned()),
            _ => None,
        }
    }

    fn boolean(self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(value),
            _ => None,
        }
    }

    fn integer(self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(value),
            _ => None,
        }
    }
}

/// A scalar that `take` accepts, or refuses by `None`.
struct Scalar<'a, T, F> {
    into: &'a mut T,
    null_clears: bool,
    take: F,
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
