//! The EKS plugin, from its arguments to what it prints, with a peer on loopback in AWS's place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faults;
#[path = "../support/peer.rs"]
mod peer;
mod places;
mod profiles;
mod roles;
mod sso;
mod support;
mod tokens;
