//! `credentialprovider.kubelet.k8s.io`: what the kubelet asks an image credential provider, and what that answers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde::de::MapAccess;
use zeroize::Zeroizing;

mod account;
mod answer;
mod azure;
mod config;
mod docker;

pub use self::account::{AccountObject, PodObject, TokenWish};
pub use self::answer::{AnswerError, Remark};
pub use self::azure::AzureConfig;
pub use self::config::{
    CONFIG_KIND, ConfigFault, ConfigMistake, CredentialProvider, CredentialProviderConfig, EnvVar, ProviderRef,
    TokenAttributes,
};
pub use self::docker::{DockerAuths, DockerConfigError, HelperCredential, recognisable};
use crate::Secret;
use crate::wire::document::{self, Duplicates, Member, Object};
pub use crate::wire::duration::{DurationError, format as format_duration, parse as parse_duration};
use crate::wire::fault::Fault;
use crate::wire::version::api_versions;
use crate::wire::{duration, json};

api_versions! {
    /// A version of `credentialprovider.kubelet.k8s.io`.
    "credentialprovider.kubelet.k8s.io" {
        /// Since Kubernetes 1.20.
        V1alpha1 = "v1alpha1",
        /// Since Kubernetes 1.24.
        V1beta1 = "v1beta1",
        /// Since Kubernetes 1.26.
        V1 = "v1",
    }
}

/// The question: credentials for which image?
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialProviderRequest {
    /// The version in which the kubelet wants its answer.
    pub version: ApiVersion,
    /// The image, without tag and digest.
    pub image: String,
    /// A token of the pod's service account, if the provider is configured to get one (v1 only).
    pub service_account_token: Option<Secret>,
    /// The annotations of that service account which the provider is configured to get (v1 only).
    pub service_account_annotations: BTreeMap<String, String>,
}

impl CredentialProviderRequest {
    /// The question, ready for a provider's standard input: to the byte as the kubelet writes it. Only v1 has a
    /// place for the service account.
    pub fn encode(&self) -> Zeroizing<String> {
        let has_account = self.version == ApiVersion::V1;
        let token = self.service_account_token.as_ref().map(Secret::expose);
        let mut text = Zeroizing::new(json::to_string(&WireQuestion {
            kind: "CredentialProviderRequest",
            api_version: self.version.as_str(),
            image: &self.image,
            service_account_token: token.filter(|token| has_account && !token.is_empty()),
            service_account_annotations: Some(&self.service_account_annotations)
                .filter(|annotations| has_account && !annotations.is_empty()),
        }));
        text.push('\n');
        text
    }

    /// Reads what a provider finds on its standard input.
    ///
    /// # Errors
    /// The kubelet, or whoever called the provider by hand, must act. No text of the request is in the error.
    pub fn decode(stdin: &[u8]) -> Result<Self, RequestError> {
        let request: WireRequest = document::read(stdin, Duplicates::LastWins).map_err(|fault| match fault {
            Fault::Empty => RequestError::Empty,
            fault => RequestError::Unreadable(fault),
        })?;
        if request.kind != "CredentialProviderRequest" {
            return Err(RequestError::Kind);
        }
        Ok(Self {
            version: request.api_version.parse().map_err(RequestError::Version)?,
            image: request.image,
            service_account_token: Some(request.service_account_token).filter(|token| !token.is_empty()),
            service_account_annotations: request.service_account_annotations,
        })
    }
}

/// The answer: credentials, and how long and how widely they may be remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialProviderResponse {
    /// How widely.
    pub cache_key_type: CacheKeyType,
    /// How long. `None`: as the provider's configuration says; zero: not at all.
    pub cache_duration: Option<Duration>,
    /// Credentials by registry, repository or pattern. Empty: this provider has none.
    pub auth: BTreeMap<String, AuthConfig>,
}

impl CredentialProviderResponse {
    /// The answer, ready for a provider's standard output.
    pub fn encode(&self, version: ApiVersion) -> Zeroizing<String> {
        let auth = self
            .auth
            .iter()
            .map(|(key, auth)| (key.as_str(), WireAuth { username: &auth.username, password: auth.password.expose() }));
        let mut text = Zeroizing::new(json::to_string(&WireResponse {
            kind: "CredentialProviderResponse",
            api_version: version.as_str(),
            cache_key_type: self.cache_key_type.as_str(),
            cache_duration: self.cache_duration.map(duration::format),
            auth: auth.collect(),
        }));
        text.push('\n');
        text
    }
}

/// A user name and a password for a registry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthConfig {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// How widely an answer may be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheKeyType {
    /// For this image only.
    Image,
    /// For all images of this registry.
    Registry,
    /// For every image the provider is asked for.
    Global,
}

impl CacheKeyType {
    /// All of them, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Image, Self::Registry, Self::Global];

    /// As it stands in an answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Registry => "Registry",
            Self::Global => "Global",
        }
    }
}

/// Why a provider does not know what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nobody asked.
    #[error("standard input is empty: the kubelet writes a CredentialProviderRequest to it")]
    Empty,
    /// Something else was written.
    #[error("the request {0}")]
    Unreadable(Fault),
    /// Another object.
    #[error("the request is not a CredentialProviderRequest")]
    Kind,
    /// Another version.
    #[error("the apiVersion of the request {0}")]
    Version(UnknownVersion),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireQuestion<'a> {
    kind: &'static str,
    api_version: &'static str,
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_annotations: Option<&'a BTreeMap<String, String>>,
}

#[derive(Default)]
struct WireRequest {
    kind: String,
    api_version: String,
    image: String,
    service_account_token: Secret,
    service_account_annotations: BTreeMap<String, String>,
}

impl Object for WireRequest {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "kind" => value.string("kind", &mut self.kind),
            "apiVersion" => value.string("apiVersion", &mut self.api_version),
            "image" => value.string("image", &mut self.image),
            "serviceAccountToken" => value.secret("serviceAccountToken", &mut self.service_account_token),
            "serviceAccountAnnotations" => {
                value.strings("serviceAccountAnnotations", &mut self.service_account_annotations)
            }
            _ => value.skip(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse<'a> {
    kind: &'static str,
    api_version: &'static str,
    cache_key_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_duration: Option<String>,
    auth: BTreeMap<&'a str, WireAuth<'a>>,
}

#[derive(Serialize)]
struct WireAuth<'a> {
    username: &'a str,
    password: &'a str,
}
