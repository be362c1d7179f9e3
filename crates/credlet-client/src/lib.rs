//! Every request leaves with a credential that works.

pub mod authenticator;
mod client;
pub mod conn;
pub mod http;
pub mod kubeconfig;
pub mod metrics;

pub use authenticator::{AuthError, Authenticator, Authenticators};
pub use client::{Client, ClientError, ClientOptions};
