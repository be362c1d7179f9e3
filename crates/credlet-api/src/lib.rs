//! Wire types of the Kubernetes credential protocols, and the rules for handling secrets in text.
//!
//! - [`exec`]: the exec credential protocol, `client.authentication.k8s.io`;
//! - [`image`]: the kubelet's image credential providers, `credentialprovider.kubelet.k8s.io`, and docker's files;
//! - [`kubeconfig`], [`kuberc`]: the files of kubectl, with the line of each value;
//! - [`oidc`]: documents and tokens of OpenID Connect; [`review`], [`status`]: responses of the API server;
//! - [`address`]: addresses by the rules of Go's `net/url`;
//! - [`Secret`], [`redact`], [`escape_control_chars`] and others: secrets and untrusted text.
//!
//! A client encodes an [`ExecCredentialSpec`] for the program of an [`ExecConfig`](exec::ExecConfig), and decodes its
//! output as an
//! [`ExecCredentialStatus`]:
//!
//! ```
//! use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
//!
//! let request = ExecCredentialSpec::default();
//! let exec_info = request.encode(ApiVersion::V1);
//! assert!(exec_info.ends_with("}\n"));
//!
//! let stdout = br#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"hunter2"}}"#;
//! let status = ExecCredentialStatus::decode(stdout, ApiVersion::V1, &request)?;
//! assert_eq!(status.token.expose(), "hunter2");
//! assert!(!format!("{status:?}").contains("hunter2"));
//! # Ok::<(), credlet_api::exec::InvalidCredential>(())
//! ```
//!
//! Errors of the decoders name fields and positions, and never quote a value. The crate performs no I/O. Plugin authors
//! use it through `credlet-plugin`.
//!
//! [`ExecCredentialSpec`]: exec::ExecCredentialSpec
//! [`ExecCredentialStatus`]: exec::ExecCredentialStatus

pub mod address;
mod encoding;
pub mod exec;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod image;
pub mod kubeconfig;
pub mod kuberc;
pub mod oidc;
mod redact;
pub mod review;
mod secret;
pub mod status;
mod text;
mod wire;

pub use encoding::{hex, percent_decode};
pub use redact::{is_secret_name, redact, redact_args};
pub use secret::Secret;
pub use text::{
    TerminalFilter, escape_control_chars, escape_indented, escape_json, escape_line, escape_yaml, is_displayable,
};
pub use wire::duration;
pub use wire::error::{DocumentError, Position};
