//! The plugins for the clouds, from their arguments to what they print, with peers on loopback in the clouds' place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aks;
mod aks_people;
mod ci_token;
mod faults;
mod gcloud;
mod gke;
mod oke;
#[path = "../support/peer.rs"]
mod peer;
mod support;
