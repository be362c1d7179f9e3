//! The plugin policy in a user's `kuberc` file. The decoder fails closed: an invalid file is an error, never "no
//! policy".

use serde::de::MapAccess;

use crate::wire::document::{self, DecodeObject, DuplicateKeys, MemberValue, decode_object};
use crate::wire::error::DocumentError;
use crate::wire::yaml;

/// The fields of a `Preference` of `kubectl.config.k8s.io` that restrict credential plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubercPreference {
    /// `credentialPluginPolicy`. Empty: not set.
    pub credential_plugin_policy: String,
    /// Commands of `credentialPluginAllowlist`, if the field is present.
    pub credential_plugin_allowlist: Option<Vec<String>>,
    /// Unknown fields without relation to plugins, for a warning.
    pub unknown_fields: Vec<String>,
}

impl KubercPreference {
    /// Decodes a kuberc file. The first `Preference` of a known version is used, as in kubectl, so that one file can
    /// serve newer and older programs.
    ///
    /// # Errors
    /// Where kubectl logs a warning and applies no policy: a document that cannot be parsed, a duplicate key, a policy
    /// in a version without policies, and an unknown field that looks like a misspelt policy.
    pub fn decode(text: &[u8]) -> Result<Self, KubercError> {
        let text = std::str::from_utf8(text)
            .map_err(|error| KubercError::InvalidDocument(DocumentError::NotUtf8 { byte: error.valid_up_to() }))?;
        let mut rest = text;
        let mut skipped = None;
        while !rest.is_empty() {
            let document = yaml::first_document(rest);
            rest = rest[document.len()..].strip_prefix("...").unwrap_or(&rest[document.len()..]);
            match Self::decode_document(document) {
                Err(KubercError::InvalidDocument(DocumentError::Empty)) => {}
                Err(error @ (KubercError::MissingPreference | KubercError::UnsupportedVersion)) => {
                    skipped = skipped.or(Some(error))
                }
                decoded => return decoded,
            }
        }
        // A file without documents, or with comments only, has no preferences.
        skipped.map_or_else(|| Ok(Self::default()), Err)
    }

    fn decode_document(text: &str) -> Result<Self, KubercError> {
        let document: PreferenceDocument =
            document::read(text.as_bytes(), DuplicateKeys::Reject).map_err(KubercError::InvalidDocument)?;
        if document == PreferenceDocument::default() {
            return Err(KubercError::InvalidDocument(DocumentError::Empty));
        }
        if document.kind != "Preference" {
            return Err(KubercError::MissingPreference);
        }
        if let Some(field) = document.unknown.iter().find(|name| looks_like_policy(name)) {
            return Err(KubercError::UnknownField { field: crate::escape_control_chars(field) });
        }
        let has_policy = !document.policy.is_empty() || document.allowlist.is_some();
        match &*document.api_version {
            "kubectl.config.k8s.io/v1beta1" => {}
            "kubectl.config.k8s.io/v1alpha1" if !has_policy => {}
            "kubectl.config.k8s.io/v1alpha1" => return Err(KubercError::PolicyInV1alpha1),
            _ => return Err(KubercError::UnsupportedVersion),
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

/// Whether an unknown field may be a misspelling of `credentialPluginPolicy` or `credentialPluginAllowlist`.
fn looks_like_policy(field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    ["credential", "plugin", "policy", "allow", "deny"].iter().any(|word| field.contains(word))
}

/// Error in a kuberc file. No plugin may be run until it is fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubercError {
    /// The file is not a valid document.
    #[error(transparent)]
    InvalidDocument(DocumentError),
    /// The file has no `Preference`.
    #[error("missing object of kind Preference")]
    MissingPreference,
    /// The version is unknown.
    #[error("unsupported apiVersion of the Preference: must be kubectl.config.k8s.io/v1beta1 or …/v1alpha1")]
    UnsupportedVersion,
    /// The version has no plugin policy; kubectl would ignore it.
    #[error("plugin policy not supported by kubectl.config.k8s.io/v1alpha1: use …/v1beta1")]
    PolicyInV1alpha1,
    /// An unknown field looks like a misspelt policy.
    #[error("unknown field `{field}`: expected credentialPluginPolicy or credentialPluginAllowlist")]
    UnknownField {
        /// Name of the field.
        field: String,
    },
    /// `command` and its deprecated alias `name` differ.
    #[error("conflicting `command` and `name` in `credentialPluginAllowlist[{index}]`: keep `command`")]
    ConflictingNames {
        /// Index of the entry, from 0.
        index: usize,
    },
}

#[derive(Default, PartialEq)]
struct PreferenceDocument {
    kind: String,
    api_version: String,
    policy: String,
    allowlist: Option<Vec<AllowlistEntry>>,
    unknown: Vec<String>,
}

impl DecodeObject for PreferenceDocument {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
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
struct AllowlistEntry {
    command: String,
    name: String,
}

impl AllowlistEntry {
    /// Returns `command`, or its deprecated alias `name`.
    fn command(self, index: usize) -> Result<String, KubercError> {
        match (self.command.is_empty(), self.name.is_empty()) {
            (false, false) if self.command != self.name => Err(KubercError::ConflictingNames { index }),
            (true, _) => Ok(self.name),
            (false, _) => Ok(self.command),
        }
    }
}

decode_object! { AllowlistEntry, "credentialPluginAllowlist.",
    "command" => string(command),
    "name" => string(name),
}
