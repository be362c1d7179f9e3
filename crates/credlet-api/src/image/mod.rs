//! The image credential provider protocol, `credentialprovider.kubelet.k8s.io`, and the files around it.
//!
//! The kubelet writes a [`CredentialProviderRequest`] to the standard input of a provider, which prints a
//! [`CredentialProviderResponse`]. [`CredentialProviderConfig`] is the kubelet's configuration file, [`DockerAuths`] a
//! docker `config.json`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

mod account;
mod azure;
mod config;
mod docker;
mod response;

pub use self::account::{PodObject, ServiceAccountObject, ServiceAccountTokenRequest};
pub use self::azure::AzureConfig;
pub use self::config::{
    CONFIG_KIND, CredentialProvider, CredentialProviderConfig, ProviderConfigError, ProviderConfigErrorKind,
    ProviderEnvVar, ProviderRef, ServiceAccountTokenAttributes,
};
pub use self::docker::{DockerAuths, DockerConfigError, DockerHelperCredential, credential_hash_input};
pub use self::response::{InvalidProviderResponse, ResponseWarning};
use crate::Secret;
use crate::wire::document::{self, DuplicateKeys, decode_object};
pub use crate::wire::duration::{ParseDurationError, format as format_duration};
use crate::wire::error::DocumentError;
use crate::wire::version::api_versions;
use crate::wire::{duration, json};

api_versions! {
    /// Version of `credentialprovider.kubelet.k8s.io`.
    ProviderApiVersion, UnsupportedProviderApiVersion, "credentialprovider.kubelet.k8s.io" {
        /// Since Kubernetes 1.20 (alpha of KEP-2133).
        V1alpha1 = "v1alpha1",
        /// Since Kubernetes 1.24 (beta of KEP-2133).
        V1beta1 = "v1beta1",
        /// Since Kubernetes 1.26. The only version with service account data in requests.
        V1 = "v1",
    }
}

const REQUEST_KIND: &str = "CredentialProviderRequest";
const RESPONSE_KIND: &str = "CredentialProviderResponse";

/// The request of the kubelet for the credentials of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialProviderRequest {
    /// Version of the request, and of the expected response.
    pub version: ProviderApiVersion,
    /// Image name without tag and digest.
    pub image: String,
    /// Token of the pod's service account, if the provider is configured to receive one (v1 only).
    pub service_account_token: Option<Secret>,
    /// Annotations of the service account that the provider is configured to receive (v1 only).
    pub service_account_annotations: BTreeMap<String, String>,
}

impl CredentialProviderRequest {
    /// Returns the standard input of a provider, byte for byte as the kubelet writes it. The service account is
    /// included in v1 only.
    pub fn encode(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(json::to_string(self));
        text.push('\n');
        text
    }

    /// Decodes the standard input of a provider.
    ///
    /// # Errors
    /// If the input is not a request of a known version. The error quotes nothing of the input.
    pub fn decode(stdin: &[u8]) -> Result<Self, ProviderRequestError> {
        let request: RequestDocument = document::read(stdin, DuplicateKeys::LastWins).map_err(|error| match error {
            DocumentError::Empty => ProviderRequestError::Empty,
            error => ProviderRequestError::InvalidDocument(error),
        })?;
        request.try_into()
    }
}

impl TryFrom<RequestDocument> for CredentialProviderRequest {
    type Error = ProviderRequestError;

    fn try_from(request: RequestDocument) -> Result<Self, ProviderRequestError> {
        if request.kind != REQUEST_KIND {
            return Err(ProviderRequestError::UnexpectedKind);
        }
        Ok(Self {
            version: request.api_version.parse().map_err(ProviderRequestError::UnsupportedVersion)?,
            image: request.image,
            service_account_token: Some(request.service_account_token).filter(|token| !token.is_empty()),
            service_account_annotations: request.service_account_annotations,
        })
    }
}

/// Secrets are exposed in the wire type only.
impl Serialize for CredentialProviderRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_account = self.version == ProviderApiVersion::V1;
        let token = self.service_account_token.as_ref().map(Secret::expose);
        let wire = WireRequest {
            kind: REQUEST_KIND,
            api_version: self.version.as_str(),
            image: &self.image,
            service_account_token: token.filter(|token| has_account && !token.is_empty()),
            service_account_annotations: Some(&self.service_account_annotations)
                .filter(|annotations| has_account && !annotations.is_empty()),
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CredentialProviderRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        document::deserialize::<RequestDocument, D>(deserializer)?.try_into().map_err(D::Error::custom)
    }
}

/// The response of a provider: credentials, and for how long and for which images they may be cached.
///
/// Serialised with serde, it is a document of v1; [`encode`](Self::encode) supports all versions. Deserialisation
/// accepts all versions and discards [warnings](ResponseWarning).
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialProviderResponse {
    /// Images for which the response may be used.
    pub cache_key_type: CacheKeyType,
    /// Lifetime in the cache. `None`: the default in the provider's configuration; zero: not cached.
    pub cache_duration: Option<Duration>,
    /// Credentials by registry, repository or pattern. Empty: the provider has no credentials.
    pub auth: BTreeMap<String, AuthConfig>,
}

