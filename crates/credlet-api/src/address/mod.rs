//! Addresses in kubeconfigs and proxy variables, by Go's rules: the API server's URL, a proxy's URL, host and port.
//!
//! ```
//! use credlet_api::address::ServerAddr;
//!
//! let server = ServerAddr::parse("https://api.example/k8s/clusters/c-1")?;
//! assert_eq!(server.to_string(), "api.example:443");
//! assert!(ServerAddr::parse("api.example:6443").is_err());
//! # Ok::<(), credlet_api::address::ServerAddrError>(())
//! ```

mod proxy;
mod server;
mod url;

pub use proxy::{ProxyAddr, ProxyAddrError, ProxyScheme};
pub use server::{HostPort, ServerAddr, ServerAddrError, is_loopback};
pub use url::GoUrl;
