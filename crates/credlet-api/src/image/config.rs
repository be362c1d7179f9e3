//! The kubelet's `CredentialProviderConfig`: the providers and the images that each one is for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use jiff::SignedDuration;

use crate::Secret;
use crate::kubeconfig::Located;
use crate::wire::duration::{self, ParseDurationError};
use crate::wire::error::DocumentError;
use crate::wire::tree::{self, MemberName, YamlNode, YamlValue};

/// Value of `kind`.
pub const CONFIG_KIND: &str = "CredentialProviderConfig";

const GROUP: &str = "kubelet.config.k8s.io/";

/// The providers of one configuration file. Only the types of the fields are checked.
#[derive(Clone, Debug, Default)]
pub struct CredentialProviderConfig {
    /// Providers in the order of the file.
    pub providers: Vec<CredentialProvider>,
    /// Whether anything follows the first YAML document. Kubernetes silently ignores it.
    pub has_more_documents: bool,
}

/// A provider in a [`CredentialProviderConfig`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CredentialProvider {
    /// First line of the provider.
    pub line: usize,
    /// Name of the provider and of its binary.
    pub name: Located<String>,
    /// Patterns of the images that the provider is for.
    pub match_images: Vec<Located<String>>,
    /// Cache lifetime of responses without a `cacheDuration`.
    pub default_cache_duration: Option<Located<SignedDuration>>,
    /// Version of requests and responses.
    pub api_version: Located<String>,
    /// Arguments, which may contain secrets.
    pub args: Vec<Secret>,
    /// Environment variables in addition to the inherited ones.
    pub env: Vec<ProviderEnvVar>,
    /// Set if the provider receives the pod's service account.
    pub token_attributes: Option<ServiceAccountTokenAttributes>,
}

/// An environment variable of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderEnvVar {
    /// Name of the variable.
    pub name: String,
    /// Value, often a secret.
    pub value: Secret,
    /// Line of the variable.
    pub line: usize,
}

/// The attributes of the pod's service account that a provider receives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceAccountTokenAttributes {
    /// First line of the section.
    pub line: usize,
    /// Audience of the token.
    pub service_account_token_audience: Located<String>,
    /// `ServiceAccount` or `Token`: the cache key of responses.
    pub cache_type: Located<String>,
    /// Whether the provider is skipped for pods without a service account.
    pub require_service_account: Option<Located<bool>>,
    /// Annotations that are passed to the provider; it is skipped if one is missing.
    pub required_service_account_annotation_keys: Vec<Located<String>>,
    /// Annotations that are passed to the provider if present.
    pub optional_service_account_annotation_keys: Vec<Located<String>>,
}

impl CredentialProviderConfig {
    /// Decodes a file in JSON or YAML of any version. Returns all errors in its form.
    pub fn decode(text: &[u8]) -> (Self, Vec<ProviderConfigError>) {
        let mut decoder = ConfigDecoder::default();
        let providers = match tree::read(text) {
            Ok(node) => decoder.file(node),
            Err(DocumentError::Empty) => {
                decoder.report(0, ProviderConfigErrorKind::MissingKind);
                Vec::new()
            }
            Err(error) => {
                let line = error.position().map_or(0, |at| at.line);
                decoder.report(line, ProviderConfigErrorKind::InvalidDocument(error));
                Vec::new()
            }
        };
        (Self { providers, has_more_documents: tree::has_more_documents(text) }, decoder.errors)
    }
}

/// Error in the form of a [`CredentialProviderConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfigError {
    /// Line, counted from 1; 0 if it is unknown.
    pub line: usize,
    /// The provider that has the error.
    pub provider: Option<ProviderRef>,
    /// Kind of the error.
    pub kind: ProviderConfigErrorKind,
}

/// A provider in an error message: `providers[2] (ecr-credential-provider)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRef {
    /// Index in the file, from 0.
    pub index: usize,
    /// Name; may be empty.
    pub name: String,
}

impl fmt::Display for ProviderRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "providers[{}]", self.index)?;
        match &*self.name {
            "" => Ok(()),
            name => write!(f, " ({})", display_name(name)),
        }
    }
}

