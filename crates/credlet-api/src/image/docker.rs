//! Docker's `config.json` and the protocol of docker credential helpers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::AuthConfig;
use crate::Secret;
use crate::wire::document::{self, DecodeObject, DuplicateKeys, MemberValue, decode_object};
use crate::wire::error::DocumentError;
use crate::wire::json;

/// Base64 with optional padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The credentials of a docker `config.json`, by registry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DockerAuths(pub BTreeMap<String, AuthConfig>);

impl DockerAuths {
    /// Decodes `config.json`, or a secret of type `kubernetes.io/dockerconfigjson`. Only `auths` is used; like the
    /// kubelet, this ignores credential helpers.
    ///
    /// # Errors
    /// If the file is not JSON of this form.
    pub fn from_config_json(text: &[u8]) -> Result<Self, DockerConfigError> {
        let config: ConfigDocument =
            document::read(text, DuplicateKeys::LastWins).map_err(DockerConfigError::InvalidDocument)?;
        config.auths.unwrap_or_default().into_auths()
    }

    /// Decodes the older `.dockercfg`, or a secret of type `kubernetes.io/dockercfg`.
    ///
    /// # Errors
    /// If the file is not JSON of this form.
    pub fn from_dockercfg(text: &[u8]) -> Result<Self, DockerConfigError> {
        let auths: AuthsDocument =
            document::read(text, DuplicateKeys::LastWins).map_err(DockerConfigError::InvalidDocument)?;
        auths.into_auths()
    }

    /// Returns a `config.json` with these credentials, for docker, podman, skopeo, buildah and kaniko.
    pub fn to_config_json(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        struct Config<'a> {
            auths: BTreeMap<&'a str, Auth>,
        }
        #[derive(Serialize)]
        struct Auth {
            auth: String,
        }
        let encoded = |auth: &AuthConfig| {
            let pair = Zeroizing::new(format!("{}:{}", auth.username, auth.password.expose()));
            Auth { auth: STANDARD.encode(pair.as_bytes()) }
        };
        let auths = self.0.iter().map(|(key, auth)| (key.as_str(), encoded(auth))).collect();
        Zeroizing::new(json::to_string(&Config { auths }))
    }
}

/// Returns the JSON that the kubelet hashes to identify a credential (KEP-2535). Empty fields are omitted.
pub fn credential_hash_input(username: &str, password: &Secret, email: &str) -> Zeroizing<String> {
    #[derive(Serialize)]
    struct Wire<'a> {
        #[serde(skip_serializing_if = "str::is_empty")]
        username: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        password: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        email: &'a str,
    }
    Zeroizing::new(json::to_string(&Wire { username, password: password.expose(), email }))
}

/// Error in a docker configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DockerConfigError {
    /// The file is not a valid document.
    #[error("invalid docker configuration: {0}")]
    InvalidDocument(DocumentError),
    /// An `auth` is not base64 of `username:password`.
    #[error("invalid docker configuration: `auth` must be base64 of `username:password`")]
    InvalidAuth,
}

/// The output of a docker credential helper for the command `get`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DockerHelperCredential {
    /// URL of the registry.
    pub server_url: String,
    /// User name; `<token>` means that the secret is an identity token.
    pub username: String,
    /// Password or identity token.
    pub secret: Secret,
}

impl DockerHelperCredential {
    /// Output of a helper without credentials, which then exits with 1. Docker compares this text.
    pub const NOT_FOUND: &str = "credentials not found in native keychain";

    /// Returns the standard output of a helper.
    pub fn encode(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Wire<'a> {
            #[serde(rename = "ServerURL")]
            server_url: &'a str,
            username: &'a str,
            secret: &'a str,
        }
        let wire = Wire { server_url: &self.server_url, username: &self.username, secret: self.secret.expose() };
        let mut text = Zeroizing::new(json::to_string(&wire));
        text.push('\n');
        text
    }

    /// Decodes the standard output of a helper.
    ///
    /// # Errors
    /// If the output is not a JSON object with fields of these types.
    pub fn decode(stdout: &[u8]) -> Result<Self, DocumentError> {
        document::read::<HelperDocument>(stdout, DuplicateKeys::LastWins).map(|wire| wire.0)
    }
}

#[derive(Default)]
struct ConfigDocument {
    auths: Option<AuthsDocument>,
}

decode_object! { ConfigDocument, "",
    "auths" => object(auths),
}

/// The mapping `auths`, with arbitrary keys.
#[derive(Default)]
struct AuthsDocument(BTreeMap<String, AuthDocument>);

impl AuthsDocument {
    fn into_auths(self) -> Result<DockerAuths, DockerConfigError> {
        let pairs = self
            .0
            .into_iter()
            .map(|(key, auth)| Ok((key, auth.into_auth_config().ok_or(DockerConfigError::InvalidAuth)?)));
        pairs.collect::<Result<_, _>>().map(DockerAuths)
    }
}

impl DecodeObject for AuthsDocument {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        let mut auth = None;
        value.object("auths.*", &mut auth)?;
        self.0.insert(name.to_owned(), auth.unwrap_or_default());
        Ok(())
    }
}

#[derive(Default)]
struct AuthDocument {
    username: String,
    password: Secret,
    auth: Secret,
}

impl AuthDocument {
    /// Decodes the pair. `auth` has precedence over `username` and `password`.
    fn into_auth_config(self) -> Option<AuthConfig> {
        if self.auth.is_empty() {
            return Some(AuthConfig { username: self.username, password: self.password });
        }
        let mut text = Zeroizing::new(self.auth.expose().trim().to_owned());
        text.retain(|c| !matches!(c, '\r' | '\n'));
        let pair = Zeroizing::new(LENIENT.decode(text.as_bytes()).ok()?);
        let (username, password) = std::str::from_utf8(&pair).ok()?.split_once(':')?;
        Some(AuthConfig { username: username.to_owned(), password: Secret::new(password) })
    }
}

decode_object! { AuthDocument, "auths.*.",
    "username" => string(username),
    "password" => secret(password),
    "auth" => secret(auth),
}

#[derive(Default)]
struct HelperDocument(DockerHelperCredential);

decode_object! { HelperDocument, "",
    "ServerURL" => string(0.server_url),
    "Username" => string(0.username),
    "Secret" => secret(0.secret),
}
