//! The exec credential protocol, `client.authentication.k8s.io`.
//!
//! A client starts the program of an [`ExecConfig`] with an [`ExecCredentialSpec`] in `KUBERNETES_EXEC_INFO`; the
//! plugin decodes it as [`ExecInfo`] and prints an [`ExecCredentialStatus`]. One set of types serves all three
//! [versions](ApiVersion), which differ in their encoding. [`ExecCredential`] is the whole document, for use with
//! serde.

mod config;
mod credential;
mod decode;
mod encode;
mod framing;
mod info;
mod rewrite;
mod version;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub use self::config::{ExecConfig, ExecConfigError, ExecEnvVar, InteractiveMode};
pub use self::credential::ExecCredential;
pub use self::decode::{InvalidCredential, status_message};
pub use self::framing::proxy_document_end;
pub use self::info::{ClusterConnection, ExecInfo, ExecInfoError};
pub use self::rewrite::rewrite_exec_credential;
pub use self::version::{ApiVersion, UnsupportedApiVersion};
use crate::Secret;

/// Name of the environment variable with the input of a plugin, see [`ExecInfo`].
pub const EXEC_INFO_ENV: &str = "KUBERNETES_EXEC_INFO";

/// The request of a client to a plugin.
///
/// Serialised with serde, it has the fields of v1; [`encode`](Self::encode) supports all versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecCredentialSpec {
    /// The cluster, if the kubeconfig has `provideClusterInfo: true`. Not in v1alpha1.
    pub cluster: Option<Cluster>,
    /// Whether standard input is a terminal that the plugin may use to prompt the user.
    pub interactive: bool,
    /// The response that rejected the previous credential. In v1alpha1 only.
    pub response: Option<FailedResponse>,
    /// KEP-2718: a file that the client keeps locked while it runs. It is set by clients that support
    /// [`ExecCredentialStatus::proxy_config`].
    pub lock_file_path: Option<String>,
}

/// The response of the API server to a request with the previous credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedResponse {
    /// HTTP status code.
    pub code: i32,
    /// Headers. Names are encoded in Go's canonical form.
    pub header: BTreeMap<String, Vec<String>>,
}

/// Connection settings of the cluster that the credential is for.
#[derive(Clone, Default, PartialEq)]
pub struct Cluster {
    /// URL of the API server.
    pub server: String,
    /// Server name for TLS. Empty: the host of the URL.
    pub tls_server_name: String,
    /// Whether verification of the server certificate is disabled.
    pub insecure_skip_tls_verify: bool,
    /// PEM bundle of certificate authorities. Empty: those of the system.
    pub certificate_authority_data: Vec<u8>,
    /// URL of an HTTP or SOCKS proxy, possibly with a password. Empty: none.
    pub proxy_url: Secret,
    /// Whether compression of responses is disabled.
    pub disable_compression: bool,
    /// The extension `client.authentication.k8s.io/exec` of the cluster: arbitrary data for the plugin.
    pub config: Option<RawExtension>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &self.server)
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("certificate_authority_data", &format_args!("[{} bytes]", self.certificate_authority_data.len()))
            .field("proxy_url", &self.proxy_url)
            .field("disable_compression", &self.disable_compression)
            .field("config", &self.config)
            .finish()
    }
}

/// Arbitrary JSON data in compact form; key order and number form are preserved.
///
/// `Debug` does not show it, because it may hold secrets although the Kubernetes API advises against that. Only
/// `serde_json` can serialise and deserialise it.
#[derive(Clone)]
pub struct RawExtension(Box<RawValue>);

impl RawExtension {
    /// Parses JSON text.
    ///
    /// # Errors
    /// If the text is not one JSON value.
    pub fn from_json(text: &str) -> Result<Self, InvalidExtension> {
        crate::wire::json::compact(text).map(Self).map_err(|_| InvalidExtension)
    }

    /// Converts data that was decoded from YAML. Keys are sorted at every level, as in Kubernetes.
    pub fn from_value(value: &serde_json::Value) -> Self {
        let text = crate::wire::json::to_string(value);
        // The output of serde_json is valid JSON.
        Self(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Returns the JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl Serialize for RawExtension {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawExtension {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(raw.get()).map_err(D::Error::custom)
    }
}

impl PartialEq for RawExtension {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl fmt::Debug for RawExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Error of parsing a [`RawExtension`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid extension: not a JSON value")]
pub struct InvalidExtension;

/// The credential that a plugin returns: a bearer token, a client certificate with its key, or both.
///
/// ```
/// use credlet_api::exec::ExecCredentialStatus;
///
/// let status = ExecCredentialStatus::token("hunter2").with_expiration("2030-01-02T03:04:05Z".parse().unwrap());
/// assert!(!format!("{status:?}").contains("hunter2"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecCredentialStatus {
    /// Time from which the credential is expired. `None`: valid until the API server rejects it.
    pub expiration_timestamp: Option<Timestamp>,
    /// Bearer token. Empty: none.
    pub token: Secret,
    /// PEM of the client certificate, followed by its intermediates. Empty: none.
    pub client_certificate_data: String,
    /// PEM of the private key. Empty: none.
    pub client_key_data: Secret,
    /// KEP-2718: the proxy to which the client must send its requests.
    pub proxy_config: Option<ProxyConfig>,
}

impl ExecCredentialStatus {
    /// Creates a credential with a bearer token and without an expiry.
    pub fn token(token: impl Into<Secret>) -> Self {
        Self { token: token.into(), ..Self::default() }
    }

    /// Creates a credential with a client certificate chain and its key, without an expiry.
    pub fn certificate(chain_pem: impl Into<String>, key_pem: impl Into<Secret>) -> Self {
        Self { client_certificate_data: chain_pem.into(), client_key_data: key_pem.into(), ..Self::default() }
    }

    /// Sets the expiry. It is truncated to whole seconds when it is encoded.
    #[must_use]
    pub fn with_expiration(self, at: Timestamp) -> Self {
        Self { expiration_timestamp: Some(at), ..self }
    }
}

/// KEP-2718: an exec proxy that the plugin has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyConfig {
    /// URL of its listener.
    pub url: String,
    /// PEM bundle of the certificate authorities of its certificate. Empty: a Unix socket without TLS.
    pub certificate_authority_data: Vec<u8>,
}
