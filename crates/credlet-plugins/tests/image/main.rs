//! The image credential providers of the clouds, from a kubelet's request to what they print, with peers on loopback in
//! the clouds' places.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acr;
mod acr_bindings;
mod acr_faults;
mod ecr;
mod ecr_faults;
mod gar;
#[path = "../support/peer.rs"]
mod peer;
mod support;
