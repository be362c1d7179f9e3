//! `CredentialProviderConfig`: which providers there are, and for which images each is asked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use jiff::SignedDuration;

use crate::Secret;
use crate::kubeconfig::Located;
use crate::wire::duration::{self, DurationError};
use crate::wire::fault::Fault;
use crate::wire::tree::{self, Name, Node, Value};

/// What a configuration says to be.
pub const CONFIG_KIND: &str = "CredentialProviderConfig";

const GROUP: &str = "kubelet.config.k8s.io/";

/// The providers of one file, as they are written: not checked beyond the types of their fields.
#[derive(Clone, Debug, Default)]
pub struct CredentialProviderConfig {
    /// In the order of the file.
    pub providers: Vec<CredentialProvider>,
    /// Something follows the first YAML document. Kubernetes ignores it without a word.
    pub has_more_documents: bool,
}

/// One provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CredentialProvider {
    /// The line on which it begins.
    pub line: usize,
    /// The name of its binary.
    pub name: Located<String>,
    /// For which images it is asked.
    pub match_images: Vec<Located<String>>,
    /// How long its answers are remembered that do not say so themselves.
    pub default_cache_duration: Option<Located<SignedDuration>>,
    /// In which version it is asked.
    pub api_version: Located<String>,
    /// Its arguments.
    pub args: Vec<Secret>,
    /// Its variables, beside the inherited ones.
    pub env: Vec<EnvVar>,
    /// Set if it is told about the pod's service account.
    pub token_attributes: Option<TokenAttributes>,
}

/// A variable for a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value, often a secret.
    pub value: Secret,
    /// Its line.
    pub line: usize,
}

/// What a provider is told about the pod's service account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenAttributes {
    /// The line on which it begins.
    pub line: usize,
    /// For whom the token is meant.
    pub service_account_token_audience: Located<String>,
    /// `ServiceAccount` or `Token`: what answers are remembered by.
    pub cache_type: Located<String>,
    /// Whether a pod without a service account is passed over.
    pub require_service_account: Option<Located<bool>>,
    /// Annotations without which the provider is passed over.
    pub required_service_account_annotation_keys: Vec<Located<String>>,
    /// Annotations that are passed on if they are there.
    pub optional_service_account_annotation_keys: Vec<Located<String>>,
}

impl CredentialProviderConfig {
    /// Reads a file, JSON or YAML, of any of the three versions, with all mistakes of form in it.
    pub fn decode(text: &[u8]) -> (Self, Vec<ConfigFault>) {
        let mut reader = Reader::default();
        let providers = match tree::read(text) {
            Ok(node) => reader.file(node),
            Err(Fault::Empty) => {
                reader.note(0, ConfigMistake::MissingKind);
                Vec::new()
            }
            Err(fault) => {
                let line = fault.position().map_or(0, |at| at.line);
                reader.note(line, ConfigMistake::Unreadable(fault));
                Vec::new()
            }
        };
        (Self { providers, has_more_documents: tree::has_more_documents(text) }, reader.faults)
    }
}

/// A mistake in the form of a configuration, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// The line, counted from 1. 0: not known.
    pub line: usize,
    /// In which provider.
    pub provider: Option<ProviderRef>,
    /// What is wrong.
    pub mistake: ConfigMistake,
}

/// A provider in a message: `providers[2] (ecr-credential-provider)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRef {
    /// Its place in its file, from 0.
    pub index: usize,
    /// Its name; may be empty.
    pub name: String,
}

impl fmt::Display for ProviderRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "providers[{}]", self.index)?;
        match &*self.name {
            "" => Ok(()),
            name => write!(f, " ({})", shown(name)),
        }
    }
}

