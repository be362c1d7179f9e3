//! The plugin policy in a user's `kuberc` file, read so that a mistake closes the door instead of opening it.

use serde::de::MapAccess;

use crate::wire::document::{self, Duplicates, Member, Object};
use crate::wire::fault::Fault;
use crate::wire::yaml;

/// The `Preference` of `kubectl.config.k8s.io`, as far as it concerns credential plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// `credentialPluginPolicy`. Empty: not set.
    pub credential_plugin_policy: String,
    /// The commands of `credentialPluginAllowlist`, if that is there at all.
    pub credential_plugin_allowlist: Option<Vec<String>>,
    /// Fields that no version has and that have nothing to do with plugins: worth a warning.
    pub unknown_fields: Vec<String>,
}

impl Preference {
    /// Reads a kuberc file. Of several documents the first `Preference` in a known version stands, as with kubectl: so
    /// a file can serve newer and older programs.
    ///
    /// Where kubectl warns and goes on without any policy, this is an error: a file that cannot be read, a key that
    /// stands twice, a policy in a version that has none, and an unknown field that looks like a misspelt policy.
    ///
    /// # Errors
    /// The file's owner must act.
    pub fn decode(text: &[u8]) -> Result<Self, KubercError> {
        let text = std::str::from_utf8(text)
            .map_err(|error| KubercError::Unreadable(Fault::NotText { byte: error.valid_up_to() }))?;
        let mut rest = text;
        let mut passed_over = None;
        while !rest.is_empty() {
            let document = yaml::first_document(rest);
            rest = rest[document.len()..].strip_prefix("...").unwrap_or(&rest[document.len()..]);
            match Self::decode_document(document) {
                Err(KubercError::Unreadable(Fault::Empty)) => {}
                Err(error @ (KubercError::Kind | KubercError::Version)) => passed_over = passed_over.or(Some(error)),
                decoded => return decoded,
            }
        }
        // A file without a document, or with comments only, is a file without preferences.
        passed_over.map_or_else(|| Ok(Self::default()), Err)
    }

    fn decode_document(text: &str) -> Result<Self, KubercError> {
        let document: WirePreference =
            document::read(text.as_bytes(), Duplicates::Refuse).map_err(KubercError::Unreadable)?;
        if document == WirePreference::default() {
            return Err(KubercError::Unreadable(Fault::Empty));
        }
        if document.kind != "Preference" {
            return Err(KubercError::Kind);
        }
        if let Some(field) = document.unknown.iter().find(|name| looks_like_policy(name)) {
            return Err(KubercError::Misspelt { field: crate::visible(field) });
        }
        let has_policy = !document.policy.is_empty() || document.allowlist.is_some();
        match &*document.api_version {
            "kubectl.config.k8s.io/v1beta1" => {}
            "kubectl.config.k8s.io/v1alpha1" if !has_policy => {}
            "kubectl.config.k8s.io/v1alpha1" => return Err(KubercError::NoPolicyInV1alpha1),
            _ => return Err(KubercError::Version),
        }
        let commands = document.allowlist.map(|entries| {
            entries.into_iter().enumerate().map(|(index, entry)| entry.command(index)).collect::<Result<_, _>>()
        });
        Ok(Self {
            credential_plugin_policy: document.policy,
            credential_plugin_allowlist: commands.transpose()?,
            unknown_fields: document.unknown,
        })
    }
}

/// Every honest misspelling of `credentialPluginPolicy` or `credentialPluginAllowlist` keeps one of these words.
fn looks_like_policy(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    ["credential", "plugin", "policy", "allow", "deny"].iter().any(|word| field.contains(word))
}

/// Why a kuberc file gives no policy. Nothing may be run until its owner has acted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubercError {
    /// Not a readable document.
    #[error("the file {0}")]
    Unreadable(Fault),
    /// Another object.
    #[error("the file holds no Preference")]
    Kind,
    /// Another version.
    #[error("the Preference is in neither kubectl.config.k8s.io/v1beta1 nor …/v1alpha1")]
    Version,
    /// A policy that kubectl would ignore.
    #[error("kubectl.config.k8s.io/v1alpha1 knows no plugin policy: write the Preference in …/v1beta1")]
    NoPolicyInV1alpha1,
    /// A field that would have been ignored.
    #[error("`{field}` is no field of a Preference: credentialPluginPolicy and credentialPluginAllowlist are")]
    Misspelt {
        /// The field.
        field: String,
    },
    /// The new name and the old one disagree.
    #[error("`credentialPluginAllowlist[{index}]` has a `command` and another `name`: keep `command`")]
    CommandAndName {
        /// Which entry, from 0.
        index: usize,
    },
}

#[derive(Default, PartialEq)]
struct WirePreference {
    kind: String,
    api_version: String,
    policy: String,
    allowlist: Option<Vec<WireEntry>>,
    unknown: Vec<String>,
}

impl Object for WirePreference {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "kind" => value.string("kind", &mut self.kind),
            "apiVersion" => value.string("apiVersion", &mut self.api_version),
            "credentialPluginPolicy" => value.string("credentialPluginPolicy", &mut self.policy),
            "credentialPluginAllowlist" => value.objects("credentialPluginAllowlist", &mut self.allowlist),
            "defaults" | "aliases" => value.skip(),
            _ => {
                self.unknown.push(name.to_owned());
                value.skip()
            }
        }
    }
}

#[derive(Default, PartialEq)]
struct WireEntry {
    command: String,
    name: String,
}

impl WireEntry {
    /// `name` is the old word for `command`.
    fn command(self, index: usize) -> Result<String, KubercError> {
        match (self.command.is_empty(), self.name.is_empty()) {
            (false, false) if self.command != self.name => Err(KubercError::CommandAndName { index }),
            (true, _) => Ok(self.name),
            (false, _) => Ok(self.command),
        }
    }
}

impl Object for WireEntry {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "command" => value.string("credentialPluginAllowlist.command", &mut self.command),
            "name" => value.string("credentialPluginAllowlist.name", &mut self.name),
            _ => value.skip(),
        }
    }
}