/// Kind of a [`ProviderConfigError`]. It quotes no values but kind and version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderConfigErrorKind {
    /// The file is not a valid document.
    #[error(transparent)]
    InvalidDocument(DocumentError),
    /// `kind` is missing.
    #[error("missing `kind: CredentialProviderConfig`")]
    MissingKind,
    /// `apiVersion` is missing.
    #[error("missing `apiVersion: kubelet.config.k8s.io/v1`")]
    MissingVersion,
    /// The file is another object.
    #[error("unexpected `kind` {0}: must be CredentialProviderConfig")]
    UnexpectedKind(String),
    /// The version is unknown.
    #[error("unsupported `apiVersion` {0}: must be kubelet.config.k8s.io/v1, …/v1beta1 or …/v1alpha1")]
    UnsupportedVersion(String),
    /// The version does not have this field.
    #[error("unknown field `{0}` in this version")]
    UnknownField(String),
    /// A field occurs twice.
    #[error("duplicate field `{0}`")]
    DuplicateField(String),
    /// A value has the wrong type.
    #[error("invalid `{field}`: must be {expected}")]
    InvalidType {
        /// Path of the field.
        field: String,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// A duration cannot be parsed.
    #[error("invalid `{field}`: {reason}")]
    InvalidDuration {
        /// Path of the field.
        field: String,
        /// Error of parsing the duration.
        reason: ParseDurationError,
    },
}

/// Returns a name for an error message: escaped, in one line, truncated to 120 characters.
fn display_name(text: &str) -> String {
    let short: String = text.chars().take(120).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", crate::escape_line(&short))
}

type MemberMap = BTreeMap<String, YamlNode>;

/// Decodes the parsed document and collects the errors.
#[derive(Default)]
struct ConfigDecoder {
    provider: Option<ProviderRef>,
    errors: Vec<ProviderConfigError>,
}

impl ConfigDecoder {
    fn report(&mut self, line: usize, kind: ProviderConfigErrorKind) {
        self.errors.push(ProviderConfigError { line, provider: self.provider.clone(), kind });
    }

    fn file(&mut self, node: YamlNode) -> Vec<CredentialProvider> {
        let mut members = self.members(node, "document", &["kind", "apiVersion", "providers"]);
        let (kind, version) = (self.text(&mut members, "kind"), self.text(&mut members, "apiVersion"));
        match &*kind.value {
            CONFIG_KIND => {}
            "" => self.report(kind.line, ProviderConfigErrorKind::MissingKind),
            other => self.report(kind.line, ProviderConfigErrorKind::UnexpectedKind(display_name(other))),
        }
        let known = version.strip_prefix(GROUP).filter(|version| ["v1alpha1", "v1beta1", "v1"].contains(version));
        match known {
            Some(_) => {}
            None if version.is_empty() => self.report(version.line, ProviderConfigErrorKind::MissingVersion),
            None => self.report(version.line, ProviderConfigErrorKind::UnsupportedVersion(display_name(&version))),
        }
        // Do not report unknown fields of another object.
        if kind.value != CONFIG_KIND || known.is_none() {
            self.errors.retain(|error| !matches!(error.kind, ProviderConfigErrorKind::UnknownField(_)));
            return Vec::new();
        }
        let has_token_attributes = known == Some("v1");
        let providers = self.list(&mut members, "providers", "a list of providers");
        let provider = |(index, node)| self.provider(index, node, has_token_attributes);
        providers.into_iter().enumerate().map(provider).collect()
    }

    fn provider(&mut self, index: usize, node: YamlNode, has_token_attributes: bool) -> CredentialProvider {
        const FIELDS: [&str; 7] =
            ["name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes"];
        let fields = if has_token_attributes { &FIELDS[..] } else { &FIELDS[..6] };
        self.provider = Some(ProviderRef { index, name: provider_name(&node) });
        let line = node.line;
        let mut members = self.members(node, "providers[]", fields);
        let provider = CredentialProvider {
            line,
            name: self.text(&mut members, "name"),
            match_images: self.texts(&mut members, "matchImages"),
            default_cache_duration: self.duration(&mut members, "defaultCacheDuration"),
            api_version: self.text(&mut members, "apiVersion"),
            args: self.secrets(&mut members, "args"),
            env: self.env(&mut members),
            token_attributes: members.remove("tokenAttributes").and_then(|node| self.token_attributes(node)),
        };
        self.provider = None;
        provider
    }

    fn env(&mut self, members: &mut MemberMap) -> Vec<ProviderEnvVar> {
        let variables = self.list(members, "env", "a list of variables");
        let variable = |node: YamlNode| {
            let line = node.line;
            let mut members = self.members(node, "env[]", &["name", "value"]);
            let name = self.text(&mut members, "name").value;
            let value = members.remove("value").map(|node| self.secret(node, "env[].value")).unwrap_or_default();
            ProviderEnvVar { name, value, line }
        };
        variables.into_iter().map(variable).collect()
    }

