//! What a provider printed, read as strictly as the kubelet reads it, with a reason where the kubelet gives none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::MapAccess;

use super::{ApiVersion, AuthConfig, CacheKeyType, CredentialProviderResponse};
use crate::Secret;
use crate::wire::document::{self, Member, Object};
use crate::wire::duration;
use crate::wire::fault::Fault;

impl CredentialProviderResponse {
    /// Reads a provider's standard output, of which `version` was asked for. What is odd and taken all the same comes
    /// beside it.
    ///
    /// # Errors
    /// The provider's author must act. No value of the answer is in the error.
    pub fn decode(stdout: &[u8], version: ApiVersion) -> Result<(Self, Vec<Remark>), AnswerError> {
        let text = std::str::from_utf8(stdout)
            .map_err(|error| AnswerError::Unreadable(Fault::NotText { byte: error.valid_up_to() }))?;
        if text.trim().is_empty() {
            return Err(AnswerError::Unreadable(Fault::Empty));
        }
        let wire: WireAnswer = document::read_json(text).map_err(AnswerError::Unreadable)?;
        if wire.api_version != version.as_str() {
            return Err(AnswerError::OtherVersion { asked: version, answered: shown(&wire.api_version) });
        }
        if let Some(slip) = wire.slips.into_iter().next() {
            return Err(slip);
        }
        if wire.kind != "CredentialProviderResponse" {
            return Err(AnswerError::Kind { kind: shown(&wire.kind) });
        }
        let auths = wire.auth.unwrap_or_default();
        if let Some(slip) = auths.slips.into_iter().next() {
            return Err(slip);
        }
        let key_type = CacheKeyType::ALL.into_iter().find(|key_type| key_type.as_str() == wire.cache_key_type);
        let cache_key_type =
            key_type.ok_or_else(|| AnswerError::CacheKeyType { found: shown(&wire.cache_key_type) })?;

        let mut remarks = Vec::new();
        let cache_duration = wire.cache_duration.map(|lifetime| {
            // An answer that has expired already is one that is not remembered.
            Duration::try_from(lifetime).unwrap_or_else(|_| {
                remarks.push(Remark::NegativeDuration);
                Duration::ZERO
            })
        });
        if auths.entries.is_empty() {
            remarks.push(Remark::NoCredentials);
        }
        for (key, auth) in &auths.entries {
            if auth.username.is_empty() || auth.password.is_empty() {
                remarks.push(Remark::Incomplete { key: shown(key) });
            }
        }
        Ok((Self { cache_key_type, cache_duration, auth: auths.entries }, remarks))
    }
}

/// Why a provider's answer is none. The provider's author must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Not one JSON object with fields of the right types.
    #[error("its answer {0}")]
    Unreadable(Fault),
    /// An answer to another question.
    #[error("it answered in `{answered}` and was asked in `{asked}`")]
    OtherVersion {
        /// What was asked for.
        asked: ApiVersion,
        /// What came; may be empty.
        answered: String,
    },
    /// Another object.
    #[error("its answer is of kind `{kind}` and not `CredentialProviderResponse`")]
    Kind {
        /// What it is; may be empty.
        kind: String,
    },
    /// A field that the version does not have. Names count with their upper and lower case.
    #[error("its answer has an unknown field `{name}` in {place}")]
    UnknownField {
        /// The object.
        place: &'static str,
        /// The field.
        name: String,
    },
    /// A field that stands twice.
    #[error("its answer has the field `{name}` twice in {place}")]
    DuplicateField {
        /// The object.
        place: &'static str,
        /// The field.
        name: String,
    },
    /// Nobody knows how widely it may be used.
    #[error("its `cacheKeyType` is `{found}` and not one of Image, Registry and Global")]
    CacheKeyType {
        /// What it is; may be empty.
        found: String,
    },
}

/// What is odd about an answer that is taken all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Remark {
    /// A duration below zero: the answer is not remembered.
    #[error("`cacheDuration` is negative, so the answer is never used twice")]
    NegativeDuration,
    /// No entry in `auth`.
    #[error("`auth` is empty: the image is pulled without credentials, and that is remembered")]
    NoCredentials,
    /// An entry without user name or password.
    #[error("`auth` has an entry without user name or password: {key}")]
    Incomplete {
        /// Its key.
        key: String,
    },
}

/// Foreign text in a message: harmless, on one line, and no more than a name has.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    let clean = crate::scrub(&short, []);
    format!("{}{dots}", crate::visible(&clean).replace(|c: char| c.is_control(), " "))
}

#[derive(Default)]
struct WireAnswer {
    kind: String,
    api_version: String,
    cache_key_type: String,
    cache_duration: Option<SignedDuration>,
    auth: Option<WireAuths>,
    seen: BTreeSet<String>,
    slips: Vec<AnswerError>,
}

impl Object for WireAnswer {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        const PLACE: &str = "the answer";
        note_duplicate(&mut self.seen, &mut self.slips, PLACE, name);
        match name {
            "kind" => value.string("kind", &mut self.kind),
            "apiVersion" => value.string("apiVersion", &mut self.api_version),
            "cacheKeyType" => value.string("cacheKeyType", &mut self.cache_key_type),
            "cacheDuration" => {
                let expected = "a duration such as \"1h30m\"";
                value.parsed("cacheDuration", expected, &mut self.cache_duration, |text| duration::parse(text).ok())
            }
            "auth" => value.object("auth", &mut self.auth),
            _ => {
                self.slips.push(AnswerError::UnknownField { place: PLACE, name: shown(name) });
                value.skip()
            }
        }
    }
}

/// Whatever the keys are called.
#[derive(Default)]
struct WireAuths {
    entries: BTreeMap<String, AuthConfig>,
    seen: BTreeSet<String>,
    slips: Vec<AnswerError>,
}

impl Object for WireAuths {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        note_duplicate(&mut self.seen, &mut self.slips, "`auth`", name);
        let mut auth = None;
        value.object::<WireAuth>("auth.*", &mut auth)?;
        let auth = auth.unwrap_or_default();
        self.slips.extend(auth.slips);
        self.entries.insert(name.to_owned(), AuthConfig { username: auth.username, password: auth.password });
        Ok(())
    }
}

#[derive(Default)]
struct WireAuth {
    username: String,
    password: Secret,
    seen: BTreeSet<String>,
    slips: Vec<AnswerError>,
}

impl Object for WireAuth {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        const PLACE: &str = "an entry of `auth`";
        note_duplicate(&mut self.seen, &mut self.slips, PLACE, name);
        match name {
            "username" => value.string("auth.*.username", &mut self.username),
            "password" => value.secret("auth.*.password", &mut self.password),
            _ => {
                self.slips.push(AnswerError::UnknownField { place: PLACE, name: shown(name) });
                value.skip()
            }
        }
    }
}

fn note_duplicate(seen: &mut BTreeSet<String>, slips: &mut Vec<AnswerError>, place: &'static str, name: &str) {
    if !seen.insert(name.to_owned()) {
        slips.push(AnswerError::DuplicateField { place, name: shown(name) });
    }
}
