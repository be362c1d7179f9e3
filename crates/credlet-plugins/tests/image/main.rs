//! The image credential providers of the clouds, from a kubelet's request to what they print, with peers on loopback in
//! the clouds' places.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ecr;
mod ecr_faults;
#[path = "../common/peer.rs"]
mod peer;
mod support;
