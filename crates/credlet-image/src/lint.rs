//! What is suspicious about a configuration that the kubelet takes without a word.

use std::fmt;
use std::path::PathBuf;

use credlet_api::image::ProviderRef;

use crate::config::{Config, ProviderConfig};
use crate::pattern::{Pattern, labels};
use crate::provider::Answer;

/// Something suspicious, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The line on which the provider begins; 0 if it concerns the whole file.
    pub line: usize,
    /// The provider.
    pub provider: Option<ProviderRef>,
    /// What is suspicious.
    pub suspicion: Suspicion,
}

impl Finding {
    /// Something about a provider.
    pub fn of(provider: &ProviderConfig, suspicion: Suspicion) -> Self {
        Self {
            file: provider.origin.file.clone(),
            line: provider.origin.line,
            provider: Some(ProviderRef { index: provider.origin.index, name: provider.name.clone() }),
            suspicion,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = crate::config::Place { file: &self.file, line: self.line };
        let provider = self.provider.as_ref().map(|provider| format!("{provider}: ")).unwrap_or_default();
        write!(f, "{place}{provider}{}", self.suspicion)
    }
}

/// What is suspicious about a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Suspicion {
    /// No image has such a name.
    #[error("the pattern `{pattern}` can never match: {reason}")]
    NeverMatches {
        /// The pattern.
        pattern: String,
        /// Why not.
        reason: &'static str,
    },
    /// A path that ends in the middle of a word.
    #[error("the pattern `{0}` also matches paths that merely begin so: end it with `/` to match a whole segment")]
    OpenPath(String),
    /// The same pattern twice, or one within the other.
    #[error("the pattern `{pattern}` adds nothing: `{by}` of the same provider covers it")]
    Covered {
        /// The pattern.
        pattern: String,
        /// The wider one.
        by: String,
    },
    /// Two providers that are asked for the same images.
    #[error("the pattern `{pattern}` is covered by `{by}` of `{other}`: both are asked, and both answers are tried")]
    CoveredByOther {
        /// The pattern.
        pattern: String,
        /// The wider one.
        by: String,
        /// Whose that is.
        other: String,
    },
    /// A variable that looks like a secret.
    #[error("the variable `{0}` looks like a secret, and everybody who may read this file can read it")]
    SecretInEnv(String),
    /// Answers that are not remembered unless they say so.
    #[error("`defaultCacheDuration` is 0: answers that do not say how long they are good for are never used twice")]
    NoCache,
    /// A further document in the file.
    #[error("only the first YAML document of a file counts, and this one has more")]
    MoreDocuments,
    /// An image that is pulled so is open to all pods of the node.
    #[error(
        "credentials without a service account make an image accessible to every pod of the node once it is pulled"
    )]
    NodeWide,
    /// An answer with a credential for places that the provider is not asked about.
    #[error(
        "it answered with a credential for `{key}`, which none of its patterns covers: it may be sent where nobody meant it"
    )]
    WiderKey {
        /// The key in the answer.
        key: String,
    },
    /// A provider that does not answer.
    #[error("it gave no answer for `{image}`: {reason}")]
    NoAnswer {
        /// The image that it was asked for.
        image: String,
        /// Why not.
        reason: String,
    },
}

impl Suspicion {
    /// Whether somebody must surely act, and not only think about it.
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::NeverMatches { .. } | Self::SecretInEnv(_) | Self::MoreDocuments | Self::NoAnswer { .. })
    }
}

/// Everything suspicious, in the order of the configuration.
pub fn lint(config: &Config) -> Vec<Finding> {
    let of_file =
        |file: &PathBuf| Finding { file: file.clone(), line: 0, provider: None, suspicion: Suspicion::MoreDocuments };
    let mut findings: Vec<_> = config.with_more_documents.iter().map(of_file).collect();
    for (number, provider) in config.providers.iter().enumerate() {
        let suspicions = of_provider(provider, &config.providers[..number]);
        findings.extend(suspicions.into_iter().map(|suspicion| Finding::of(provider, suspicion)));
    }
    findings
}

