//! Loads, merges, resolves, validates and edits kubeconfig files with kubectl's semantics.
//!
//! [`LoadingRules::load`] reads the files and merges them into a [`Kubeconfig`], in which the first file that defines an
//! entry wins. [`Kubeconfig::resolve`] selects a context, applies [`ConfigOverrides`], validates the entries in use and
//! returns a [`ResolvedConfig`]. [`Kubeconfig::check`] validates all entries.
//!
//! ```
//! use credlet_kubeconfig::{ConfigOverrides, Kubeconfig};
//! use credlet_platform::FixedEnv;
//!
//! let env = FixedEnv::default();
//! let kubeconfig = Kubeconfig::from_bytes(
//!     b"current-context: blue
//! contexts: [{name: blue, context: {cluster: blue, user: ada}}]
//! clusters: [{name: blue, cluster: {server: 'https://blue.example'}}]
//! users: [{name: ada, user: {token: hunter2}}]",
//!     &env,
//! )?;
//! let resolved = kubeconfig.resolve(&ConfigOverrides::default(), &env)?;
//! assert_eq!(resolved.server.value, "https://blue.example");
//! assert_eq!(resolved.namespace.value, "default");
//! assert!(!format!("{resolved:?}").contains("hunter2"));
//! # Ok::<(), credlet_kubeconfig::KubeconfigError>(())
//! ```
//!
//! A [`ResolvedConfig`] is independent of the [`Kubeconfig`] and of other contexts. Its values carry the file and line that
//! they come from. Warnings are returned in [`ResolvedConfig::warnings`]; this crate does not print.

mod address;
mod check;
mod cluster;
pub mod edit;
mod error;
mod exec_config;
mod in_cluster;
mod loading_rules;
mod merged;
mod origin;
mod overrides;
mod paths;
pub mod pem;
mod resolve;
mod resolved;
mod user;
mod validation;

pub use self::error::{FileError, FileErrorKind, KubeconfigError};
pub use self::merged::{ConfigEntry, Kubeconfig};
pub use self::origin::{Sourced, ValueOrigin};
pub use self::overrides::ConfigOverrides;
pub use self::resolved::{
    AuthProvider, CertificateAuthority, ClientCertificate, ClusterTls, ConfigWarning, HeaderCredential, Impersonation,
    ResolvedConfig, ResolvedExec, TokenFile, UserCredentials,
};
pub use self::validation::{ConfigProblem, ConfigSubject, ValidationError};

pub use self::loading_rules::LoadingRules;
pub use credlet_platform::fs::ReadError;

/// Largest certificate, key or token file that a kubeconfig may name, in bytes.
pub const SMALL_FILE_LIMIT: u64 = 16_000_000;
