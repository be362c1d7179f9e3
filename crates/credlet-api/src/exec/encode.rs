//! Writing: what the plugin is told (the client's side), and what it answers (the plugin's side).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::{ApiVersion, Cluster, ExecCredentialSpec, ExecCredentialStatus, ProxyConfig, Response};
use crate::wire::{json, timestamp};

const KIND: &str = "ExecCredential";

impl ExecCredentialSpec {
    /// The value of [`KUBERNETES_EXEC_INFO`](super::EXEC_INFO_ENV), byte for byte what client-go writes, final newline
    /// included. What `version` has no room for is left out.
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
        let mut text = match version {
            ApiVersion::V1alpha1 => json::to_string(&Document {
                kind: KIND,
                api_version: version.as_str(),
                spec: Some(SpecV1alpha1 {
                    response: self.response.as_ref().map(WireResponse::from),
                    interactive: self.interactive,
                }),
                status: None,
            }),
            ApiVersion::V1beta1 | ApiVersion::V1 => json::to_string(&Document {
                kind: KIND,
                api_version: version.as_str(),
                spec: Some(SpecV1 {
                    cluster: self.cluster.as_ref().map(WireCluster::from),
                    interactive: self.interactive,
                    lock_file_path: self.lock_file_path.as_deref(),
                }),
                status: None,
            }),
        };
        text.push('\n');
        text
    }
}

impl ExecCredentialStatus {
    /// A plugin's answer, ready for its standard output.
    pub fn encode(&self, version: ApiVersion) -> Zeroizing<String> {
        let status = WireStatus {
            expiration_timestamp: self.expiration_timestamp.map(timestamp::format),
            token: self.token.expose(),
            client_certificate_data: &self.client_certificate_data,
            client_key_data: self.client_key_data.expose(),
            proxy_config: self.proxy_config.as_ref().map(WireProxyConfig::from),
        };
        let document = Document::<()> { kind: KIND, api_version: version.as_str(), spec: None, status: Some(status) };
        let mut text = Zeroizing::new(json::to_string(&document));
        text.push('\n');
        text
    }
}

#[derive(Serialize)]
struct Document<'a, S> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<S>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<WireStatus<'a>>,
}

#[derive(Serialize)]
struct SpecV1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<WireCluster<'a>>,
    interactive: bool,
    #[serde(rename = "lockFilePath", skip_serializing_if = "Option::is_none")]
    lock_file_path: Option<&'a str>,
}

#[derive(Serialize)]
struct SpecV1alpha1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<WireResponse<'a>>,
    #[serde(skip_serializing_if = "is_false")]
    interactive: bool,
}

#[derive(Serialize)]
struct WireResponse<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    header: BTreeMap<String, &'a [String]>,
    #[serde(skip_serializing_if = "is_zero")]
    code: i32,
}

impl<'a> From<&'a Response> for WireResponse<'a> {
    fn from(response: &'a Response) -> Self {
        let header = response.header.iter().map(|(name, values)| (canonical_header(name), values.as_slice())).collect();
        Self { header, code: response.code }
    }
}

/// `www-authenticate` → `Www-Authenticate`: Go canonicalises names when it reads a response, so that is what plugins
/// of that time look for.
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
    // Always there, `null` without an extension: Go cannot omit it.
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

impl<'a> From<&'a ProxyConfig> for WireProxyConfig<'a> {
    fn from(proxy: &'a ProxyConfig) -> Self {
        Self { url: &proxy.url, certificate_authority_data: &proxy.certificate_authority_data }
    }
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

// serde hands every field to these by reference.
fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &i32) -> bool {
    *value == 0
}

fn is_empty(bytes: &&[u8]) -> bool {
    bytes.is_empty()
}
