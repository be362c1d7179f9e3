//! How it came to that: for each provider whether it was asked for an image, why not, and what became of its answer.

use std::fmt;
use std::sync::Arc;

use credlet_api::image::{AuthConfig, CacheKeyType, Remark, format_duration};

use crate::error::ProviderError;
use crate::name::ImageName;
use crate::pattern::{Mismatch, Target};
use crate::provider::{Answer, Provider};

/// The decisions of one look-up, in the order of the configuration. As text it is a short story.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The image, completed.
    pub image: ImageName,
    /// The hash of the configuration.
    pub config_hash: String,
    /// One for each provider.
    pub steps: Vec<Step>,
}

/// What became of one provider.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name.
    pub provider: String,
    /// The first pattern that matched the image. `None`: the provider was not asked.
    pub matched: Option<String>,
    /// Why the other patterns did not, if that was wanted and none matched.
    pub near_misses: Vec<NearMiss>,
    /// What came of asking it.
    pub outcome: Option<Outcome>,
    /// The keys of its answer that match the image, in the order in which they are tried.
    pub kept: Vec<String>,
}

/// A pattern that did not match, and everything that kept it from doing so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The pattern.
    pub pattern: String,
    /// Why not.
    pub reasons: Vec<Mismatch>,
}

impl NearMiss {
    /// Whether it was near at all: one thing only is in the way.
    pub fn is_near(&self) -> bool {
        matches!(&self.reasons[..], [reason] if !matches!(reason, Mismatch::Label { .. } | Mismatch::LabelCount { .. }))
    }
}

/// What came of asking a provider.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was passed over.
    Skipped(Skipped),
    /// An earlier answer was still good.
    Remembered(Arc<Answer>),
    /// It was run, or a run that was under way was waited for.
    Ran(Arc<Answer>),
    /// It failed, now or just before.
    Failed(Arc<ProviderError>),
}

/// Why a provider whose pattern matched was passed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Skipped {
    /// There is none of this name.
    #[error("there is no provider of this name")]
    NoSuchProvider,
    /// The pod has no service account.
    #[error("it needs a service account, and there is none")]
    NoServiceAccount,
    /// The account lacks an annotation.
    #[error("the service account `{account}` lacks the annotation `{key}`")]
    MissingAnnotation {
        /// The account.
        account: String,
        /// The annotation.
        key: String,
    },
}

impl Answer {
    /// How widely it may be used.
    pub fn scope(&self) -> CacheKeyType {
        self.scope
    }

    /// How long, from when it was given. Zero: not beyond those who waited for it.
    pub fn lifetime(&self) -> std::time::Duration {
        self.lifetime
    }

    /// How long the run took.
    pub fn took(&self) -> std::time::Duration {
        self.took
    }

    /// For which image the provider was asked.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// All of its credentials, by key in its normal form.
    pub fn auths(&self) -> impl Iterator<Item = (&str, &AuthConfig)> {
        self.keyring.auths()
    }

    /// What was odd about it.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }
}

impl Step {
    pub(crate) fn new(provider: &Provider, matched: Option<usize>) -> Self {
        let pattern = matched.and_then(|place| provider.config.match_images.get(place));
        Self {
            provider: provider.config.name.clone(),
            matched: pattern.map(|pattern| pattern.as_str().to_owned()),
            near_misses: Vec::new(),
            outcome: None,
            kept: Vec::new(),
        }
    }

    pub(crate) fn near_misses(&mut self, provider: &Provider, target: &Target<'_>) {
        let miss = |pattern: &crate::Pattern| NearMiss {
            pattern: pattern.as_str().to_owned(),
            reasons: pattern.mismatches(target),
        };
        self.near_misses = provider.config.match_images.iter().map(miss).collect();
    }

