//! Decoding of a provider's output, as strict as the kubelet's, with a reason where the kubelet gives none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::{Error as _, MapAccess};
use serde::{Deserialize, Deserializer};

use super::{AuthConfig, CacheKeyType, CredentialProviderResponse, ProviderApiVersion, RESPONSE_KIND};
use crate::Secret;
use crate::wire::document::{self, DecodeObject, MemberValue};
use crate::wire::duration;
use crate::wire::error::DocumentError;

impl CredentialProviderResponse {
    /// Decodes the standard output of a provider, which must have the version of the request. Returns warnings beside
    /// the response.
    ///
    /// # Errors
    /// Where the kubelet rejects the output. The error quotes no value.
    pub fn decode(
        stdout: &[u8],
        version: ProviderApiVersion,
    ) -> Result<(Self, Vec<ResponseWarning>), InvalidProviderResponse> {
        let text = std::str::from_utf8(stdout).map_err(|error| {
            InvalidProviderResponse::InvalidDocument(DocumentError::NotUtf8 { byte: error.valid_up_to() })
        })?;
        if text.trim().is_empty() {
            return Err(InvalidProviderResponse::InvalidDocument(DocumentError::Empty));
        }
        let document: ResponseDocument = document::read_json(text).map_err(InvalidProviderResponse::InvalidDocument)?;
        document.into_response(version)
    }
}

impl<'de> Deserialize<'de> for CredentialProviderResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document: ResponseDocument = document::deserialize(deserializer)?;
        let version = document.api_version.parse().map_err(D::Error::custom)?;
        let (response, _) = document.into_response(version).map_err(D::Error::custom)?;
        Ok(response)
    }
}

impl<'de> Deserialize<'de> for AuthConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let AuthDocument { username, password, errors, .. } = document::deserialize(deserializer)?;
        errors.into_iter().next().map_or(Ok(Self { username, password }), |error| Err(D::Error::custom(error)))
    }
}

/// Error in the standard output of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProviderResponse {
    /// The output is not one JSON object with fields of the right types.
    #[error(transparent)]
    InvalidDocument(DocumentError),
    /// The output has another version than the request.
    #[error("unexpected apiVersion `{received}`: the kubelet requested `{requested}`")]
    VersionMismatch {
        /// Version of the request.
        requested: ProviderApiVersion,
        /// Version of the output; may be empty.
        received: String,
    },
    /// The output is another object.
    #[error("unexpected kind `{kind}`: must be `CredentialProviderResponse`")]
    UnexpectedKind {
        /// Kind of the output; may be empty.
        kind: String,
    },
    /// The version does not have this field. Names are case-sensitive.
    #[error("unknown field `{name}` in {place}")]
    UnknownField {
        /// The object that has the field.
        place: &'static str,
        /// Name of the field.
        name: String,
    },
    /// A field occurs twice.
    #[error("duplicate field `{name}` in {place}")]
    DuplicateField {
        /// The object that has the field.
        place: &'static str,
        /// Name of the field.
        name: String,
    },
    /// The `cacheKeyType` is missing or unknown.
    #[error("invalid `cacheKeyType` `{found}`: must be Image, Registry or Global")]
    InvalidCacheKeyType {
        /// The value; may be empty.
        found: String,
    },
}

/// Warning about a valid response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseWarning {
    /// The `cacheDuration` is negative.
    #[error("invalid `cacheDuration`: negative, so the response is not cached")]
    NegativeDuration,
    /// `auth` is empty.
    #[error("`auth` is empty: the image is pulled without credentials, and this result is cached")]
    NoCredentials,
    /// An entry has no user name or no password.
    #[error("missing user name or password in the `auth` entry {key}")]
    Incomplete {
        /// Key of the entry.
        key: String,
    },
}

/// Returns a name for an error message: redacted, escaped, in one line, truncated to 80 characters.
fn quoted_name(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    let clean = crate::redact(&short, []);
    format!("{}{dots}", crate::escape_line(&clean))
}

