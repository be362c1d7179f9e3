//! Checks for suspicious configurations that the kubelet accepts.

use std::fmt;
use std::path::PathBuf;

use credlet_api::image::ProviderRef;

use crate::config::{ImageProvidersConfig, ProviderConfig};
use crate::pattern::{ImagePattern, labels};
use crate::provider::ProviderResponse;

/// An issue and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    /// File that defines the provider, or has the issue itself.
    pub file: PathBuf,
    /// Line on which the provider begins, or 0 if the issue concerns the whole file.
    pub line: usize,
    /// Provider, if the issue concerns one.
    pub provider: Option<ProviderRef>,
    /// What is suspicious.
    pub issue: LintIssue,
}

impl LintFinding {
    /// Creates a finding for a provider.
    pub fn for_provider(provider: &ProviderConfig, issue: LintIssue) -> Self {
        Self {
            file: provider.origin.file.clone(),
            line: provider.origin.line,
            provider: Some(ProviderRef { index: provider.origin.index, name: provider.name.clone() }),
            issue,
        }
    }
}

impl fmt::Display for LintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = crate::config::ConfigLocation { file: &self.file, line: self.line };
        let provider = self.provider.as_ref().map(|provider| format!("{provider}: ")).unwrap_or_default();
        write!(f, "{place}{provider}{}", self.issue)
    }
}

/// Suspicious part of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LintIssue {
    /// The pattern matches no valid image name.
    #[error("pattern `{pattern}` cannot match any image: {reason}")]
    NeverMatches {
        /// The pattern, with control characters escaped.
        pattern: String,
        /// Why no image name can match.
        reason: &'static str,
    },
    /// The path of a pattern ends within a segment.
    #[error("pattern `{0}` also matches longer path segments: it must end with `/` to match a whole segment")]
    OpenPath(String),
    /// Another pattern of the provider covers this one.
    #[error("duplicate pattern `{pattern}`: `{by}` of the same provider covers it")]
    Covered {
        /// The covered pattern, with control characters escaped.
        pattern: String,
        /// The wider pattern.
        by: String,
    },
    /// Another provider covers the same images.
    #[error(
        "duplicate pattern `{pattern}`: `{by}` of `{other}` covers it, so both providers are run and both responses tried"
    )]
    CoveredByOther {
        /// The covered pattern, with control characters escaped.
        pattern: String,
        /// The wider pattern.
        by: String,
        /// Provider of the wider pattern.
        other: String,
    },
    /// The name of a variable looks like that of a secret.
    #[error("variable `{0}` looks like a secret, which must not be stored in this file")]
    SecretInEnv(String),
    /// Responses without a cache duration are not cached.
    #[error("`defaultCacheDuration` is 0: responses without a cacheDuration are not cached")]
    NoCache,
    /// The file has more than one YAML document.
    #[error("unsupported additional YAML document: only the first one of a file is read")]
    MoreDocuments,
    /// Images that are pulled with node-wide credentials are accessible to all pods of the node.
    #[error(
        "credentials without a service account make an image accessible to every pod of the node once it is pulled"
    )]
    NodeWide,
    /// The response has a key that no pattern of the provider covers.
    #[error("unexpected credential for `{key}` in the response: no pattern of the provider covers it")]
    WiderKey {
        /// The key in the response.
        key: String,
    },
    /// The run failed.
    #[error("failed to run the provider for `{image}`: {reason}")]
    RunFailed {
        /// The image of the request.
        image: String,
        /// Why the run failed, in one clause.
        reason: String,
    },
}

impl LintIssue {
    /// Returns whether this is an error and not only a warning.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::NeverMatches { .. } | Self::SecretInEnv(_) | Self::MoreDocuments | Self::RunFailed { .. })
    }
}

/// Returns all findings in configuration order.
pub fn lint(config: &ImageProvidersConfig) -> Vec<LintFinding> {
    let of_file =
        |file: &PathBuf| LintFinding { file: file.clone(), line: 0, provider: None, issue: LintIssue::MoreDocuments };
    let mut findings: Vec<_> = config.multi_document_files.iter().map(of_file).collect();
    for (number, provider) in config.providers.iter().enumerate() {
        let issues = provider_issues(provider, &config.providers[..number]);
        findings.extend(issues.into_iter().map(|issue| LintFinding::for_provider(provider, issue)));
    }
    findings
}

