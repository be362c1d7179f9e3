//! The files and words of docker's that image credentials meet: `config.json`, and the protocol of credential helpers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::AuthConfig;
use crate::Secret;
use crate::wire::document::{self, Duplicates, Member, Object};
use crate::wire::fault::Fault;
use crate::wire::json;

/// With padding or without.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The credentials of a docker configuration, by registry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DockerAuths(pub BTreeMap<String, AuthConfig>);

impl DockerAuths {
    /// Reads `config.json`, or a secret of type `kubernetes.io/dockerconfigjson`. Of it only `auths` counts: credential
    /// helpers are not asked, as the kubelet does not ask them.
    ///
    /// # Errors
    /// The file's owner must act.
    pub fn from_config_json(text: &[u8]) -> Result<Self, DockerConfigError> {
        let config: WireConfig = document::read(text, Duplicates::LastWins).map_err(DockerConfigError::Unreadable)?;
        config.auths.unwrap_or_default().checked()
    }

    /// Reads the older `.dockercfg`, or a secret of type `kubernetes.io/dockercfg`.
    ///
    /// # Errors
    /// The file's owner must act.
    pub fn from_dockercfg(text: &[u8]) -> Result<Self, DockerConfigError> {
        let auths: WireAuths = document::read(text, Duplicates::LastWins).map_err(DockerConfigError::Unreadable)?;
        auths.checked()
    }

    /// A `config.json` with these credentials: docker, podman, skopeo, buildah and kaniko read it.
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

/// What the kubelet hashes to know a credential again (KEP-2535), in its bytes: empty fields are left out.
pub fn recognisable(username: &str, password: &Secret, email: &str) -> Zeroizing<String> {
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

/// Why a docker configuration gives no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DockerConfigError {
    /// Not a readable document.
    #[error("the docker configuration {0}")]
    Unreadable(Fault),
    /// An `auth` that is no pair.
    #[error("an `auth` of the docker configuration is not base64 of `username:password`")]
    Auth,
}

/// What a docker credential helper answers to `get`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HelperCredential {
    /// The registry.
    pub server_url: String,
    /// The user's name; `<token>` says that the secret is an identity token.
    pub username: String,
    /// The password, or the token.
    pub secret: Secret,
}

impl HelperCredential {
    /// What a helper prints when it has nothing, and exits with 1. Docker compares this text.
    pub const NOT_FOUND: &str = "credentials not found in native keychain";

    /// As a helper prints it.
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

    /// Reads what a helper printed.
    ///
    /// # Errors
    /// The helper's author must act.
    pub fn decode(stdout: &[u8]) -> Result<Self, Fault> {
        document::read::<WireHelper>(stdout, Duplicates::LastWins).map(|wire| wire.0)
    }
}

#[derive(Default)]
struct WireConfig {
    auths: Option<WireAuths>,
}

impl Object for WireConfig {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "auths" => value.object("auths", &mut self.auths),
            _ => value.skip(),
        }
    }
}

/// Whatever the registries are called.
#[derive(Default)]
struct WireAuths(BTreeMap<String, WireAuth>);

impl WireAuths {
    fn checked(self) -> Result<DockerAuths, DockerConfigError> {
        let pairs = self.0.into_iter().map(|(key, auth)| Ok((key, auth.checked().ok_or(DockerConfigError::Auth)?)));
        pairs.collect::<Result<_, _>>().map(DockerAuths)
    }
}

impl Object for WireAuths {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        let mut auth = None;
        value.object("auths.*", &mut auth)?;
        self.0.insert(name.to_owned(), auth.unwrap_or_default());
        Ok(())
    }
}

#[derive(Default)]
struct WireAuth {
    username: String,
    password: Secret,
    auth: Secret,
}

impl WireAuth {
    /// `auth` is both in one, and stands above the other two.
    fn checked(self) -> Option<AuthConfig> {
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

impl Object for WireAuth {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "username" => value.string("auths.*.username", &mut self.username),
            "password" => value.secret("auths.*.password", &mut self.password),
            "auth" => value.secret("auths.*.auth", &mut self.auth),
            _ => value.skip(),
        }
    }
}

#[derive(Default)]
struct WireHelper(HelperCredential);

impl Object for WireHelper {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "ServerURL" => value.string("ServerURL", &mut self.0.server_url),
            "Username" => value.string("Username", &mut self.0.username),
            "Secret" => value.secret("Secret", &mut self.0.secret),
            _ => value.skip(),
        }
    }
}
