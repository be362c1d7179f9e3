//! A kubeconfig file as it is written: its sections, each value with its line, nothing looked up, nothing judged.
//!
//! Reading follows kubectl: YAML or JSON, the first document only, unknown fields skipped, `null` as good as absent, a
//! string only from a string, the last of equal keys. Which files to read, what wins and what is wrong with it is the
//! business of `credlet-client`.
//!
//! ```
//! use credlet_api::kubeconfig::Config;
//!
//! let file = b"users:\n- name: ada\n  user:\n    token: hunter2\n";
//! let config = Config::decode(file)?;
//! assert_eq!(config.users[0].name, "ada");
//! assert_eq!(config.users[0].item.token.line, 4);
//! assert!(!format!("{config:?}").contains("hunter2"));
//! # Ok::<(), credlet_api::kubeconfig::DecodeError>(())
//! ```

mod decode;
mod encoding;
mod located;
mod members;
mod objects;
mod user;

pub use self::decode::DecodeError;
pub use self::located::{Data, Located, Named};
pub use self::user::{AuthInfo, AuthProviderConfig, ExecEnvVar, ExecSection};
use crate::Secret;
use crate::exec::Extension;

/// The name of the cluster extension that becomes [`Cluster::config`](crate::exec::Cluster::config).
pub const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// One file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The name of the context to use. Empty: not set.
    pub current_context: Located<String>,
    /// How to reach which API server.
    pub clusters: Vec<Named<Cluster>>,
    /// How to prove who one is.
    pub users: Vec<Named<AuthInfo>>,
    /// Pairs of the two.
    pub contexts: Vec<Named<Context>>,
    /// Wishes of the person at the keyboard. Nothing of ours heeds them.
    pub preferences: Preferences,
    /// Free data of other programs.
    pub extensions: Vec<NamedExtension>,
}

impl Config {
    /// Reads a file's content. An empty one is an empty configuration.
    ///
    /// # Errors
    /// The file's owner must act. The error knows the line, and nothing of the file's content but names.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode::config(bytes)
    }
}

/// Free data of other programs, by its name.
pub type NamedExtension = Named<Option<Extension>>;

/// How to reach an API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Its address. A careless one holds a password.
    pub server: Located<Secret>,
    /// The name to expect in its certificate, if not the address's.
    pub tls_server_name: Located<String>,
    /// Whether its certificate goes unchecked.
    pub insecure_skip_tls_verify: Located<bool>,
    /// A file with the certificate authorities to trust.
    pub certificate_authority: Located<String>,
    /// The same as PEM.
    pub certificate_authority_data: Located<Data>,
    /// The proxy to reach it through. May hold a password.
    pub proxy_url: Located<Secret>,
    /// Whether answers should come uncompressed.
    pub disable_compression: Located<bool>,
    /// Free data, among it that for exec plugins: [`EXEC_EXTENSION`].
    pub extensions: Vec<NamedExtension>,
}

/// A cluster, a user, and where to begin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// The cluster's name.
    pub cluster: Located<String>,
    /// The user's name.
    pub user: Located<String>,
    /// The namespace for requests that name none.
    pub namespace: Located<String>,
    /// Free data of other programs.
    pub extensions: Vec<NamedExtension>,
}

/// Wishes of the person at the keyboard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preferences {
    /// Coloured output.
    pub colors: Located<bool>,
    /// Free data of other programs.
    pub extensions: Vec<NamedExtension>,
}

#[cfg(test)]
mod tests;