/// Returns findings for the keys of a response that no pattern of the provider covers. Keys of anonymous credentials are not
/// reported.
pub fn lint_response(provider: &ProviderConfig, response: &ProviderResponse) -> Vec<LintFinding> {
    let is_wider = |key: &str| {
        // The legacy key of Docker Hub is used for images of docker.io only.
        let place = if key == "index.docker.io" { "docker.io" } else { key };
        !ImagePattern::parse(place).is_ok_and(|key| provider.match_images.iter().any(|pattern| pattern.covers(&key)))
    };
    let secret = response.auths().filter(|(_, auth)| !(auth.username.is_empty() && auth.password.is_empty()));
    let mut keys: Vec<_> = secret.map(|(key, _)| key).filter(|key| is_wider(key)).collect();
    keys.dedup();
    let wider = keys.into_iter().map(|key| LintIssue::WiderKey { key: credlet_api::escape_control_chars(key) });
    wider.map(|issue| LintFinding::for_provider(provider, issue)).collect()
}

fn provider_issues(provider: &ProviderConfig, earlier: &[ProviderConfig]) -> Vec<LintIssue> {
    let mut found = Vec::new();
    let text = |pattern: &ImagePattern| credlet_api::escape_control_chars(pattern.as_str());
    for (number, pattern) in provider.match_images.iter().enumerate() {
        if let Some(reason) = never_matches(pattern) {
            found.push(LintIssue::NeverMatches { pattern: text(pattern), reason });
            continue;
        }
        if !matches!(pattern.path(), [] | [.., b'/']) {
            found.push(LintIssue::OpenPath(text(pattern)));
        }
        let others = provider.match_images.iter().enumerate().filter(|(other, _)| *other != number);
        let mut wider =
            others.filter(|(other, wide)| wide.covers(pattern) && (*other < number || !pattern.covers(wide)));
        if let Some((_, wide)) = wider.next() {
            found.push(LintIssue::Covered { pattern: text(pattern), by: text(wide) });
        }
        let elsewhere = earlier.iter().find_map(|other| {
            let wide = other.match_images.iter().find(|wide| wide.covers(pattern))?;
            Some((other, wide))
        });
        if let Some((other, wide)) = elsewhere {
            let other = credlet_api::escape_control_chars(&other.name);
            found.push(LintIssue::CoveredByOther { pattern: text(pattern), by: text(wide), other });
        }
    }
    let secrets = provider.env.iter().filter(|variable| looks_secret(&variable.name) && !variable.value.is_empty());
    found.extend(secrets.map(|variable| LintIssue::SecretInEnv(credlet_api::escape_control_chars(&variable.name))));
    if provider.default_cache_duration.is_zero() {
        found.push(LintIssue::NoCache);
    }
    if provider.service_account.is_none() {
        found.push(LintIssue::NodeWide);
    }
    found
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // A path or URL of a secret is not a secret.
    let is_location = ["_FILE", "_PATH", "_DIR", "_URL", "_URI"].iter().any(|end| name.ends_with(end));
    let markers = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "PRIVATE_KEY", "ACCESS_KEY", "API_KEY", "CREDENTIAL"];
    !is_location && markers.iter().any(|marker| name.contains(marker)) && name != "AWS_ACCESS_KEY_ID"
}

/// The reason if the pattern can match no normalised image name.
fn never_matches(pattern: &ImagePattern) -> Option<&'static str> {
    let (host, port) = pattern.host_and_port();
    if pattern.has_scheme() {
        return Some("remove `https://`");
    }
    if host.is_empty() {
        return Some("it has no host");
    }
    if host.starts_with(b"[") {
        return Some("an IPv6 address without a port is parsed as a character class");
    }
    if host == b"index.docker.io" && port.is_empty() {
        return Some("images of this host are normalised to docker.io");
    }
    let is_address = host.contains(&b':');
    let is_host_byte = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'*' | b'_');
    if !is_address && !labels(host).all(|label| !label.is_empty() && label.iter().all(is_host_byte)) {
        return Some("its host contains characters that are not allowed in an image name");
    }
    let single = !host.contains(&b'.') && port.is_empty();
    let lower = !host.iter().any(|byte| byte.is_ascii_uppercase() || *byte == b'*');
    if single && lower && host != b"localhost" && !is_address {
        return Some("a first part without a dot or a port is part of a path on docker.io");
    }
    let path = pattern.path();
    if path.contains(&b'*') {
        return Some("`*` is not a wildcard in a path, which is a plain prefix; remove it");
    }
    let is_path_byte =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-' | b'/');
    if !path.iter().all(is_path_byte) || path.windows(2).any(|pair| pair == b"//") {
        return Some(
            "its path contains characters that are not allowed in an image name; tags and digests are not part of it",
        );
    }
    None
}
