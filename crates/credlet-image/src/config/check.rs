//! Whether providers can be used, with all that is wrong with each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use credlet_api::image::{ApiVersion, CredentialProvider, ProviderRef, TokenAttributes};
use credlet_api::kubeconfig::Located;

use super::mistake::{Mistake, Reason};
use super::{CacheType, Origin, ProviderConfig, ServiceAccountMode, annotation};
use crate::pattern::Pattern;

/// Checks all of them. What is given back is of use only if there are no mistakes.
pub(super) fn providers(
    providers: Vec<(usize, PathBuf, CredentialProvider)>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<ProviderConfig> {
    let mut names = BTreeMap::new();
    let mut checked = Vec::with_capacity(providers.len());
    for (index, file, provider) in providers {
        let who = ProviderRef { index, name: provider.name.value.clone() };
        let mut check = Check { file: &file, who, mistakes };
        check.name(&provider.name, provider.line);
        let place = (file.clone(), provider.line);
        if let Some((other, line)) = names.insert(provider.name.value.clone(), place) {
            check.note(provider.name.line, Reason::DuplicateName { other, line });
        }
        let api_version = check.version(&provider.api_version, provider.line);
        checked.push(ProviderConfig {
            match_images: check.match_images(&provider.match_images, provider.line),
            default_cache_duration: check.duration(&provider),
            service_account: provider.token_attributes.as_ref().map(|attributes| check.token(attributes, api_version)),
            api_version: api_version.unwrap_or(ApiVersion::V1),
            name: provider.name.value,
            args: provider.args,
            env: provider.env,
            origin: Origin { line: provider.line, index, file },
        });
    }
    checked
}

struct Check<'a> {
    file: &'a PathBuf,
    who: ProviderRef,
    mistakes: &'a mut Vec<Mistake>,
}

impl Check<'_> {
    fn note(&mut self, line: usize, reason: Reason) {
        let (file, provider) = (self.file.clone(), Some(self.who.clone()));
        self.mistakes.push(Mistake { file, line, provider, reason });
    }

    /// The kubelet lets an empty name pass, and then finds that the directory of the binaries is no binary.
    fn name(&mut self, name: &Located<String>, line: usize) {
        match &*name.value {
            "" => return self.note(line, Reason::NoName),
            "." | ".." => self.note(name.line, Reason::Name("be `.` or `..`")),
            _ => {}
        }
        if name.contains('/') {
            self.note(name.line, Reason::Name("contain `/`"));
        }
        if name.contains(' ') {
            self.note(name.line, Reason::Name("contain blanks"));
        }
    }

    fn version(&mut self, version: &Located<String>, line: usize) -> Option<ApiVersion> {
        let parsed = version.parse().ok();
        if parsed.is_none() {
            match version.is_empty() {
                true => self.note(line, Reason::NoVersion),
                false => self.note(version.line, Reason::UnknownVersion),
            }
        }
        parsed
    }

    fn match_images(&mut self, patterns: &[Located<String>], line: usize) -> Vec<Pattern> {
        if patterns.is_empty() {
            self.note(line, Reason::NoMatchImages);
        }
        let mut parsed = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            match Pattern::parse(&pattern.value) {
                Ok(pattern) => parsed.push(pattern),
                Err(reason) => {
                    let pattern_text = credlet_api::visible(&pattern.value);
                    self.note(pattern.line, Reason::MatchImage { pattern: pattern_text, reason });
                }
            }
        }
        parsed
    }

    fn duration(&mut self, provider: &CredentialProvider) -> Duration {
        let Some(duration) = &provider.default_cache_duration else {
            self.note(provider.line, Reason::NoDuration);
            return Duration::ZERO;
        };
        Duration::try_from(duration.value).unwrap_or_else(|_| {
            self.note(duration.line, Reason::NegativeDuration);
            Duration::ZERO
        })
    }

    fn token(&mut self, attributes: &TokenAttributes, version: Option<ApiVersion>) -> ServiceAccountMode {
        let line = attributes.line;
        let audience = attributes.service_account_token_audience.value.clone();
        if audience.is_empty() {
            self.note(line, Reason::NoTokenAttribute("serviceAccountTokenAudience"));
        }
        let required = attributes.require_service_account;
        if required.is_none() {
            self.note(line, Reason::NoTokenAttribute("requireServiceAccount"));
        }
        if version.is_some_and(|version| version != ApiVersion::V1) {
            self.note(line, Reason::TokenNeedsV1);
        }
        let required_keys = &attributes.required_service_account_annotation_keys;
        let optional_keys = &attributes.optional_service_account_annotation_keys;
        if required.is_some_and(|required| !required.value) && !required_keys.is_empty() {
            self.note(line, Reason::RequiredOfNobody);
        }
        let required_annotations = self.annotations("requiredServiceAccountAnnotationKeys", required_keys);
        let optional_annotations = self.annotations("optionalServiceAccountAnnotationKeys", optional_keys);
        let both: Vec<_> = required_annotations.intersection(&optional_annotations).cloned().collect();
        if !both.is_empty() {
            self.note(line, Reason::BothRequiredAndOptional(both));
        }
        let cache_type = match &*attributes.cache_type.value {
            "ServiceAccount" => CacheType::ServiceAccount,
            "Token" => CacheType::Token,
            other => {
                self.note(
                    attributes.cache_type.line.max(line),
                    match other {
                        "" => Reason::NoTokenAttribute("cacheType"),
                        _ => Reason::UnknownCacheType,
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
            let shown = || credlet_api::visible(&key.value);
            if let Some(reason) = annotation::fault(&key.value) {
                self.note(key.line, Reason::AnnotationKey { list, key: shown(), reason });
            }
            if !seen.insert(key.value.clone()) {
                self.note(key.line, Reason::DuplicateAnnotationKey { list, key: shown() });
            }
        }
        seen
    }
}
