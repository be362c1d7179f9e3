//! Decoding of single members as in kubectl: the last of equal keys replaces the others, and `null` counts as absent.

use std::collections::BTreeMap;

use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::{AuthInfo, ClusterSection, ContextSection, Located, NamedEntry, NamedExtension, SecretBytes};
use crate::Secret;
use crate::exec::RawExtension;
use crate::wire::document::{DecodeObject, MemberValue};

impl<'de, A: MapAccess<'de>> MemberValue<'_, A> {
    pub(super) fn located_string(self, path: &'static str, into: &mut Located<String>) -> Result<(), A::Error> {
        *into = Located { value: String::new(), line: self.line() };
        self.string(path, &mut into.value)
    }

    pub(super) fn located_secret(self, path: &'static str, into: &mut Located<Secret>) -> Result<(), A::Error> {
        *into = Located { value: Secret::default(), line: self.line() };
        self.secret(path, &mut into.value)
    }

    pub(super) fn located_flag(self, path: &'static str, into: &mut Located<bool>) -> Result<(), A::Error> {
        *into = Located { value: false, line: self.line() };
        self.boolean(path, &mut into.value)
    }

    pub(super) fn located_data(self, path: &'static str, into: &mut Located<SecretBytes>) -> Result<(), A::Error> {
        let line = self.line();
        let mut bytes = Zeroizing::default();
        self.base64(path, &mut bytes)?;
        *into = Located { value: SecretBytes::new(bytes), line };
        Ok(())
    }

    pub(super) fn located_strings(self, path: &'static str, into: &mut Located<Vec<Secret>>) -> Result<(), A::Error> {
        *into = Located { value: Vec::new(), line: self.line() };
        self.string_list(path, &mut into.value)
    }

    pub(super) fn located_groups(self, path: &'static str, into: &mut Located<Vec<String>>) -> Result<(), A::Error> {
        let mut groups = Located::default();
        self.located_strings(path, &mut groups)?;
        let value = groups.value.iter().map(|group: &Secret| group.expose().to_owned()).collect();
        *into = Located { value, line: groups.line };
        Ok(())
    }

    pub(super) fn located_lists(
        self,
        path: &'static str,
        into: &mut Located<BTreeMap<String, Vec<String>>>,
    ) -> Result<(), A::Error> {
        *into = Located { value: BTreeMap::new(), line: self.line() };
        self.string_lists(path, &mut into.value)
    }

    pub(super) fn located_object<O: DecodeObject>(
        self,
        path: &'static str,
        into: &mut Option<Located<O>>,
    ) -> Result<(), A::Error> {
        let line = self.line();
        let mut found = None;
        self.object(path, &mut found)?;
        *into = found.map(|value| Located { value, line });
        Ok(())
    }

    /// Decodes an object that is empty if it is absent.
    pub(super) fn section<O: DecodeObject>(self, path: &'static str, into: &mut O) -> Result<(), A::Error> {
        let mut found = None;
        self.object(path, &mut found)?;
        *into = found.unwrap_or_default();
        Ok(())
    }
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
            "name" => value.string(T::PATHS[0], &mut self.name),
            member if member == T::MEMBER => value.section(T::PATHS[1], &mut self.item),
            _ => value.skip(),
        }
    }
}

impl DecodeObject for NamedExtension {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        set_first_line(&mut self.line, value.line());
        match name {
            "name" => value.string("extensions[].name", &mut self.name),
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