#[derive(Default)]
struct ResponseDocument {
    kind: String,
    api_version: String,
    cache_key_type: String,
    cache_duration: Option<SignedDuration>,
    auth: Option<AuthMapDocument>,
    seen: BTreeSet<String>,
    errors: Vec<InvalidProviderResponse>,
}

impl ResponseDocument {
    fn into_response(
        self,
        version: ProviderApiVersion,
    ) -> Result<(CredentialProviderResponse, Vec<ResponseWarning>), InvalidProviderResponse> {
        if self.api_version != version.as_str() {
            let received = quoted_name(&self.api_version);
            return Err(InvalidProviderResponse::VersionMismatch { requested: version, received });
        }
        if let Some(error) = self.errors.into_iter().next() {
            return Err(error);
        }
        if self.kind != RESPONSE_KIND {
            return Err(InvalidProviderResponse::UnexpectedKind { kind: quoted_name(&self.kind) });
        }
        let auths = self.auth.unwrap_or_default();
        if let Some(error) = auths.errors.into_iter().next() {
            return Err(error);
        }
        let key_type = CacheKeyType::ALL.into_iter().find(|key_type| key_type.as_str() == self.cache_key_type);
        let cache_key_type = key_type
            .ok_or_else(|| InvalidProviderResponse::InvalidCacheKeyType { found: quoted_name(&self.cache_key_type) })?;

        let mut warnings = Vec::new();
        let cache_duration = self.cache_duration.map(|lifetime| {
            // A response that is expired on arrival is not cached.
            Duration::try_from(lifetime).unwrap_or_else(|_| {
                warnings.push(ResponseWarning::NegativeDuration);
                Duration::ZERO
            })
        });
        if auths.entries.is_empty() {
            warnings.push(ResponseWarning::NoCredentials);
        }
        for (key, auth) in &auths.entries {
            if auth.username.is_empty() || auth.password.is_empty() {
                warnings.push(ResponseWarning::Incomplete { key: quoted_name(key) });
            }
        }
        Ok((CredentialProviderResponse { cache_key_type, cache_duration, auth: auths.entries }, warnings))
    }
}

impl DecodeObject for ResponseDocument {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        const PLACE: &str = "the response";
        note_duplicate(&mut self.seen, &mut self.errors, PLACE, name);
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
                self.errors.push(InvalidProviderResponse::UnknownField { place: PLACE, name: quoted_name(name) });
                value.skip()
            }
        }
    }
}

/// The mapping `auth`, with arbitrary keys.
#[derive(Default)]
struct AuthMapDocument {
    entries: BTreeMap<String, AuthConfig>,
    seen: BTreeSet<String>,
    errors: Vec<InvalidProviderResponse>,
}

impl DecodeObject for AuthMapDocument {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        note_duplicate(&mut self.seen, &mut self.errors, "`auth`", name);
        let mut auth = None;
        value.object::<AuthDocument>("auth.*", &mut auth)?;
        let auth = auth.unwrap_or_default();
        self.errors.extend(auth.errors);
        self.entries.insert(name.to_owned(), AuthConfig { username: auth.username, password: auth.password });
        Ok(())
    }
}

#[derive(Default)]
struct AuthDocument {
    username: String,
    password: Secret,
    seen: BTreeSet<String>,
    errors: Vec<InvalidProviderResponse>,
}

impl DecodeObject for AuthDocument {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        const PLACE: &str = "an entry of `auth`";
        note_duplicate(&mut self.seen, &mut self.errors, PLACE, name);
        match name {
            "username" => value.string("auth.*.username", &mut self.username),
            "password" => value.secret("auth.*.password", &mut self.password),
            _ => {
                self.errors.push(InvalidProviderResponse::UnknownField { place: PLACE, name: quoted_name(name) });
                value.skip()
            }
        }
    }
}

fn note_duplicate(
    seen: &mut BTreeSet<String>,
    errors: &mut Vec<InvalidProviderResponse>,
    place: &'static str,
    name: &str,
) {
    if !seen.insert(name.to_owned()) {
        errors.push(InvalidProviderResponse::DuplicateField { place, name: quoted_name(name) });
    }
}
