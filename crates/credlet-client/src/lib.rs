//! Every request leaves with a credential that works.
//!
//! **The path of a request:** [`kubeconfig`] says who we are and where the server is → [`Client::send`] → the
//! [`http`] layer: has it its own `Authorization`? leave it → [`Authenticator`]: fresh → one atomic load; not fresh → one
//! run of the plugin for everybody → [`conn`]: a connection made with the credential's certificate → the answer; `401` →
//! another credential, once for all who held this one, and the request once more.
//!
//! **Three names to know:** [`kubeconfig::LoadingRules`], [`Client`], [`Authenticator`].
//!
//! ```
//! use credlet_client::conn::Crypto;
//! use credlet_client::kubeconfig::{Kubeconfig, Overrides};
//! use credlet_client::{Client, ClientOptions};
//! use credlet_core::FixedEnv;
//!
//! let env = FixedEnv::default();
//! let kubeconfig = Kubeconfig::from_bytes(
//!     b"current-context: blue
//! contexts: [{name: blue, context: {cluster: blue, user: ada}}]
//! clusters: [{name: blue, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true}}]
//! users: [{name: ada, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: acme}}}]",
//!     &env,
//! )?;
//! let resolved = kubeconfig.resolve(&Overrides::default(), &env)?;
//! // Nothing is run and nobody is called: that is for the first request to do.
//! let client = Client::new(&resolved, ClientOptions::new(Crypto::aws_lc_rs()))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod authenticator;
mod client;
pub mod conn;
mod exec_proxy;
pub mod http;
pub mod kubeconfig;
pub mod metrics;

pub use authenticator::{AuthError, Authenticator, Authenticators};
pub use client::{Client, ClientError, ClientOptions};
pub use exec_proxy::{ExecProxy, Presenter};
