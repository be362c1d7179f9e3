//! `client.authentication.k8s.io`: what a client tells an exec plugin, and what the plugin answers.
//!
//! One set of types serves all three versions; the version decides only how they are written and read.

mod config;
mod decode;
mod encode;
mod framing;
mod info;
mod rewrite;
mod version;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::value::RawValue;

pub use self::config::{ConfigError, ExecConfig, ExecEnvVar, InteractiveMode};
pub use self::decode::{AnswerError, failure_message};
pub use self::framing::proxy_answer;
pub use self::info::{Connection, ExecInfo, InfoError};
pub use self::rewrite::rewrite;
pub use self::version::{ApiVersion, UnknownVersion};
use crate::Secret;

/// The environment variable in which a plugin finds an [`ExecInfo`].
pub const EXEC_INFO_ENV: &str = "KUBERNETES_EXEC_INFO";

/// What the client tells the plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecCredentialSpec {
    /// The cluster, if the kubeconfig says `provideClusterInfo: true`. Version v1alpha1 has no room for it.
    pub cluster: Option<Cluster>,
    /// Whether the plugin may talk to a person: its standard input is a terminal.
    pub interactive: bool,
    /// The answer that made the client ask again. Only v1alpha1 has room for it.
    pub response: Option<Response>,
    /// KEP-2718: a file the client keeps locked while it lives. Its presence says that the client understands
    /// [`ExecCredentialStatus::proxy_config`].
    pub lock_file_path: Option<String>,
}

/// A refused request, as the plugin may want to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status code.
    pub code: i32,
    /// The headers. Names are written in Go's canonical form, whatever their case here.
    pub header: BTreeMap<String, Vec<String>>,
}

/// The cluster a credential is wanted for: everything needed to reach it, as a kubeconfig would have it.
#[derive(Clone, Default, PartialEq)]
pub struct Cluster {
    /// The API server's address.
    pub server: String,
    /// The name to expect in the server's certificate, if not the address's. Empty: not set.
    pub tls_server_name: String,
    /// Whether the server's certificate goes unchecked.
    pub insecure_skip_tls_verify: bool,
    /// The certificate authorities as PEM. Empty: those of the system.
    pub certificate_authority_data: Vec<u8>,
    /// The proxy to reach the server through. Empty: none. May hold a password.
    pub proxy_url: Secret,
    /// Whether answers should come uncompressed.
    pub disable_compression: bool,
    /// The cluster's extension `client.authentication.k8s.io/exec`: free data for the plugin.
    pub config: Option<Extension>,
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

/// Free JSON data, kept in the form in which it is passed on: compact, key order and number form as given.
///
/// People do keep secrets in it although the specification advises against that, so `Debug` does not show it.
#[derive(Clone)]
pub struct Extension(Box<RawValue>);

impl Extension {
    /// Takes JSON text as it is.
    ///
    /// # Errors
    /// When it is not one JSON value.
    pub fn from_json(text: &str) -> Result<Self, NotJson> {
        crate::wire::json::compact(text).map(Self).map_err(|_| NotJson)
    }

    /// Takes data that came by way of YAML: keys are sorted at every level, as Kubernetes does.
    pub fn from_value(value: &serde_json::Value) -> Self {
        let text = crate::wire::json::to_string(value);
        // What serde_json has just written is JSON.
        Self(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Text that should have been JSON is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the extension is not one JSON value")]
pub struct NotJson;

/// What the plugin answers: a token, a certificate with its key, or both.
///
/// ```
/// use credlet_api::exec::ExecCredentialStatus;
///
/// let status = ExecCredentialStatus::token("hunter2").expiring("2030-01-02T03:04:05Z".parse().unwrap());
/// assert!(!format!("{status:?}").contains("hunter2"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecCredentialStatus {
    /// When the credential must no longer be used. `None`: good until it is refused.
    pub expiration_timestamp: Option<Timestamp>,
    /// A bearer token. Empty: none.
    pub token: Secret,
    /// A client certificate and, after it, its intermediates, as PEM. Empty: none.
    pub client_certificate_data: String,
    /// The certificate's private key as PEM. Empty: none.
    pub client_key_data: Secret,
    /// KEP-2718: where requests are to be sent instead of to the API server.
    pub proxy_config: Option<ProxyConfig>,
}

impl ExecCredentialStatus {
    /// A bearer token that is good until it is refused.
    pub fn token(token: impl Into<Secret>) -> Self {
        Self { token: token.into(), ..Self::default() }
    }

    /// A client certificate chain and its key that are good until they are refused.
    pub fn certificate(chain_pem: impl Into<String>, key_pem: impl Into<Secret>) -> Self {
        Self { client_certificate_data: chain_pem.into(), client_key_data: key_pem.into(), ..Self::default() }
    }

    /// The same, good until `at` only. On the wire it is cut to whole seconds, never rounded up.
    #[must_use]
    pub fn expiring(self, at: Timestamp) -> Self {
        Self { expiration_timestamp: Some(at), ..self }
    }
}

/// KEP-2718: a proxy that the plugin has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyConfig {
    /// Where it listens.
    pub url: String,
    /// The certificate authorities of its certificate, as PEM. Empty: no TLS on a Unix socket.
    pub certificate_authority_data: Vec<u8>,
}
