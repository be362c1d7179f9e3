//! Reading one member as kubectl does: what is written last stands alone, and `null` is as good as nothing.

use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::{AuthInfo, Cluster, Context, Data, Located, Named, NamedExtension};
use crate::Secret;
use crate::exec::Extension;
use crate::wire::document::{Member, Object};

pub(super) fn text<'de, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
    into: &mut Located<String>,
) -> Result<(), A::Error> {
    *into = Located { value: String::new(), line: member.line() };
    member.string(path, &mut into.value)
}

pub(super) fn secret<'de, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
    into: &mut Located<Secret>,
) -> Result<(), A::Error> {
    *into = Located { value: Secret::default(), line: member.line() };
    member.secret(path, &mut into.value)
}

pub(super) fn flag<'de, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
    into: &mut Located<bool>,
) -> Result<(), A::Error> {
    *into = Located { value: false, line: member.line() };
    member.boolean(path, &mut into.value)
}

pub(super) fn data<'de, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
    into: &mut Located<Data>,
) -> Result<(), A::Error> {
    let line = member.line();
    let mut bytes = Zeroizing::default();
    member.base64(path, &mut bytes)?;
    *into = Located { value: Data::new(bytes), line };
    Ok(())
}

pub(super) fn texts<'de, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
) -> Result<Located<Vec<Secret>>, A::Error> {
    let mut texts = Located { value: Vec::new(), line: member.line() };
    member.texts(path, &mut texts.value)?;
    Ok(texts)
}

pub(super) fn object<'de, O: Object, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
) -> Result<Option<Located<O>>, A::Error> {
    let line = member.line();
    let mut found = None;
    member.object(path, &mut found)?;
    Ok(found.map(|value| Located { value, line }))
}

pub(super) fn entries<'de, T: Default, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
    into: &mut Vec<Named<T>>,
) -> Result<(), A::Error>
where
    Named<T>: Object,
{
    let mut found = None;
    member.objects(path, &mut found)?;
    *into = found.unwrap_or_default();
    Ok(())
}

/// What a name in one of the three great lists stands for.
trait Section: Object {
    /// The member beside `name` that holds it.
    const MEMBER: &'static str;
    /// The paths of both.
    const PATHS: [&'static str; 2];
}

impl Section for Cluster {
    const MEMBER: &'static str = "cluster";
    const PATHS: [&'static str; 2] = ["clusters[].name", "clusters[].cluster"];
}

impl Section for AuthInfo {
    const MEMBER: &'static str = "user";
    const PATHS: [&'static str; 2] = ["users[].name", "users[].user"];
}

impl Section for Context {
    const MEMBER: &'static str = "context";
    const PATHS: [&'static str; 2] = ["contexts[].name", "contexts[].context"];
}

impl<T: Section> Object for Named<T> {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        begin(&mut self.line, value.line());
        match name {
            "name" => own_name(value, T::PATHS[0], &mut self.name),
            member if member == T::MEMBER => {
                let found = object::<T, A>(value, T::PATHS[1])?;
                self.item = found.map(|found| found.value).unwrap_or_default();
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

impl Object for NamedExtension {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        begin(&mut self.line, value.line());
        match name {
            "name" => own_name(value, "extensions[].name", &mut self.name),
            "extension" => {
                let mut found = None;
                value.any("extensions[].extension", &mut found)?;
                self.item = found.as_ref().map(Extension::from_value);
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

/// An entry begins where its first member stands.
fn begin(entry: &mut usize, member: usize) {
    if *entry == 0 {
        *entry = member;
    }
}

fn own_name<'de, A: MapAccess<'de>>(
    member: Member<'_, A>,
    path: &'static str,
    into: &mut String,
) -> Result<(), A::Error> {
    into.clear();
    member.string(path, into)
}