impl CredentialProviderResponse {
    /// Returns the standard output of a provider.
    pub fn encode(&self, version: ProviderApiVersion) -> Zeroizing<String> {
        let mut text = Zeroizing::new(json::to_string(&WireResponse::new(self, version)));
        text.push('\n');
        text
    }
}

impl Serialize for CredentialProviderResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireResponse::new(self, ProviderApiVersion::V1).serialize(serializer)
    }
}

/// User name and password for a registry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthConfig {
    /// User name. Not treated as a secret.
    pub username: String,
    /// Password or token.
    pub password: Secret,
}

impl Serialize for AuthConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireAuth::from(self).serialize(serializer)
    }
}

/// The images for which a cached response may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheKeyType {
    /// The requested image only.
    Image,
    /// All images of the registry.
    Registry,
    /// All images that match the provider.
    Global,
}

impl CacheKeyType {
    /// All types, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Image, Self::Registry, Self::Global];

    /// Returns the spelling in a response.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Registry => "Registry",
            Self::Global => "Global",
        }
    }
}

/// Error in the standard input of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderRequestError {
    /// The input is empty.
    #[error("standard input is empty: the kubelet writes a CredentialProviderRequest to it")]
    Empty,
    /// The input is not a JSON or YAML object with fields of the right types.
    #[error("invalid request: {0}")]
    InvalidDocument(DocumentError),
    /// The input is another object.
    #[error("invalid request: not a CredentialProviderRequest")]
    UnexpectedKind,
    /// The version is unknown.
    #[error("invalid request: {0}")]
    UnsupportedVersion(UnsupportedProviderApiVersion),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireRequest<'a> {
    kind: &'static str,
    api_version: &'static str,
    image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_annotations: Option<&'a BTreeMap<String, String>>,
}

#[derive(Default)]
struct RequestDocument {
    kind: String,
    api_version: String,
    image: String,
    service_account_token: Secret,
    service_account_annotations: BTreeMap<String, String>,
}

decode_object! { RequestDocument, "",
    "kind" => string(kind),
    "apiVersion" => string(api_version),
    "image" => string(image),
    "serviceAccountToken" => secret(service_account_token),
    "serviceAccountAnnotations" => string_map(service_account_annotations),
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

impl<'a> WireResponse<'a> {
    fn new(response: &'a CredentialProviderResponse, version: ProviderApiVersion) -> Self {
        Self {
            kind: RESPONSE_KIND,
            api_version: version.as_str(),
            cache_key_type: response.cache_key_type.as_str(),
            cache_duration: response.cache_duration.map(duration::format),
            auth: response.auth.iter().map(|(key, auth)| (key.as_str(), auth.into())).collect(),
        }
    }
}

impl<'a> From<&'a AuthConfig> for WireAuth<'a> {
    fn from(auth: &'a AuthConfig) -> Self {
        Self { username: &auth.username, password: auth.password.expose() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_round_trips_with_serde() {
        for version in ProviderApiVersion::ALL {
            let is_v1 = version == ProviderApiVersion::V1;
            let request = CredentialProviderRequest {
                version,
                image: "r.io/a".into(),
                service_account_token: is_v1.then(|| "hunter2".into()),
                service_account_annotations: is_v1.then(|| ("k".into(), "v".into())).into_iter().collect(),
            };
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(text.clone() + "\n", *request.encode());
            assert_eq!(serde_json::from_str::<CredentialProviderRequest>(&text).unwrap(), request);
        }
        let error = serde_json::from_str::<CredentialProviderRequest>(r#"{"kind":"hunter2"}"#).unwrap_err().to_string();
        assert!(error.contains("not a CredentialProviderRequest") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn response_round_trips_with_serde() {
        let auth = AuthConfig { username: "u".into(), password: "hunter2".into() };
        let response = CredentialProviderResponse {
            cache_key_type: CacheKeyType::Registry,
            cache_duration: Some(Duration::from_secs(300)),
            auth: [("r.io".to_owned(), auth.clone())].into(),
        };
        let text = serde_json::to_string(&response).unwrap();
        assert_eq!(text.clone() + "\n", *response.encode(ProviderApiVersion::V1));
        for version in ProviderApiVersion::ALL {
            let text = response.encode(version);
            assert_eq!(serde_json::from_str::<CredentialProviderResponse>(&text).unwrap(), response);
        }
        let text = serde_json::to_string(&auth).unwrap();
        assert_eq!(serde_json::from_str::<AuthConfig>(&text).unwrap(), auth);
        for invalid in [text.replace("password", "Password"), text.replace("\"hunter2\"", "[\"hunter2\"]")] {
            let error = serde_json::from_str::<AuthConfig>(&invalid).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
