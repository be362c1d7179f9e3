//! HTTP connections to Kubernetes API servers, and single requests with limits.
//!
//! [`HttpClient`] sends requests to one server. It is built from [`ClientSettings`] and takes each new [`HttpCredential`]
//! through [`HttpClient::publish`], which starts a new generation: the credential and the pool of the connections made
//! with its client certificate. [`HttpClient::send`] takes the current generation; its pool reserves a stream on an open
//! connection or opens one: a [`Route`] to the server, TLS on top, then HTTP/2 or HTTP/1.1. The [`ResponseBody`] holds
//! the stream until it is read or dropped.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_http::{ClientSettings, CryptoBackend, HttpClient, HttpCredential, RequestBody, ServerAddr, TrustRoots};
//! use credlet_platform::SystemClock;
//!
//! # async fn example(ca: Vec<u8>, token: http::HeaderValue) -> Result<(), credlet_http::HttpError> {
//! let server = ServerAddr::parse("https://api.example:6443")?;
//! let mut settings = ClientSettings::new(server, CryptoBackend::aws_lc_rs(), Arc::new(SystemClock::new()));
//! settings.roots = TrustRoots::Pem(ca);
//! let client = HttpClient::new(settings)?;
//! client.publish(HttpCredential::new(1, Some(token), None))?;
//!
//! let request = http::Request::get("/version").body(RequestBody::empty()).expect("a request");
//! let response = client.send(request).await?;
//! # Ok(()) }
//! ```
//!
//! [`fetch`] is for plugins: one request, one response, limits on time and size, and a policy of allowed hosts.
//!
//! Types of the TLS library appear in the interface only where a caller brings its own key or crypto provider.

mod authority;
mod body;
mod client;
mod conn_state;
mod connection_group;
mod dial;
mod error;
pub mod fetch;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod h2_connection;
mod h2_io_task;
mod http1;
mod identity;
mod no_proxy;
mod pool;
mod proxy;
mod read_ahead;
mod retry;
mod route;
mod settings;
mod tls;
mod tls_error;
mod tunnel;
mod verifier;

#[doc(no_inline)]
pub use credlet_api::address::{HostPort, ProxyAddr, ProxyScheme, ServerAddr, ServerAddrError, is_loopback};

pub use body::{ReadBodyError, RequestBody, ResponseBody, read_body};
pub use client::{CredentialGeneration, HttpClient, HttpCredential};
pub use error::{ConnectPhase, HttpError, SharedError};
pub use identity::TlsIdentity;
pub use proxy::proxy_for;
pub use route::{
    AsyncStream, BoxedStream, ConnectFuture, DirectRoute, IntermediaryTls, ProxyForwarding, RenewFuture, Route,
};
pub use settings::{ClientSettings, ConnectTimeouts, HttpTuning, PingSettings};
pub use tls::{CryptoBackend, TrustRoots};
