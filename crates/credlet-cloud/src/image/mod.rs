//! Image credential providers, run by a kubelet or by `credlet image`.
//!
//! The providers of the clouds ([`ecr`], [`gar`], [`acr`]) match registries by whole labels of the host name and return nothing for other
//! registries, unless a mirror is configured. The cache duration follows from the expiry of the password. Any failure is an error,
//! never a response without credentials.

pub mod acr;
mod cache_duration;
pub mod docker_helper;
pub mod ecr;
pub mod gar;
mod mirror;
mod provider;
