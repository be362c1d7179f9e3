//! Ready-made Kubernetes credential plugins: a cache around any plugin, EKS, GKE, AKS, OKE, OIDC, CI.

pub mod aks;
pub mod aws;
pub mod azure;
pub mod cache;
pub mod ci_token;
pub mod eks;
pub mod gcp;
pub mod gke;
mod harness;
pub mod image;
mod ini;
pub mod kubeconfig_edit;
pub mod oauth;
pub mod oidc;
pub mod oke;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod store;
pub mod web;