/// What is wrong with the form of a configuration. None of it holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigMistake {
    /// Not a readable document.
    #[error("the file {0}")]
    Unreadable(Fault),
    /// It does not say what it is.
    #[error("`kind: CredentialProviderConfig` is missing")]
    MissingKind,
    /// It does not say in which version.
    #[error("`apiVersion: kubelet.config.k8s.io/v1` is missing")]
    MissingVersion,
    /// Another object.
    #[error("`kind` is {0} and not CredentialProviderConfig")]
    OtherKind(String),
    /// Another version.
    #[error("`apiVersion` is {0} and not kubelet.config.k8s.io/v1, …/v1beta1 or …/v1alpha1")]
    UnknownVersion(String),
    /// A field that the version does not have.
    #[error("`{0}` is no field of this version")]
    UnknownField(String),
    /// A field that stands twice.
    #[error("`{0}` stands here twice")]
    DuplicateField(String),
    /// A value of another type.
    #[error("`{field}` is not {expected}")]
    Type {
        /// The field.
        field: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A text that is no duration.
    #[error("`{field}` {reason}")]
    Duration {
        /// The field.
        field: String,
        /// Why it is none.
        reason: DurationError,
    },
}

/// Foreign text in a message: harmless, on one line, and no more than a name has.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(120).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", crate::visible(&short).replace(|c: char| c.is_control(), " "))
}

type Members = BTreeMap<String, Node>;

/// Goes on after a mistake.
#[derive(Default)]
struct Reader {
    provider: Option<ProviderRef>,
    faults: Vec<ConfigFault>,
}

impl Reader {
    fn note(&mut self, line: usize, mistake: ConfigMistake) {
        self.faults.push(ConfigFault { line, provider: self.provider.clone(), mistake });
    }

    fn file(&mut self, node: Node) -> Vec<CredentialProvider> {
        let mut members = self.members(node, "the file", &["kind", "apiVersion", "providers"]);
        let (kind, version) = (self.text(&mut members, "kind"), self.text(&mut members, "apiVersion"));
        match &*kind.value {
            CONFIG_KIND => {}
            "" => self.note(kind.line, ConfigMistake::MissingKind),
            other => self.note(kind.line, ConfigMistake::OtherKind(shown(other))),
        }
        let known = version.strip_prefix(GROUP).filter(|version| ["v1alpha1", "v1beta1", "v1"].contains(version));
        match known {
            Some(_) => {}
            None if version.is_empty() => self.note(version.line, ConfigMistake::MissingVersion),
            None => self.note(version.line, ConfigMistake::UnknownVersion(shown(&version))),
        }
        // The fields of something else are none of ours to judge.
        if kind.value != CONFIG_KIND || known.is_none() {
            self.faults.retain(|fault| !matches!(fault.mistake, ConfigMistake::UnknownField(_)));
            return Vec::new();
        }
        let has_token_attributes = known == Some("v1");
        let providers = self.list(&mut members, "providers", "a list of providers");
        let provider = |(index, node)| self.provider(index, node, has_token_attributes);
        providers.into_iter().enumerate().map(provider).collect()
    }