    fn token_attributes(&mut self, node: YamlNode) -> Option<ServiceAccountTokenAttributes> {
        const FIELDS: [&str; 5] = [
            "serviceAccountTokenAudience",
            "cacheType",
            "requireServiceAccount",
            "requiredServiceAccountAnnotationKeys",
            "optionalServiceAccountAnnotationKeys",
        ];
        if matches!(node.value, YamlValue::Null) {
            return None;
        }
        let line = node.line;
        let mut members = self.members(node, "tokenAttributes", &FIELDS);
        Some(ServiceAccountTokenAttributes {
            line,
            service_account_token_audience: self.text(&mut members, FIELDS[0]),
            cache_type: self.text(&mut members, FIELDS[1]),
            require_service_account: self.flag(&mut members, FIELDS[2]),
            required_service_account_annotation_keys: self.texts(&mut members, FIELDS[3]),
            optional_service_account_annotation_keys: self.texts(&mut members, FIELDS[4]),
        })
    }

    /// Returns the known members of an object by name. `null` has no members.
    fn members(&mut self, node: YamlNode, place: &str, fields: &[&str]) -> MemberMap {
        let mut members = MemberMap::new();
        let list = match node.value {
            YamlValue::Map(list) => list,
            YamlValue::Null => return members,
            _ => {
                self.report(
                    node.line,
                    ProviderConfigErrorKind::InvalidType { field: place.to_owned(), expected: "an object" },
                );
                return members;
            }
        };
        for (MemberName { text, line }, node) in list {
            if !fields.contains(&&*text) {
                self.report(line, ProviderConfigErrorKind::UnknownField(display_name(&text)));
                continue;
            }
            match members.entry(text) {
                Entry::Vacant(place) => {
                    place.insert(node);
                }
                Entry::Occupied(place) => {
                    self.report(line, ProviderConfigErrorKind::DuplicateField(place.key().clone()))
                }
            }
        }
        members
    }

    fn list(&mut self, members: &mut MemberMap, field: &str, expected: &'static str) -> Vec<YamlNode> {
        match members.remove(field) {
            Some(YamlNode { value: YamlValue::List(nodes), .. }) => nodes,
            None | Some(YamlNode { value: YamlValue::Null, .. }) => Vec::new(),
            Some(node) => {
                self.report(node.line, ProviderConfigErrorKind::InvalidType { field: field.to_owned(), expected });
                Vec::new()
            }
        }
    }

    fn secret(&mut self, node: YamlNode, field: &str) -> Secret {
        match node.value {
            YamlValue::Text(text) => text,
            YamlValue::Null => Secret::default(),
            _ => {
                self.report(
                    node.line,
                    ProviderConfigErrorKind::InvalidType { field: field.to_owned(), expected: "a string" },
                );
                Secret::default()
            }
        }
    }

    fn text(&mut self, members: &mut MemberMap, field: &str) -> Located<String> {
        let Some(node) = members.remove(field) else { return Located::default() };
        let line = node.line;
        Located { value: self.secret(node, field).expose().to_owned(), line }
    }

    fn texts(&mut self, members: &mut MemberMap, field: &str) -> Vec<Located<String>> {
        let nodes = self.list(members, field, "a list of strings");
        let item = format!("{field}[]");
        let text = |node: YamlNode| Located { line: node.line, value: self.secret(node, &item).expose().to_owned() };
        nodes.into_iter().map(text).collect()
    }

    fn secrets(&mut self, members: &mut MemberMap, field: &str) -> Vec<Secret> {
        let nodes = self.list(members, field, "a list of strings");
        let item = format!("{field}[]");
        nodes.into_iter().map(|node| self.secret(node, &item)).collect()
    }

    fn flag(&mut self, members: &mut MemberMap, field: &str) -> Option<Located<bool>> {
        let YamlNode { line, value } = members.remove(field)?;
        match value {
            YamlValue::Boolean(value) => Some(Located { value, line }),
            YamlValue::Null => None,
            _ => {
                self.report(
                    line,
                    ProviderConfigErrorKind::InvalidType { field: field.to_owned(), expected: "true or false" },
                );
                None
            }
        }
    }

    fn duration(&mut self, members: &mut MemberMap, field: &str) -> Option<Located<SignedDuration>> {
        let YamlNode { line, value } = members.remove(field)?;
        let kind = match value {
            YamlValue::Null => return None,
            YamlValue::Text(text) => match duration::parse(text.expose()) {
                Ok(value) => return Some(Located { value, line }),
                Err(reason) => ProviderConfigErrorKind::InvalidDuration { field: field.to_owned(), reason },
            },
            _ => ProviderConfigErrorKind::InvalidType {
                field: field.to_owned(),
                expected: "a duration in quotes, such as \"12h\"",
            },
        };
        self.report(line, kind);
        // The field is present: a placeholder prevents a second error about a missing field.
        Some(Located { value: SignedDuration::ZERO, line })
    }
}

