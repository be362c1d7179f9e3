//! From kubeconfig files to everything a connection needs, as kubectl does it.
//!
//! **The path:** [`LoadingRules`] say which files → [`Kubeconfig`] is all of them, the first to name a thing wins →
//! [`Kubeconfig::resolve`] picks a context, lays [`Overrides`] over it, checks what is used → [`Resolved`].
//!
//! **Three names to know:** [`LoadingRules`], [`Overrides`], [`Resolved`].
//!
//! ```
//! use credlet_client::kubeconfig::{Kubeconfig, Overrides};
//! use credlet_core::FixedEnv;
//!
//! let env = FixedEnv::default();
//! let kubeconfig = Kubeconfig::from_bytes(
//!     b"current-context: blue
//! contexts: [{name: blue, context: {cluster: blue, user: ada}}]
//! clusters: [{name: blue, cluster: {server: 'https://blue.example'}}]
//! users: [{name: ada, user: {token: hunter2}}]",
//!     &env,
//! )?;
//! let resolved = kubeconfig.resolve(&Overrides::default(), &env)?;
//! assert_eq!(resolved.server.value, "https://blue.example");
//! assert_eq!(resolved.namespace.value, "default");
//! assert!(!format!("{resolved:?}").contains("hunter2"));
//! # Ok::<(), credlet_client::kubeconfig::KubeconfigError>(())
//! ```
//!
//! A [`Resolved`] owns all it holds, so that no two contexts can spoil one another, and every value in it knows the
//! file and line it came from. Nothing here prints: what deserves a word is in [`Resolved::warnings`].

mod address;
mod check;
mod cluster;
mod error;
mod exec;
mod in_cluster;
mod merged;
mod mistake;
mod origin;
mod overrides;
mod paths;
pub(crate) mod pem;
pub(crate) mod read;
mod resolve;
mod resolved;
mod rules;
mod user;

pub use self::error::{FileError, FileErrorKind, KubeconfigError};
pub use self::merged::{Entry, Kubeconfig};
pub use self::mistake::{Mistake, Problem, Subject};
pub use self::origin::{Origin, Sourced};
pub use self::overrides::Overrides;
pub use self::read::FileProblem;
pub use self::resolved::{
    AuthProvider, CertificateAuthority, ClientCertificate, Exec, HeaderCredential, Identity, Impersonation, Resolved,
    Tls, TokenFile, Warning,
};
pub use self::rules::LoadingRules;
