//! Trace of a lookup: for each provider whether it was run, the result, and the credentials that were used.

use std::fmt;
use std::sync::Arc;

use credlet_api::image::{AuthConfig, CacheKeyType, ResponseWarning, format_duration};

use crate::error::ProviderError;
use crate::name::ImageName;
use crate::pattern::{MatchTarget, PatternMismatch};
use crate::provider::{Provider, ProviderResponse};

/// Decisions of one lookup, in configuration order. `Display` prints one line per decision.
#[derive(Clone, Debug)]
pub struct LookupTrace {
    /// The normalised image name.
    pub image: ImageName,
    /// Hash of the configuration.
    pub config_hash: String,
    /// One step per provider.
    pub steps: Vec<TraceStep>,
}

/// Result of one provider.
#[derive(Clone, Debug)]
pub struct TraceStep {
    /// Name of the provider.
    pub provider: String,
    /// The first pattern that matched the image. `None` if no pattern did; the provider is then not run.
    pub matched: Option<String>,
    /// Mismatches of all patterns, if requested and none matched.
    pub near_misses: Vec<NearMiss>,
    /// Outcome, if a pattern matched.
    pub outcome: Option<StepOutcome>,
    /// Keys of the response that match the image, in the order in which they are tried.
    pub used_keys: Vec<String>,
}

/// A pattern that did not match, with all reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The pattern as configured, untrusted text.
    pub pattern: String,
    /// All mismatches; a pattern with a scheme has only that one.
    pub reasons: Vec<PatternMismatch>,
}

impl NearMiss {
    /// Returns whether there is a single reason, and it is not a different host label.
    pub fn is_near(&self) -> bool {
        matches!(&self.reasons[..], [reason] if !matches!(reason, PatternMismatch::Label { .. } | PatternMismatch::LabelCount { .. }))
    }
}

/// Outcome for a provider with a matching pattern.
#[derive(Clone, Debug)]
pub enum StepOutcome {
    /// The provider was not run.
    Skipped(SkipReason),
    /// A cached response was used.
    Cached(Arc<ProviderResponse>),
    /// The provider was run, or a run in flight was shared.
    Ran(Arc<ProviderResponse>),
    /// The run failed, now or recently.
    Failed(Arc<ProviderError>),
}

/// Reason for skipping a provider with a matching pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// The configuration has no provider of this name.
    #[error("unknown provider")]
    NoSuchProvider,
    /// The pod has no service account.
    #[error("missing service account, which the provider requires")]
    NoServiceAccount,
    /// The service account lacks a required annotation.
    #[error("missing annotation `{key}` of the service account `{account}`")]
    MissingAnnotation {
        /// Name of the account.
        account: String,
        /// Key of the annotation.
        key: String,
    },
}

impl ProviderResponse {
    /// Returns the scope in which the response may be used.
    pub fn scope(&self) -> CacheKeyType {
        self.scope
    }

    /// Returns the cache duration. Zero means that only the waiting callers use the response.
    pub fn lifetime(&self) -> std::time::Duration {
        self.lifetime
    }

    /// Returns the duration of the run.
    pub fn took(&self) -> std::time::Duration {
        self.took
    }

    /// Returns the image of the request.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// Returns all credentials by normalised key.
    pub fn auths(&self) -> impl Iterator<Item = (&str, &AuthConfig)> {
        self.keyring.auths()
    }

    /// Returns the warnings of decoding.
    pub fn warnings(&self) -> &[ResponseWarning] {
        &self.warnings
    }
}

impl TraceStep {
    pub(crate) fn new(provider: &Provider, matched: Option<usize>) -> Self {
        let pattern = matched.and_then(|place| provider.config.match_images.get(place));
        Self {
            provider: provider.config.name.clone(),
            matched: pattern.map(|pattern| pattern.as_str().to_owned()),
            near_misses: Vec::new(),
            outcome: None,
            used_keys: Vec::new(),
        }
    }

    pub(crate) fn near_misses(&mut self, provider: &Provider, target: &MatchTarget<'_>) {
        let miss = |pattern: &crate::ImagePattern| NearMiss {
            pattern: pattern.as_str().to_owned(),
            reasons: pattern.mismatches(target),
        };
        self.near_misses = provider.config.match_images.iter().map(miss).collect();
    }

