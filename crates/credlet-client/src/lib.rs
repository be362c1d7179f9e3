//! Client for Kubernetes API servers that authenticates every request.
//!
//! [`Client`] reads a [`kubeconfig`] like kubectl, obtains the credential of the selected user (exec plugin, token file, OIDC
//! `auth-provider`, static token, password or certificate), adds it to each request and refreshes it before it expires.
//! After a `401` it replaces the credential and retries the request once.
//!
//! A request takes this path:
//!
//! 1. [`Client::send`] adds path prefix, `User-Agent` and impersonation headers.
//! 2. The tower [`layer`] takes the cached credential from the [`Authenticator`]: one atomic load while it is valid,
//!    otherwise one plugin run for all waiting requests.
//! 3. [`ConnectionCredentials`] publishes header, client certificate and route of a new credential to the connection pool
//!    ([`credlet_http::HttpClient`]), which sends the request.
//! 4. After a `401` the layer replaces that credential, once for all requests that were sent with it, and retries.
//!
//! For another HTTP client, use [`layer::AuthenticatedService`] with an [`Authenticator`] from an [`AuthenticatorRegistry`].
//!
//! ```
//! use credlet_client::kubeconfig::{ConfigOverrides, Kubeconfig};
//! use credlet_client::{Client, ClientOptions};
//! use credlet_exec::FixedEnv;
//! use credlet_http::CryptoBackend;
//!
//! let env = FixedEnv::default();
//! let kubeconfig = Kubeconfig::from_bytes(
//!     b"current-context: blue
//! contexts: [{name: blue, context: {cluster: blue, user: ada}}]
//! clusters: [{name: blue, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true}}]
//! users: [{name: ada, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: acme}}}]",
//!     &env,
//! )?;
//! let resolved = kubeconfig.resolve(&ConfigOverrides::default(), &env)?;
//! // Building a client runs no plugin and opens no connection.
//! let client = Client::new(&resolved, ClientOptions::new(CryptoBackend::aws_lc_rs()))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod authenticator;
mod builder;
mod client;
mod error;
mod exec_proxy;
pub mod layer;
pub mod metrics;

#[doc(no_inline)]
pub use credlet_kubeconfig as kubeconfig;

pub use authenticator::{AuthError, Authenticator, AuthenticatorRegistry};
pub use builder::ClientBuilder;
pub use client::{Client, ClientBuildError, ClientOptions};
pub use error::Error;
pub use exec_proxy::{ConnectionCredentials, ExecProxy};
