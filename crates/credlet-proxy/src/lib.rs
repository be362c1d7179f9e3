//! The client exec proxy (KEP-2718): a plugin that stays alive, is reached over a Unix socket, and signs each request
//! or holds the TLS key.
//!
//! **The path:** a client takes a lock and runs its plugin ([`client`]) → the plugin finds or starts a proxy, or is one
//! ([`server`]) → requests go into its socket → a [`Signer`](sign::Signer) puts on them what only the proxy has → the
//! API server. When the lock is free the client is gone, and soon the proxy is.
//!
//! **Three names to know:** [`Signer`](sign::Signer), [`server::Server`], [`client::ExecProxies`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_api::exec::ExecInfo;
//! use credlet_client::conn::Crypto;
//! use credlet_core::World;
//! use credlet_proxy::dir::Dir;
//! use credlet_proxy::server::{Options, Server, Target};
//! use credlet_proxy::sign::File;
//!
//! // A plugin that is itself the proxy, with a certificate that its clients never get to see.
//! # async fn example(info: ExecInfo) -> Result<(), Box<dyn std::error::Error>> {
//! let (world, crypto) = (World::system(), Crypto::aws_lc_rs());
//! let signer = File::new("/run/tls.crt".into(), "/run/tls.key".into(), crypto.clone(), world.clock.clone());
//! let mut options = Options::new(Target::of(&info, crypto, &world)?, Dir::of_this_process(&*world.env)?);
//! options.leases.extend(info.spec.lock_file_path.clone().map(Into::into));
//! options.linger = std::time::Duration::ZERO;
//!
//! let server = Server::bind(Arc::new(signer), options).await?;
//! let _answer_for_stdout = server.answer()?.encode(info.version);
//! server.run().await;
//! # Ok(())
//! # }
//! ```

pub mod client;
pub mod dir;
pub mod endpoint;
mod percent;
pub mod policy;
pub mod server;
pub mod sign;