    /// Records the outcome and adds its response to `keyrings`.
    pub(crate) fn record(
        &mut self,
        outcome: StepOutcome,
        step: usize,
        keyrings: &mut Vec<(usize, Arc<ProviderResponse>)>,
    ) {
        if let StepOutcome::Cached(response) | StepOutcome::Ran(response) = &outcome {
            keyrings.push((step, Arc::clone(response)));
        }
        self.outcome = Some(outcome);
    }

    /// Returns the response, if any.
    pub fn response(&self) -> Option<&ProviderResponse> {
        match &self.outcome {
            Some(StepOutcome::Cached(response) | StepOutcome::Ran(response)) => Some(response),
            _ => None,
        }
    }

    /// Returns the keys of the response that do not match the image.
    pub fn unused_keys(&self) -> Vec<String> {
        let keys = self.response().into_iter().flat_map(|response| response.keyring.keys());
        keys.filter(|key| !self.used_keys.iter().any(|used| used == key))
            .map(credlet_api::escape_control_chars)
            .collect()
    }

    /// Returns the decisions and hints of this step.
    pub fn lines(&self) -> Vec<TraceLine> {
        let mut lines = Vec::new();
        let Some(pattern) = &self.matched else {
            lines.push(TraceLine::no("not run: no pattern matches the image"));
            let near = self.near_misses.iter().filter(|miss| miss.is_near());
            lines.extend(
                near.map(|miss| TraceLine::hint(format!("`{}` nearly matches: {}", miss.pattern, miss.reasons[0]))),
            );
            return lines;
        };
        lines.push(TraceLine::yes(format!("the pattern `{}` matches", credlet_api::escape_control_chars(pattern))));
        match &self.outcome {
            None => {}
            Some(StepOutcome::Skipped(skipped)) => lines.push(TraceLine::no(format!("skipped: {skipped}"))),
            Some(StepOutcome::Failed(error)) => {
                lines.push(TraceLine::no(error.to_string()));
                lines.extend(error.hints().into_iter().map(TraceLine::hint));
            }
            Some(StepOutcome::Cached(response)) => {
                let (scope, image) = (response.scope.as_str(), &response.image);
                lines.push(TraceLine::yes(format!("used a cached response (scope {scope}, for {image})")));
            }
            Some(StepOutcome::Ran(response)) => {
                let cached = match response.lifetime.is_zero() {
                    true => "not cached".to_owned(),
                    false => format!("cached for {}", format_duration(response.lifetime)),
                };
                let (took, scope) = (format_duration(response.took), response.scope.as_str());
                lines.push(TraceLine::yes(format!("ran in {took} (scope {scope}, {cached})")));
                lines.extend(response.warnings.iter().map(|warning| TraceLine::hint(warning.to_string())));
            }
        }
        if let Some(response) = self.response() {
            self.key_lines(response, &mut lines);
        }
        lines
    }

    fn key_lines(&self, response: &ProviderResponse, lines: &mut Vec<TraceLine>) {
        for key in &self.used_keys {
            lines.push(TraceLine::yes(format!(
                "the credential for `{}` is tried",
                credlet_api::escape_control_chars(key)
            )));
        }
        for key in self.unused_keys() {
            lines.push(TraceLine::no(format!("the credential for `{key}` is not for this image")));
        }
        for ignored in response.keyring.ignored() {
            lines.push(TraceLine::no(format!(
                "invalid key `{}`: {}",
                credlet_api::escape_control_chars(&ignored.key),
                ignored.reason
            )));
        }
        if self.used_keys.is_empty() {
            lines.push(TraceLine::no("no credential for this image"));
        }
    }
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Success or failure; `None` for a hint.
    pub success: Option<bool>,
    /// Text of the line.
    pub text: String,
}

impl TraceLine {
    fn yes(text: impl Into<String>) -> Self {
        Self { success: Some(true), text: text.into() }
    }

    fn no(text: impl Into<String>) -> Self {
        Self { success: Some(false), text: text.into() }
    }

    fn hint(text: impl Into<String>) -> Self {
        Self { success: None, text: text.into() }
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.success {
            Some(true) => "✓ ",
            Some(false) => "✗ ",
            None => "hint: ",
        };
        write!(f, "{mark}{}", self.text)
    }
}

impl fmt::Display for LookupTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.image)?;
        for step in &self.steps {
            writeln!(f, "  {}", credlet_api::escape_control_chars(&step.provider))?;
            for line in step.lines() {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
