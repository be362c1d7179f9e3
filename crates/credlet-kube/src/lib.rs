//! kube-rs clients whose exec credentials renew and rotate by themselves.
//!
//! **The path of a request:** kube's `Client` → the layers that kube has, too: gzip, another try after 429, 503 and 504,
//! headers, a tracing span → [`credlet_client::Client`]: fresh credential? → a connection made with its certificate →
//! the answer; `401` → another credential, once for all who held this one, and the request once more.
//!
//! **Three names to know:** [`client`], [`Options`], and [`builder`] for more layers.
//!
//! # From kube's own client in two lines
//!
//! In `Cargo.toml`, a line more; in the program, another line in place of the one that made the client. All the rest,
//! `Api`, watchers, controllers, stays.
//!
//! ```no_run
//! # async fn example(config: kube::Config) -> Result<(), Box<dyn std::error::Error>> {
//! // let client = kube::Client::try_default().await?;
//! let client = credlet_kube::client(credlet_kube::Options::infer())?;
//!
//! // let client = kube::Client::try_from(config)?;
//! let client = credlet_kube::client(config)?;
//! # Ok(())
//! # }
//! ```
//!
//! kube's TLS is not used then, and its features for it are not needed: `kube = { default-features = false, features =
//! ["client", …] }`. With them nothing breaks: this crate passes its crypto provider (aws-lc-rs) to everything that
//! needs one, installs none, and so works beside kube's ring.
//!
//! # Feature by feature
//!
//! | | kube 5.0 by itself | this crate |
//! |---|---|---|
//! | plugin runs to build a client | 3, and 4 with an https proxy; the thread waits for them | none |
//! | clients of one configuration | each runs its own | share one credential in the whole process |
//! | many requests without a fresh token | one run, but one for each request if tokens live for less than a minute or the plugin fails | one run, whatever it brings; then patience |
//! | renewal | in the last minute, while the request waits | ahead of the end, behind the requests' back |
//! | `401` | goes to the caller; the token stays in use | the token is replaced, once for all, and the request sent again |
//! | token without an expiry | for ever | until it is refused |
//! | certificate from a plugin | the first one, for ever; the program must watch `valid_until` | renewed; new connections have the new one, open watches end on the old |
//! | token and certificate in one answer | the token is dropped | both are used |
//! | answer of a plugin | hardly checked: `{}` means anonymous | checked as kubectl does |
//! | `interactiveMode`, install hint, plugin policy | no check for a terminal; not shown; none | as kubectl |
//! | a plugin that hangs | for ever, and all requests with it | ended after a minute, five if it talks to a person |
//! | errors | show the plugin's environment, arguments and output | show none of it |
//! | `Authorization` set by the program | overwritten | left alone |
//! | kubeconfig | differs from kubectl's reading on 31 of 52 files | as kubectl reads it, with file and line in errors |
//! | a kubeconfig with a mistake, in a pod | the pod's service account is used instead | is an error |
//! | credentials to an `http://` server | are sent | are not, as with kubectl; a warning is logged |
//! | token file, static token, basic, certificate, `oidc` | yes; `oidc` by a feature | yes |
//! | `gcp` auth-provider | by feature `oauth` | no: kubectl has none either |
//! | impersonation, extra headers, default namespace, `tls-server-name` | yes | yes |
//! | proxies: http, https, socks5, with user and password | by features | always |
//! | `NO_PROXY` | compared with the proxy's address | compared with the server's, as Go does |
//! | HTTP/2 | no: one connection per open request or watch | yes, and HTTP/1.1 for servers without |
//! | `exec`, `attach`, `port-forward` (feature `ws`) | yes | yes, over HTTP/1.1, `401` included |
//! | a plugin that answers with a proxy (KEP-2718) | no | by feature `proxy`, on by default; `CLIENT_EXEC_PROXY=false` switches it off |
//! | gzip | by feature `gzip` | by feature `gzip`, on by default |
//! | another try after 429, 503, 504 | yes, `default_retry` | the same layer, [`Options::retry`] |
//! | tracing span | one per attempt, below the credential | one per attempt, the credential and a second sending after `401` in it |
//! | more layers | `ClientBuilder::with_layer` | the same builder; the service below can be cloned |
//! | connect timeout | 30 s, TLS included | the same, [`ClientOptions::limits`](credlet_client::ClientOptions) |
//! | read timeout | per connection | per answer, [`Options::read_timeout`] |
//! | write timeout | 295 s per connection | none as such: a server that takes nothing is found out by HTTP/2 pings after 45 s; over HTTP/1.1 by TCP alone |
//! | `ca.crt` of a pod that is replaced | read again each minute | read when the client is built: **not yet** |
//! | `KUBE_RS_DEBUG_*` | `Config::infer` reads them | so they count if its `Config` is given to [`client`]; [`Options::infer`] reads none |
//! | a TLS library of choice | rustls or openssl | rustls |
//! | `Client::valid_until` | when the certificate ends | always `None`: nobody needs to watch |
//!
//! # Example
//!
//! ```
//! use credlet_client::kubeconfig::{Kubeconfig, Overrides};
//! use credlet_core::FixedEnv;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = FixedEnv::default();
//! let kubeconfig = Kubeconfig::from_bytes(
//!     b"current-context: blue
//! contexts: [{name: blue, context: {cluster: blue, user: ada, namespace: sky}}]
//! clusters: [{name: blue, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true}}]
//! users: [{name: ada, user: {exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: acme}}}]",
//!     &env,
//! )?;
//! // Nothing is run and nobody is called: that is for the first request to do.
//! let client = credlet_kube::client(kubeconfig.resolve(&Overrides::default(), &env)?)?;
//! assert_eq!(client.default_namespace(), "sky");
//! # Ok(())
//! # }
//! ```
//!
//! A list, a watcher and a controller are in `examples/`; the tests run them through expiry, rotation and revocation.

mod config;
mod error;
mod options;
mod send;
mod stack;
mod trace;

pub use error::Error;
pub use options::Options;
pub use send::Silent;
pub use stack::{Stack, builder, client};
