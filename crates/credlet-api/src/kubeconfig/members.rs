//! Decoding of single members as in kubectl: the last of equal keys replaces the others, and `null` counts as absent.

use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::{AuthInfo, ClusterSection, ContextSection, Located, NamedEntry, NamedExtension, SecretBytes};
use crate::Secret;
use crate::exec::RawExtension;
use crate::wire::document::{DecodeObject, MemberValue};

pub(super) fn text<'de, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
    into: &mut Located<String>,
) -> Result<(), A::Error> {
    *into = Located { value: String::new(), line: member.line() };
    member.string(path, &mut into.value)
}

pub(super) fn secret<'de, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
    into: &mut Located<Secret>,
) -> Result<(), A::Error> {
    *into = Located { value: Secret::default(), line: member.line() };
    member.secret(path, &mut into.value)
}

pub(super) fn flag<'de, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
    into: &mut Located<bool>,
) -> Result<(), A::Error> {
    *into = Located { value: false, line: member.line() };
    member.boolean(path, &mut into.value)
}

pub(super) fn data<'de, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
    into: &mut Located<SecretBytes>,
) -> Result<(), A::Error> {
    let line = member.line();
    let mut bytes = Zeroizing::default();
    member.base64(path, &mut bytes)?;
    *into = Located { value: SecretBytes::new(bytes), line };
    Ok(())
}

pub(super) fn texts<'de, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
) -> Result<Located<Vec<Secret>>, A::Error> {
    let mut texts = Located { value: Vec::new(), line: member.line() };
    member.string_list(path, &mut texts.value)?;
    Ok(texts)
}

pub(super) fn object<'de, O: DecodeObject, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
) -> Result<Option<Located<O>>, A::Error> {
    let line = member.line();
    let mut found = None;
    member.object(path, &mut found)?;
    Ok(found.map(|value| Located { value, line }))
}

pub(super) fn entries<'de, T: Default, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
    into: &mut Vec<NamedEntry<T>>,
) -> Result<(), A::Error>
where
    NamedEntry<T>: DecodeObject,
{
    let mut found = None;
    member.objects(path, &mut found)?;
    *into = found.unwrap_or_default();
    Ok(())
}

/// An object in one of the lists `clusters`, `users` and `contexts`.
trait NamedSection: DecodeObject {
    /// Name of the member, next to `name`, that contains the object.
    const MEMBER: &'static str;
    /// Paths of `name` and of the object.
    const PATHS: [&'static str; 2];
}

impl NamedSection for ClusterSection {
    const MEMBER: &'static str = "cluster";
    const PATHS: [&'static str; 2] = ["clusters[].name", "clusters[].cluster"];
}

impl NamedSection for AuthInfo {
    const MEMBER: &'static str = "user";
    const PATHS: [&'static str; 2] = ["users[].name", "users[].user"];
}

impl NamedSection for ContextSection {
    const MEMBER: &'static str = "context";
    const PATHS: [&'static str; 2] = ["contexts[].name", "contexts[].context"];
}

impl<T: NamedSection> DecodeObject for NamedEntry<T> {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        set_first_line(&mut self.line, value.line());
        match name {
            "name" => entry_name(value, T::PATHS[0], &mut self.name),
            member if member == T::MEMBER => {
                let found = object::<T, A>(value, T::PATHS[1])?;
                self.item = found.map(|found| found.value).unwrap_or_default();
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

impl DecodeObject for NamedExtension {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        set_first_line(&mut self.line, value.line());
        match name {
            "name" => entry_name(value, "extensions[].name", &mut self.name),
            "extension" => {
                let mut found = None;
                value.any("extensions[].extension", &mut found)?;
                self.item = found.as_ref().map(RawExtension::from_value);
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

/// Sets the first line of an entry to the line of its first member.
fn set_first_line(entry: &mut usize, member: usize) {
    if *entry == 0 {
        *entry = member;
    }
}

fn entry_name<'de, A: MapAccess<'de>>(
    member: MemberValue<'_, A>,
    path: &'static str,
    into: &mut String,
) -> Result<(), A::Error> {
    into.clear();
    member.string(path, into)
}
