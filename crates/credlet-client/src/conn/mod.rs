//! Connections to one API server, and what goes over them.
//!
//! **The path of a request:** [`Client::send`] takes the generation of the moment (a credential, and the pool of
//! connections made with its certificate) → the pool finds a place on a connection or makes a new one: a [`Route`] to
//! the server, TLS on it, HTTP/2 or HTTP/1.1 → the answer's [`Body`] holds the place until it ends.
//!
//! **Three names to know:** [`Settings`] say how to reach the server, [`Client`] sends, [`Client::publish`] replaces the
//! credential.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_client::conn::{Client, Credential, Crypto, Payload, Roots, Server, Settings};
//! use credlet_core::SystemClock;
//!
//! # async fn example(ca: Vec<u8>, token: http::HeaderValue) -> Result<(), credlet_client::conn::Error> {
//! let server = Server::parse("https://api.example:6443")?;
//! let mut settings = Settings::new(server, Crypto::aws_lc_rs(), Arc::new(SystemClock::new()));
//! settings.roots = Roots::Pem(ca);
//! let client = Client::new(settings)?;
//! client.publish(Credential::new(1, Some(token), None))?;
//!
//! let request = http::Request::get("/version").body(Payload::empty()).expect("a request");
//! let response = client.send(request).await?;
//! # Ok(()) }
//! ```
//!
//! Nothing outside this module names a type of the TLS library, except those who bring a key or a provider of their own.

mod ahead;
mod bell;
mod body;
mod client;
mod dial;
mod error;
mod gate;
mod http1;
mod identity;
mod line;
mod link;
mod no_proxy;
mod pool;
pub(crate) mod proxy;
mod retry;
mod route;
pub(crate) mod server;
mod settings;
mod tls;
mod tunnel;
pub(crate) mod url;
mod verifier;
mod wire;
mod words;

pub use body::{Body, Payload};
pub use client::{Client, Credential, SentWith};
pub use error::{Cause, Error, Step};
pub use identity::Identity;
pub use proxy::{Proxy, ProxyScheme};
pub use route::{Connecting, Direct, Duplex, Forwarding, Hop, Renewing, Route, Wire};
pub use server::{Server, Target, is_loopback};
pub use settings::{Limits, Ping, Settings, Tuning};
pub use tls::{Crypto, Roots};