    /// Takes note of the outcome, and adds its credentials to those that are tried.
    pub(crate) fn answered(&mut self, outcome: Outcome, step: usize, keyrings: &mut Vec<(usize, Arc<Answer>)>) {
        if let Outcome::Remembered(answer) | Outcome::Ran(answer) = &outcome {
            keyrings.push((step, Arc::clone(answer)));
        }
        self.outcome = Some(outcome);
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Some(Outcome::Remembered(answer) | Outcome::Ran(answer)) => Some(answer),
            _ => None,
        }
    }

    /// The keys of its answer that do not match the image.
    pub fn unused_keys(&self) -> Vec<String> {
        let keys = self.answer().into_iter().flat_map(|answer| answer.keyring.keys());
        keys.filter(|key| !self.kept.iter().any(|kept| kept == key)).map(credlet_api::visible).collect()
    }

    /// What happened and what can be done about it, a line each.
    pub fn story(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let Some(pattern) = &self.matched else {
            lines.push(Line::no("not asked: none of its patterns matches the image"));
            let near = self.near_misses.iter().filter(|miss| miss.is_near());
            lines.extend(near.map(|miss| Line::hint(format!("`{}` nearly does: {}", miss.pattern, miss.reasons[0]))));
            return lines;
        };
        lines.push(Line::yes(format!("the pattern `{}` matches", credlet_api::visible(pattern))));
        match &self.outcome {
            None => {}
            Some(Outcome::Skipped(skipped)) => lines.push(Line::no(format!("passed over: {skipped}"))),
            Some(Outcome::Failed(error)) => {
                lines.push(Line::no(error.to_string()));
                lines.extend(error.hints().into_iter().map(Line::hint));
            }
            Some(Outcome::Remembered(answer)) => {
                let (scope, image) = (answer.scope.as_str(), &answer.image);
                lines.push(Line::yes(format!("a remembered answer was still good (scope {scope}, given for {image})")));
            }
            Some(Outcome::Ran(answer)) => {
                let remembered = match answer.lifetime.is_zero() {
                    true => "not remembered".to_owned(),
                    false => format!("remembered for {}", format_duration(answer.lifetime)),
                };
                let (took, scope) = (format_duration(answer.took), answer.scope.as_str());
                lines.push(Line::yes(format!("it was run and answered in {took} (scope {scope}, {remembered})")));
                lines.extend(answer.remarks.iter().map(|remark| Line::hint(remark.to_string())));
            }
        }
        if let Some(answer) = self.answer() {
            self.keys(answer, &mut lines);
        }
        lines
    }

    fn keys(&self, answer: &Answer, lines: &mut Vec<Line>) {
        for key in &self.kept {
            lines.push(Line::yes(format!("the credential for `{}` is tried", credlet_api::visible(key))));
        }
        for key in self.unused_keys() {
            lines.push(Line::no(format!("the credential for `{key}` is not for this image")));
        }
        for ignored in answer.keyring.ignored() {
            lines.push(Line::no(format!(
                "the key `{}` is none: {}",
                credlet_api::visible(&ignored.key),
                ignored.reason
            )));
        }
        if self.kept.is_empty() {
            lines.push(Line::no("it has no credential for this image"));
        }
    }
}

/// A line of a story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Whether it is good news; `None` for advice.
    pub good: Option<bool>,
    /// The line itself.
    pub text: String,
}

impl Line {
    fn yes(text: impl Into<String>) -> Self {
        Self { good: Some(true), text: text.into() }
    }

    fn no(text: impl Into<String>) -> Self {
        Self { good: Some(false), text: text.into() }
    }

    fn hint(text: impl Into<String>) -> Self {
        Self { good: None, text: text.into() }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.good {
            Some(true) => "✓ ",
            Some(false) => "✗ ",
            None => "hint: ",
        };
        write!(f, "{mark}{}", self.text)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.image)?;
        for step in &self.steps {
            writeln!(f, "  {}", credlet_api::visible(&step.provider))?;
            for line in step.story() {
                writeln!(f, "    {line}")?;
            }
        }
        Ok(())
    }
}