/// What is suspicious about an answer: keys that are wider than the patterns for which the provider is asked. (What is
/// anonymous can be sent anywhere.)
pub fn lint_answer(provider: &ProviderConfig, answer: &Answer) -> Vec<Finding> {
    let is_wider = |key: &str| {
        // Docker's old name for the hub is looked up for images of docker.io only.
        let place = if key == "index.docker.io" { "docker.io" } else { key };
        !Pattern::parse(place).is_ok_and(|key| provider.match_images.iter().any(|pattern| pattern.covers(&key)))
    };
    let secret = answer.auths().filter(|(_, auth)| !(auth.username.is_empty() && auth.password.is_empty()));
    let mut keys: Vec<_> = secret.map(|(key, _)| key).filter(|key| is_wider(key)).collect();
    keys.dedup();
    let wider = keys.into_iter().map(|key| Suspicion::WiderKey { key: credlet_api::visible(key) });
    wider.map(|suspicion| Finding::of(provider, suspicion)).collect()
}

fn of_provider(provider: &ProviderConfig, earlier: &[ProviderConfig]) -> Vec<Suspicion> {
    let mut found = Vec::new();
    let text = |pattern: &Pattern| credlet_api::visible(pattern.as_str());
    for (number, pattern) in provider.match_images.iter().enumerate() {
        if let Some(reason) = never_matches(pattern) {
            found.push(Suspicion::NeverMatches { pattern: text(pattern), reason });
            continue;
        }
        if !matches!(pattern.path(), [] | [.., b'/']) {
            found.push(Suspicion::OpenPath(text(pattern)));
        }
        let others = provider.match_images.iter().enumerate().filter(|(other, _)| *other != number);
        let mut wider =
            others.filter(|(other, wide)| wide.covers(pattern) && (*other < number || !pattern.covers(wide)));
        if let Some((_, wide)) = wider.next() {
            found.push(Suspicion::Covered { pattern: text(pattern), by: text(wide) });
        }
        let elsewhere = earlier.iter().find_map(|other| {
            let wide = other.match_images.iter().find(|wide| wide.covers(pattern))?;
            Some((other, wide))
        });
        if let Some((other, wide)) = elsewhere {
            let other = credlet_api::visible(&other.name);
            found.push(Suspicion::CoveredByOther { pattern: text(pattern), by: text(wide), other });
        }
    }
    let secrets = provider.env.iter().filter(|variable| looks_secret(&variable.name) && !variable.value.is_empty());
    found.extend(secrets.map(|variable| Suspicion::SecretInEnv(credlet_api::visible(&variable.name))));
    if provider.default_cache_duration.is_zero() {
        found.push(Suspicion::NoCache);
    }
    if provider.service_account.is_none() {
        found.push(Suspicion::NodeWide);
    }
    found
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // A file or a place of a secret is none.
    let names_a_place = ["_FILE", "_PATH", "_DIR", "_URL", "_URI"].iter().any(|end| name.ends_with(end));
    let words = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "PRIVATE_KEY", "ACCESS_KEY", "API_KEY", "CREDENTIAL"];
    !names_a_place && words.iter().any(|word| name.contains(word)) && name != "AWS_ACCESS_KEY_ID"
}

/// Why no image's name, completed as the kubelet completes it, can match.
fn never_matches(pattern: &Pattern) -> Option<&'static str> {
    let (host, port) = pattern.host_and_port();
    if pattern.has_scheme() {
        return Some("leave `https://` out");
    }
    if host.is_empty() {
        return Some("it has no host");
    }
    if host.starts_with(b"[") {
        return Some("an IPv6 address without a port is read as a class of characters");
    }
    if host == b"index.docker.io" && port.is_empty() {
        return Some("images there are looked up as docker.io");
    }
    let is_address = host.contains(&b':');
    let is_host_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'*' | b'_');
    if !is_address && !labels(host).all(|label| !label.is_empty() && label.iter().all(is_host_byte)) {
        return Some("no host of an image contains such characters");
    }
    let single = !host.contains(&b'.') && port.is_empty();
    let lower = !host.iter().any(|byte| byte.is_ascii_uppercase() || *byte == b'*');
    if single && lower && host != b"localhost" && !is_address {
        return Some("a first part without a dot or a port is part of a path on docker.io");
    }
    let path = pattern.path();
    if path.contains(&b'*') {
        return Some("a `*` in a path is no wildcard: a path is a plain prefix, so leave it out");
    }
    let is_path_byte =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if !path.iter().all(is_path_byte) || path.windows(2).any(|pair| pair == b"//") {
        return Some("no path of an image contains such characters; tags and digests are not part of it");
    }
    None
}
