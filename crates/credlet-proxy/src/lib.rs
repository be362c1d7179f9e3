//! Client and server of the exec proxy protocol (KEP-2718). An exec proxy is a long-running credential plugin: clients
//! send their requests to its Unix socket, and the proxy signs each request or holds the TLS key.
//!
//! A client locks a file and runs its plugin ([`client`]). The plugin finds or starts a daemon, or serves requests in
//! its own process ([`server`]). For each request a [`Signer`](sign::Signer) provides headers or a TLS identity before
//! the proxy forwards it to the API server. The kernel releases the lock when the client exits, and the proxy shuts
//! down once no client holds a lock.
//!
//! The main types are [`Signer`](sign::Signer), [`server::ProxyServer`] and [`client::ExecProxies`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_api::exec::ExecInfo;
//! use credlet_http::CryptoBackend;
//! use credlet_exec::Platform;
//! use credlet_proxy::dir::ProxyDir;
//! use credlet_proxy::server::{ServerOptions, ProxyServer, UpstreamTarget};
//! use credlet_proxy::sign::FileSigner;
//!
//! // A plugin that is itself the proxy, with a certificate that its clients never get to see.
//! # async fn example(info: ExecInfo) -> Result<(), Box<dyn std::error::Error>> {
//! let (platform, crypto) = (Platform::system(), CryptoBackend::aws_lc_rs());
//! let signer = FileSigner::new("/run/tls.crt".into(), "/run/tls.key".into(), crypto.clone(), platform.clock.clone());
//! let mut options = ServerOptions::new(UpstreamTarget::of(&info, crypto, &platform)?, ProxyDir::of_this_process(&*platform.env)?);
//! options.leases.extend(info.spec.lock_file_path.clone().map(Into::into));
//! options.linger = std::time::Duration::ZERO;
//!
//! let server = ProxyServer::bind(Arc::new(signer), options).await?;
//! let _answer_for_stdout = server.credential_status()?.encode(info.version);
//! server.run().await;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "bridge")]
pub mod bridge;
pub mod client;
pub mod dir;
pub mod endpoint;
pub mod policy;
pub mod server;
pub mod sign;
