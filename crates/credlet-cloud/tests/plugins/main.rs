//! The plugins and image credential providers of the clouds, from their arguments to their output, with [fake
//! endpoints](support::FakeEndpoint) on loopback in place of the clouds.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aks;
mod aks_users;
mod ci_token;
mod destinations;
mod eks;
mod faults;
mod gcloud;
mod gke;
mod image;
mod oke;
mod support;
