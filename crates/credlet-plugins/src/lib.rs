//! Ready-made Kubernetes credential plugins: a cache around any plugin, EKS, OIDC.

pub mod aws;
pub mod cache;
pub mod eks;
pub mod image;
pub mod kubeconfig_edit;
pub mod oidc;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod store;
pub mod web;