/// The name of a provider before it is decoded, for the errors in it.
fn provider_name(node: &YamlNode) -> String {
    let YamlValue::Map(members) = &node.value else { return String::new() };
    let name = members.iter().find(|(name, _)| name.text == "name").map(|(_, node)| &node.value);
    match name {
        Some(YamlValue::Text(name)) => name.expose().to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<String> {
        let (_, errors) = CredentialProviderConfig::decode(text.as_bytes());
        let line = |error: ProviderConfigError| {
            let provider = error.provider.map(|provider| format!("{provider}: ")).unwrap_or_default();
            format!("{}: {provider}{}", error.line, error.kind)
        };
        errors.into_iter().map(line).collect()
    }

    const HEAD: &str = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\n";

    #[test]
    fn decodes_every_field_with_its_line() {
        let text = format!(
            "{HEAD}providers:\n- name: ecr\n  matchImages:\n  - a.io\n  - b.io\n  defaultCacheDuration: 1h30m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [get, \"1\"]\n  env:\n  - name: A\n    value: \
             b\n  tokenAttributes:\n    serviceAccountTokenAudience: me\n    cacheType: Token\n    \
             requireServiceAccount: false\n    requiredServiceAccountAnnotationKeys: [x]\n    \
             optionalServiceAccountAnnotationKeys:\n    - z\n"
        );
        let (config, errors) = CredentialProviderConfig::decode(text.as_bytes());
        assert!(errors.is_empty(), "{errors:?}");
        let provider = &config.providers[0];
        assert_eq!((provider.line, provider.name.value.as_str(), provider.name.line), (4, "ecr", 4));
        assert_eq!(provider.match_images[1], Located { value: "b.io".to_owned(), line: 7 });
        assert_eq!(provider.default_cache_duration.unwrap().value, SignedDuration::from_secs(5400));
        assert_eq!(provider.args[1].expose(), "1");
        assert_eq!((provider.env[0].name.as_str(), provider.env[0].value.expose()), ("A", "b"));
        let attributes = provider.token_attributes.as_ref().unwrap();
        assert_eq!(attributes.require_service_account, Some(Located { value: false, line: 17 }));
        assert_eq!(attributes.optional_service_account_annotation_keys[0].line, 20);
    }

    #[test]
    fn returns_all_errors_with_line_and_provider() {
        let text = format!(
            "{HEAD}x: 1\nproviders:\n- name: a\n  Name: b\n  foo: 1\n  defaultCacheDuration: 90\n  env: [{{name: 1, \
             value: 2}}]\n- name: c\n  name: d\n  defaultCacheDuration: 1d\n  args: no\n"
        );
        assert_eq!(
            errors(&text),
            [
                "3: unknown field `x` in this version",
                "6: providers[0] (a): unknown field `Name` in this version",
                "7: providers[0] (a): unknown field `foo` in this version",
                "8: providers[0] (a): invalid `defaultCacheDuration`: must be a duration in quotes, such as \"12h\"",
                "9: providers[0] (a): invalid `name`: must be a string",
                "9: providers[0] (a): invalid `env[].value`: must be a string",
                "11: providers[1] (c): duplicate field `name`",
                "12: providers[1] (c): invalid `defaultCacheDuration`: unknown unit, expected h, m, s, ms, µs or ns",
                "13: providers[1] (c): invalid `args`: must be a list of strings",
            ]
        );
    }

    #[test]
    fn rejects_other_kinds_and_versions() {
        assert_eq!(errors(""), ["0: missing `kind: CredentialProviderConfig`"]);
        assert_eq!(
            errors("secret: hunter2\n"),
            ["0: missing `kind: CredentialProviderConfig`", "0: missing `apiVersion: kubelet.config.k8s.io/v1`"]
        );
        let other = errors("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nx: 1\n");
        assert_eq!(other, ["1: unexpected `kind` KubeletConfiguration: must be CredentialProviderConfig"]);
        assert!(errors("kind: CredentialProviderConfig\napiVersion: foobar/v1alpha1\n")[0].contains("foobar/v1alpha1"));
        assert!(errors("[1, 2]")[0].contains("must be an object"));
    }

    #[test]
    fn token_attributes_require_v1() {
        for version in ["v1alpha1", "v1beta1"] {
            let text = format!(
                "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/{version}\nproviders:\n- name: a\n  \
                 tokenAttributes: {{}}\n"
            );
            assert_eq!(errors(&text), ["5: providers[0] (a): unknown field `tokenAttributes` in this version"]);
        }
    }
}