    fn provider(&mut self, index: usize, node: Node, has_token_attributes: bool) -> CredentialProvider {
        const FIELDS: [&str; 7] =
            ["name", "matchImages", "defaultCacheDuration", "apiVersion", "args", "env", "tokenAttributes"];
        let fields = if has_token_attributes { &FIELDS[..] } else { &FIELDS[..6] };
        self.provider = Some(ProviderRef { index, name: name_of(&node) });
        let line = node.line;
        let mut members = self.members(node, "the provider", fields);
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

    fn env(&mut self, members: &mut Members) -> Vec<EnvVar> {
        let variables = self.list(members, "env", "a list of variables");
        let variable = |node: Node| {
            let line = node.line;
            let mut members = self.members(node, "env[]", &["name", "value"]);
            let name = self.text(&mut members, "name").value;
            let value = members.remove("value").map(|node| self.secret(node, "env[].value")).unwrap_or_default();
            EnvVar { name, value, line }
        };
        variables.into_iter().map(variable).collect()
    }

    fn token_attributes(&mut self, node: Node) -> Option<TokenAttributes> {
        const FIELDS: [&str; 5] = [
            "serviceAccountTokenAudience",
            "cacheType",
            "requireServiceAccount",
            "requiredServiceAccountAnnotationKeys",
            "optionalServiceAccountAnnotationKeys",
        ];
        if matches!(node.value, Value::Null) {
            return None;
        }
        let line = node.line;
        let mut members = self.members(node, "tokenAttributes", &FIELDS);
        Some(TokenAttributes {
            line,
            service_account_token_audience: self.text(&mut members, FIELDS[0]),
            cache_type: self.text(&mut members, FIELDS[1]),
            require_service_account: self.flag(&mut members, FIELDS[2]),
            required_service_account_annotation_keys: self.texts(&mut members, FIELDS[3]),
            optional_service_account_annotation_keys: self.texts(&mut members, FIELDS[4]),
        })
    }

    /// An object's members by name, without those that do not belong to it. `null` has none.
    fn members(&mut self, node: Node, place: &str, fields: &[&str]) -> Members {
        let mut members = Members::new();
        let list = match node.value {
            Value::Map(list) => list,
            Value::Null => return members,
            _ => {
                self.note(node.line, ConfigMistake::Type { field: place.to_owned(), expected: "an object" });
                return members;
            }
        };
        for (Name { text, line }, node) in list {
            if !fields.contains(&&*text) {
                self.note(line, ConfigMistake::UnknownField(shown(&text)));
                continue;
            }
            match members.entry(text) {
                Entry::Vacant(place) => {
                    place.insert(node);
                }
                Entry::Occupied(place) => self.note(line, ConfigMistake::DuplicateField(place.key().clone())),
            }
        }
        members
    }

    fn list(&mut self, members: &mut Members, field: &str, expected: &'static str) -> Vec<Node> {
        match members.remove(field) {
            Some(Node { value: Value::List(nodes), .. }) => nodes,
            None | Some(Node { value: Value::Null, .. }) => Vec::new(),
            Some(node) => {
                self.note(node.line, ConfigMistake::Type { field: field.to_owned(), expected });
                Vec::new()
            }
        }
    }

    fn secret(&mut self, node: Node, field: &str) -> Secret {
        match node.value {
            Value::Text(text) => text,
            Value::Null => Secret::default(),
            _ => {
                self.note(node.line, ConfigMistake::Type { field: field.to_owned(), expected: "a string" });
                Secret::default()
            }
        }
    }

    fn text(&mut self, members: &mut Members, field: &str) -> Located<String> {
        let Some(node) = members.remove(field) else { return Located::default() };
        let line = node.line;
        Located { value: self.secret(node, field).expose().to_owned(), line }
    }

    fn texts(&mut self, members: &mut Members, field: &str) -> Vec<Located<String>> {
        let nodes = self.list(members, field, "a list of strings");
        let item = format!("{field}[]");
        let text = |node: Node| Located { line: node.line, value: self.secret(node, &item).expose().to_owned() };
        nodes.into_iter().map(text).collect()
    }

    fn secrets(&mut self, members: &mut Members, field: &str) -> Vec<Secret> {
        let nodes = self.list(members, field, "a list of strings");
        let item = format!("{field}[]");
        nodes.into_iter().map(|node| self.secret(node, &item)).collect()
    }

    fn flag(&mut self, members: &mut Members, field: &str) -> Option<Located<bool>> {
        let Node { line, value } = members.remove(field)?;
        match value {
            Value::Boolean(value) => Some(Located { value, line }),
            Value::Null => None,
            _ => {
                self.note(line, ConfigMistake::Type { field: field.to_owned(), expected: "true or false" });
                None
            }
        }
    }

    fn duration(&mut self, members: &mut Members, field: &str) -> Option<Located<SignedDuration>> {
        let Node { line, value } = members.remove(field)?;
        let mistake = match value {
            Value::Null => return None,
            Value::Text(text) => match duration::parse(text.expose()) {
                Ok(value) => return Some(Located { value, line }),
                Err(reason) => ConfigMistake::Duration { field: field.to_owned(), reason },
            },
            _ => ConfigMistake::Type { field: field.to_owned(), expected: "a duration in quotes, such as \"12h\"" },
        };
        self.note(line, mistake);
        // One mistake is enough: it is there, so it is not missing.
        Some(Located { value: SignedDuration::ZERO, line })
    }
}

/// Looked up before anything else, so that every mistake of a provider can say whose it is.
fn name_of(node: &Node) -> String {
    let Value::Map(members) = &node.value else { return String::new() };
    let name = members.iter().find(|(name, _)| name.text == "name").map(|(_, node)| &node.value);
    match name {
        Some(Value::Text(name)) => name.expose().to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let (_, faults) = CredentialProviderConfig::decode(text.as_bytes());
        let line = |fault: ConfigFault| {
            let provider = fault.provider.map(|provider| format!("{provider}: ")).unwrap_or_default();
            format!("{}: {provider}{}", fault.line, fault.mistake)
        };
        faults.into_iter().map(line).collect()
    }

    const HEAD: &str = "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/v1\n";

    #[test]
    fn every_field_is_read_and_knows_its_line() {
        let text = format!(
            "{HEAD}providers:\n- name: ecr\n  matchImages:\n  - a.io\n  - b.io\n  defaultCacheDuration: 1h30m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [get, \"1\"]\n  env:\n  - name: A\n    value: \
             b\n  tokenAttributes:\n    serviceAccountTokenAudience: me\n    cacheType: Token\n    \
             requireServiceAccount: false\n    requiredServiceAccountAnnotationKeys: [x]\n    \
             optionalServiceAccountAnnotationKeys:\n    - z\n"
        );
        let (config, faults) = CredentialProviderConfig::decode(text.as_bytes());
        assert!(faults.is_empty(), "{faults:?}");
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
    fn all_mistakes_come_at_once_each_with_its_line_and_provider() {
        let text = format!(
            "{HEAD}x: 1\nproviders:\n- name: a\n  Name: b\n  foo: 1\n  defaultCacheDuration: 90\n  env: [{{name: 1, \
             value: 2}}]\n- name: c\n  name: d\n  defaultCacheDuration: 1d\n  args: no\n"
        );
        assert_eq!(
            faults(&text),
            [
                "3: `x` is no field of this version",
                "6: providers[0] (a): `Name` is no field of this version",
                "7: providers[0] (a): `foo` is no field of this version",
                "8: providers[0] (a): `defaultCacheDuration` is not a duration in quotes, such as \"12h\"",
                "9: providers[0] (a): `name` is not a string",
                "9: providers[0] (a): `env[].value` is not a string",
                "11: providers[1] (c): `name` stands here twice",
                "12: providers[1] (c): `defaultCacheDuration` has a unit that is none of h, m, s, ms, µs and ns",
                "13: providers[1] (c): `args` is not a list of strings",
            ]
        );
    }

    #[test]
    fn another_kind_or_version_is_named_and_nothing_of_the_file_is_repeated() {
        assert_eq!(faults(""), ["0: `kind: CredentialProviderConfig` is missing"]);
        assert_eq!(
            faults("secret: hunter2\n"),
            ["0: `kind: CredentialProviderConfig` is missing", "0: `apiVersion: kubelet.config.k8s.io/v1` is missing"]
        );
        let other = faults("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nx: 1\n");
        assert_eq!(other, ["1: `kind` is KubeletConfiguration and not CredentialProviderConfig"]);
        assert!(faults("kind: CredentialProviderConfig\napiVersion: foobar/v1alpha1\n")[0].contains("foobar/v1alpha1"));
        assert!(faults("[1, 2]")[0].contains("is not an object"));
    }

    #[test]
    fn token_attributes_exist_in_v1_only() {
        for version in ["v1alpha1", "v1beta1"] {
            let text = format!(
                "kind: CredentialProviderConfig\napiVersion: kubelet.config.k8s.io/{version}\nproviders:\n- name: a\n  \
                 tokenAttributes: {{}}\n"
            );
            assert_eq!(faults(&text), ["5: providers[0] (a): `tokenAttributes` is no field of this version"]);
        }
    }
}
