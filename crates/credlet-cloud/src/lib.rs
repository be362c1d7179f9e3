//! Credential sources of the clouds, and the plugins built on them.
//!
//! - [`aws`], [`azure`] and [`gcp`] obtain credentials of a cloud; [`oauth`] has what they share: access tokens, identity tokens
//!   and their cache on disk.
//! - [`eks`], [`aks`], [`gke`], [`oke`] and [`ci_token`] are exec plugins for Kubernetes clients.
//! - [`image`] has the image credential providers for kubelets.

pub mod aks;
pub mod aws;
pub mod azure;
pub mod ci_token;
pub mod eks;
pub mod gcp;
pub mod gke;
pub mod image;
mod ini;
pub mod oauth;
pub mod oke;
#[doc(hidden)]
pub mod plugin_runner;
