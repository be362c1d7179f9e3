//! Kubeconfig files: the sections as written, each value with its line, without resolution or validation.
//!
//! The decoder follows kubectl: YAML or JSON, the first document only, unknown fields are ignored, `null` counts as
//! absent, strings are not converted from other types, the last of equal keys wins. `credlet-kubeconfig` finds, merges
//! and validates the files.
//!
//! ```
//! use credlet_api::kubeconfig::KubeconfigFile;
//!
//! let file = b"users:\n- name: ada\n  user:\n    token: hunter2\n";
//! let config = KubeconfigFile::decode(file)?;
//! assert_eq!(config.users[0].name, "ada");
//! assert_eq!(config.users[0].item.token.line, 4);
//! assert!(!format!("{config:?}").contains("hunter2"));
//! # Ok::<(), credlet_api::kubeconfig::KubeconfigDecodeError>(())
//! ```

mod decode;
mod encoding;
mod located;
mod members;
mod objects;
mod user;

pub use self::decode::KubeconfigDecodeError;
pub use self::located::{Located, NamedEntry, SecretBytes};
pub use self::user::{AuthInfo, AuthProviderConfig, ExecSection, ExecSectionEnvVar};
use crate::Secret;
use crate::exec::RawExtension;

/// Name of the cluster extension that becomes [`Cluster::config`](crate::exec::Cluster::config).
pub const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// The content of one kubeconfig file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeconfigFile {
    /// Name of the context to use. Empty: not set.
    pub current_context: Located<String>,
    /// API servers and how to connect to them.
    pub clusters: Vec<NamedEntry<ClusterSection>>,
    /// Users and how they authenticate.
    pub users: Vec<NamedEntry<AuthInfo>>,
    /// Pairs of cluster and user.
    pub contexts: Vec<NamedEntry<ContextSection>>,
    /// Settings of kubectl, which credlet ignores.
    pub preferences: Preferences,
    /// Arbitrary data of other programs.
    pub extensions: Vec<NamedExtension>,
}

impl KubeconfigFile {
    /// Decodes the content of a file. An empty file is an empty configuration.
    ///
    /// # Errors
    /// If the file is not a `Config` of v1, or two entries of a list have the same name. The error has a line where
    /// possible, and quotes nothing of the file but names.
    pub fn decode(bytes: &[u8]) -> Result<Self, KubeconfigDecodeError> {
        decode::config(bytes)
    }
}

/// Arbitrary data of another program, by its name.
pub type NamedExtension = NamedEntry<Option<RawExtension>>;

/// The section `cluster`: connection settings of an API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSection {
    /// URL of the API server. A secret, because it may contain a password.
    pub server: Located<Secret>,
    /// Server name for TLS, if it differs from the host of the URL.
    pub tls_server_name: Located<String>,
    /// Whether verification of the server certificate is disabled.
    pub insecure_skip_tls_verify: Located<bool>,
    /// Path of a PEM bundle of certificate authorities.
    pub certificate_authority: Located<String>,
    /// PEM bundle of certificate authorities.
    pub certificate_authority_data: Located<SecretBytes>,
    /// URL of an HTTP or SOCKS proxy, possibly with a password.
    pub proxy_url: Located<Secret>,
    /// Whether compression of responses is disabled.
    pub disable_compression: Located<bool>,
    /// Arbitrary data, including that for exec plugins: [`EXEC_EXTENSION`].
    pub extensions: Vec<NamedExtension>,
}

/// The section `context`: a cluster, a user and the default namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextSection {
    /// Name of the cluster.
    pub cluster: Located<String>,
    /// Name of the user.
    pub user: Located<String>,
    /// Namespace of requests that name none. Empty: not set.
    pub namespace: Located<String>,
    /// Arbitrary data of other programs.
    pub extensions: Vec<NamedExtension>,
}

/// The section `preferences`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preferences {
    /// Whether kubectl colours its output.
    pub colors: Located<bool>,
    /// Arbitrary data of other programs.
    pub extensions: Vec<NamedExtension>,
}

#[cfg(test)]
mod tests;
