//! Encoding of both directions: `KUBERNETES_EXEC_INFO` and the standard output of a plugin.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::{
    ApiVersion, Cluster, ExecCredential, ExecCredentialSpec, ExecCredentialStatus, FailedResponse, ProxyConfig,
};
use crate::wire::{json, timestamp};

impl ExecCredentialSpec {
    /// Returns the value of [`KUBERNETES_EXEC_INFO`](super::EXEC_INFO_ENV), byte for byte as client-go writes it,
    /// including the final newline. Fields that `version` lacks are omitted.
    ///
    /// ```
    /// use credlet_api::exec::{ApiVersion, ExecCredentialSpec};
    ///
    /// assert_eq!(
    ///     ExecCredentialSpec::default().encode(ApiVersion::V1),
    ///     concat!(
    ///         r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","#,
    ///         r#""spec":{"interactive":false}}"#,
    ///         "\n",
    ///     ),
    /// );
    /// ```
    pub fn encode(&self, version: ApiVersion) -> String {
        let mut text = json::to_string(&WireDocument::new(version, Some(self), None));
        text.push('\n');
        text
    }
}

impl ExecCredentialStatus {
    /// Returns the standard output of a plugin, including the final newline.
    pub fn encode(&self, version: ApiVersion) -> Zeroizing<String> {
        let mut text = Zeroizing::new(json::to_string(&WireDocument::new(version, None, Some(self))));
        text.push('\n');
        text
    }
}

/// Implements `Serialize` by a wire type that borrows from the public one. Secrets are exposed in the wire types only.
macro_rules! serialize_as {
    ($($public:ident => $wire:ident,)*) => {
        $(impl Serialize for $public {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $wire::from(self).serialize(serializer)
            }
        })*
    };
}

serialize_as! {
    ExecCredentialSpec => WireSpecV1,
    ExecCredentialStatus => WireStatus,
    Cluster => WireCluster,
    FailedResponse => WireResponse,
    ProxyConfig => WireProxyConfig,
}

#[derive(Serialize)]
pub(super) struct WireDocument<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<WireSpec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<WireStatus<'a>>,
}

impl<'a> WireDocument<'a> {
    fn new(
        version: ApiVersion,
        spec: Option<&'a ExecCredentialSpec>,
        status: Option<&'a ExecCredentialStatus>,
    ) -> Self {
        let spec = spec.map(|spec| match version {
            ApiVersion::V1alpha1 => WireSpec::V1alpha1(spec.into()),
            ApiVersion::V1beta1 | ApiVersion::V1 => WireSpec::V1(spec.into()),
        });
        Self { kind: ExecCredential::KIND, api_version: version.as_str(), spec, status: status.map(WireStatus::from) }
    }
}

impl<'a> From<&'a ExecCredential> for WireDocument<'a> {
    fn from(credential: &'a ExecCredential) -> Self {
        Self::new(credential.api_version, credential.spec.as_ref(), credential.status.as_ref())
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireSpec<'a> {
    V1(WireSpecV1<'a>),
    V1alpha1(WireSpecV1alpha1<'a>),
}

#[derive(Serialize)]
struct WireSpecV1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<WireCluster<'a>>,
    interactive: bool,
    #[serde(rename = "lockFilePath", skip_serializing_if = "Option::is_none")]
    lock_file_path: Option<&'a str>,
}

impl<'a> From<&'a ExecCredentialSpec> for WireSpecV1<'a> {
    fn from(spec: &'a ExecCredentialSpec) -> Self {
        Self {
            cluster: spec.cluster.as_ref().map(WireCluster::from),
            interactive: spec.interactive,
            lock_file_path: spec.lock_file_path.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct WireSpecV1alpha1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<WireResponse<'a>>,
    #[serde(skip_serializing_if = "is_false")]
    interactive: bool,
}

impl<'a> From<&'a ExecCredentialSpec> for WireSpecV1alpha1<'a> {
    fn from(spec: &'a ExecCredentialSpec) -> Self {
        Self { response: spec.response.as_ref().map(WireResponse::from), interactive: spec.interactive }
    }
}

#[derive(Serialize)]
struct WireResponse<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    header: BTreeMap<String, &'a [String]>,
    #[serde(skip_serializing_if = "is_zero")]
    code: i32,
}

impl<'a> From<&'a FailedResponse> for WireResponse<'a> {
    fn from(response: &'a FailedResponse) -> Self {
        let header = response.header.iter().map(|(name, values)| (canonical_header(name), values.as_slice())).collect();
        Self { header, code: response.code }
    }
}

/// A header name in Go's canonical form: `www-authenticate` becomes `Www-Authenticate`. Go canonicalises names
/// when it reads a response, so plugins look for this form.
fn canonical_header(name: &str) -> String {
    let mut upper = true;
    name.chars()
        .map(|c| {
            let canonical = if upper { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            upper = c == '-';
            canonical
        })
        .collect()
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct WireCluster<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tls_server_name: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "is_empty", serialize_with = "base64")]
    certificate_authority_data: &'a [u8],
    #[serde(skip_serializing_if = "str::is_empty")]
    proxy_url: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    disable_compression: bool,
    // Go cannot omit this field, so it is `null` without an extension.
    config: Option<&'a RawValue>,
}

impl<'a> From<&'a Cluster> for WireCluster<'a> {
    fn from(cluster: &'a Cluster) -> Self {
        Self {
            server: &cluster.server,
            tls_server_name: &cluster.tls_server_name,
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
            certificate_authority_data: &cluster.certificate_authority_data,
            proxy_url: cluster.proxy_url.expose(),
            disable_compression: cluster.disable_compression,
            config: cluster.config.as_ref().map(|extension| &*extension.0),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_timestamp: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    token: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_certificate_data: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_key_data: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_config: Option<WireProxyConfig<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct WireProxyConfig<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "is_empty", serialize_with = "base64")]
    certificate_authority_data: &'a [u8],
}

impl<'a> From<&'a ExecCredentialStatus> for WireStatus<'a> {
    fn from(status: &'a ExecCredentialStatus) -> Self {
        Self {
            expiration_timestamp: status.expiration_timestamp.map(timestamp::format),
            token: status.token.expose(),
            client_certificate_data: &status.client_certificate_data,
            client_key_data: status.client_key_data.expose(),
            proxy_config: status.proxy_config.as_ref().map(WireProxyConfig::from),
        }
    }
}

impl<'a> From<&'a ProxyConfig> for WireProxyConfig<'a> {
    fn from(proxy: &'a ProxyConfig) -> Self {
        Self { url: &proxy.url, certificate_authority_data: &proxy.certificate_authority_data }
    }
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

// serde calls these with a reference.
fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &i32) -> bool {
    *value == 0
}

fn is_empty(bytes: &&[u8]) -> bool {
    bytes.is_empty()
}
