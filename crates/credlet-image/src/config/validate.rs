//! Validation of providers, with the kubelet's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use credlet_api::image::{CredentialProvider, ProviderApiVersion, ProviderRef, ServiceAccountTokenAttributes};
use credlet_api::kubeconfig::Located;

use super::problem::{ProviderConfigFault, ProviderConfigProblem};
use super::{CacheType, ConfigOrigin, ProviderConfig, ServiceAccountMode, annotation};
use crate::pattern::ImagePattern;

/// Validates all providers. The result is meaningful only if no problem is added.
pub(super) fn providers(
    providers: Vec<(usize, PathBuf, CredentialProvider)>,
    problems: &mut Vec<ProviderConfigProblem>,
) -> Vec<ProviderConfig> {
    let mut names = BTreeMap::new();
    let mut checked = Vec::with_capacity(providers.len());
    for (index, file, provider) in providers {
        let provider_ref = ProviderRef { index, name: provider.name.value.clone() };
        let mut check = ProviderCheck { file: &file, provider: provider_ref, problems };
        check.name(&provider.name, provider.line);
        let location = (file.clone(), provider.line);
        if let Some((other, line)) = names.insert(provider.name.value.clone(), location) {
            check.add(provider.name.line, ProviderConfigFault::DuplicateName { other, line });
        }
        let api_version = check.version(&provider.api_version, provider.line);
        checked.push(ProviderConfig {
            match_images: check.match_images(&provider.match_images, provider.line),
            default_cache_duration: check.duration(&provider),
            service_account: provider.token_attributes.as_ref().map(|attributes| check.token(attributes, api_version)),
            api_version: api_version.unwrap_or(ProviderApiVersion::V1),
            name: provider.name.value,
            args: provider.args,
            env: provider.env,
            origin: ConfigOrigin { line: provider.line, index, file },
        });
    }
    checked
}

struct ProviderCheck<'a> {
    file: &'a PathBuf,
    provider: ProviderRef,
    problems: &'a mut Vec<ProviderConfigProblem>,
}

impl ProviderCheck<'_> {
    fn add(&mut self, line: usize, reason: ProviderConfigFault) {
        let (file, provider) = (self.file.clone(), Some(self.provider.clone()));
        self.problems.push(ProviderConfigProblem { file, line, provider, reason });
    }

    /// Rejects an empty name, too. The kubelet accepts it and then fails because the binary directory is not a binary.
    fn name(&mut self, name: &Located<String>, line: usize) {
        match &*name.value {
            "" => return self.add(line, ProviderConfigFault::NoName),
            "." | ".." => self.add(name.line, ProviderConfigFault::Name("be `.` or `..`")),
            _ => {}
        }
        if name.contains('/') {
            self.add(name.line, ProviderConfigFault::Name("contain `/`"));
        }
        if name.contains(' ') {
            self.add(name.line, ProviderConfigFault::Name("contain spaces"));
        }
    }

    fn version(&mut self, version: &Located<String>, line: usize) -> Option<ProviderApiVersion> {
        let parsed = version.parse().ok();
        if parsed.is_none() {
            match version.is_empty() {
                true => self.add(line, ProviderConfigFault::NoVersion),
                false => self.add(version.line, ProviderConfigFault::UnknownVersion),
            }
        }
        parsed
    }

    fn match_images(&mut self, patterns: &[Located<String>], line: usize) -> Vec<ImagePattern> {
        if patterns.is_empty() {
            self.add(line, ProviderConfigFault::NoMatchImages);
        }
        let mut parsed = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            match ImagePattern::parse(&pattern.value) {
                Ok(pattern) => parsed.push(pattern),
                Err(reason) => {
                    let pattern_text = credlet_api::escape_control_chars(&pattern.value);
                    self.add(pattern.line, ProviderConfigFault::MatchImage { pattern: pattern_text, reason });
                }
            }
        }
        parsed
    }

    fn duration(&mut self, provider: &CredentialProvider) -> Duration {
        let Some(duration) = &provider.default_cache_duration else {
            self.add(provider.line, ProviderConfigFault::NoDuration);
            return Duration::ZERO;
        };
        Duration::try_from(duration.value).unwrap_or_else(|_| {
            self.add(duration.line, ProviderConfigFault::NegativeDuration);
            Duration::ZERO
        })
    }

    fn token(
        &mut self,
        attributes: &ServiceAccountTokenAttributes,
        version: Option<ProviderApiVersion>,
    ) -> ServiceAccountMode {
        let line = attributes.line;
        let audience = attributes.service_account_token_audience.value.clone();
        if audience.is_empty() {
            self.add(line, ProviderConfigFault::NoTokenAttribute("serviceAccountTokenAudience"));
        }
        let required = attributes.require_service_account;
        if required.is_none() {
            self.add(line, ProviderConfigFault::NoTokenAttribute("requireServiceAccount"));
        }
        if version.is_some_and(|version| version != ProviderApiVersion::V1) {
            self.add(line, ProviderConfigFault::TokenNeedsV1);
        }
        let required_keys = &attributes.required_service_account_annotation_keys;
        let optional_keys = &attributes.optional_service_account_annotation_keys;
        if required.is_some_and(|required| !required.value) && !required_keys.is_empty() {
            self.add(line, ProviderConfigFault::AnnotationsWithoutAccount);
        }
        let required_annotations = self.annotations("requiredServiceAccountAnnotationKeys", required_keys);
        let optional_annotations = self.annotations("optionalServiceAccountAnnotationKeys", optional_keys);
        let both: Vec<_> = required_annotations.intersection(&optional_annotations).cloned().collect();
        if !both.is_empty() {
            self.add(line, ProviderConfigFault::BothRequiredAndOptional(both));
        }
        let cache_type = match &*attributes.cache_type.value {
            "ServiceAccount" => CacheType::ServiceAccount,
            "Token" => CacheType::Token,
            other => {
                self.add(
                    attributes.cache_type.line.max(line),
                    match other {
                        "" => ProviderConfigFault::NoTokenAttribute("cacheType"),
                        _ => ProviderConfigFault::UnknownCacheType,
                    },
                );
                CacheType::Token
            }
        };
        ServiceAccountMode {
            audience,
            cache_type,
            required: required.is_some_and(|required| required.value),
            required_annotations: required_annotations.into_iter().collect(),
            optional_annotations: optional_annotations.into_iter().collect(),
        }
    }

    fn annotations(&mut self, list: &'static str, keys: &[Located<String>]) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        for key in keys {
            let shown = || credlet_api::escape_control_chars(&key.value);
            if let Some(reason) = annotation::fault(&key.value) {
                self.add(key.line, ProviderConfigFault::AnnotationKey { list, key: shown(), reason });
            }
            if !seen.insert(key.value.clone()) {
                self.add(key.line, ProviderConfigFault::DuplicateAnnotationKey { list, key: shown() });
            }
        }
        seen
    }
}
