//! Image credential providers: programs that a kubelet, or `credlet image`, asks for credentials of registries.
//!
//! Those of the clouds ([`ecr`], [`gar`], [`acr`]) have three things in common: they know their registries by whole labels of the host's
//! name and have nothing for any other, unless a mirror was named; they say how long an answer may be remembered
//! by when the password ends; and whatever goes wrong is a failure, never an answer without credentials.

pub mod acr;
pub mod docker_helper;
pub mod ecr;
pub mod gar;
mod life;
mod mirror;
mod provider;
