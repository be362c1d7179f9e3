//! Ready-made Kubernetes credential plugins: a cache around any plugin, EKS, GKE, AKS, OKE, OIDC, CI.

pub mod aws;
pub mod azure;
pub mod cache;
pub mod eks;
pub mod gcp;
mod harness;
pub mod image;
mod ini;
pub mod kubeconfig_edit;
pub mod oauth;
pub mod oidc;
pub mod store;
pub mod web;
