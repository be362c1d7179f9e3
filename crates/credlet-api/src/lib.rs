//! What crosses a process boundary in Kubernetes exec credentials: the documents that clients and plugins exchange,
//! the [`Secret`]s in them, and the harness that turns a function into a plugin.
//!
//! **The path:** [`ExecConfig`](exec::ExecConfig) names a program → [`ExecCredentialSpec::encode`] tells it what is
//! wanted → the program ([`plugin::main`]) prints its answer → [`ExecCredentialStatus::decode`] reads and checks it.
//!
//! **Three names to know:** [`Secret`], [`ExecCredentialStatus`], [`plugin::main`].
//!
//! ```
//! use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
//!
//! // A client asks in some version …
//! let asked = ExecCredentialSpec::default();
//! let told = asked.encode(ApiVersion::V1);
//! assert!(told.ends_with("}\n"));
//!
//! // … and reads the answer. Nothing of it can be printed by accident.
//! let stdout = br#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2"}}"#;
//! let status = ExecCredentialStatus::decode(stdout, ApiVersion::V1, &asked)?;
//! assert_eq!(status.token.expose(), "hunter2");
//! assert!(!format!("{status:?}").contains("hunter2"));
//! # Ok::<(), credlet_api::exec::AnswerError>(())
//! ```
//!
//! This crate does no input or output, apart from [`plugin::main`], which is a program's `main`.
//!
//! [`ExecCredentialSpec::encode`]: exec::ExecCredentialSpec::encode
//! [`ExecCredentialStatus`]: exec::ExecCredentialStatus
//! [`ExecCredentialStatus::decode`]: exec::ExecCredentialStatus::decode

pub mod exec;
pub mod image;
pub mod kubeconfig;
pub mod kuberc;
pub mod oidc;
pub mod plugin;
mod redact;
pub mod review;
mod secret;
pub mod status;
mod text;
mod wire;

pub use redact::scrub;
pub use secret::Secret;
pub use text::visible;
pub use wire::fault::{Fault, Position};
