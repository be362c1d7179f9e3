//! [kube](https://docs.rs/kube) clients with exec credentials that are refreshed and rotated.
//!
//! [`client`] returns a `kube::Client` for [`KubeClientOptions`], a resolved kubeconfig or a `kube::Config`; [`builder`] allows
//! more layers. A request passes the layers of kube (gzip, retry after 429, 503 and 504, headers, tracing span) and is sent by
//! [`credlet_client::Client`], which adds the credential and replaces it after a `401`.
//!
//! # Migrating from `kube::Client`
//!
//! Add the dependency and replace the line that builds the client. `Api`, watchers and controllers stay as they are.
//!
//! ```no_run
//! # async fn example(config: kube::Config) -> Result<(), Box<dyn std::error::Error>> {
//! // let client = kube::Client::try_default().await?;
//! let client = credlet_kube::client(credlet_kube::KubeClientOptions::infer())?;
//!
//! // let client = kube::Client::try_from(config)?;
//! let client = credlet_kube::client(config)?;
//! # Ok(())
//! # }
//! ```
//!
//! The TLS features of kube are not needed: `kube = { default-features = false, features = ["client", …] }`. They do no harm
//! either: this crate passes its crypto provider (aws-lc-rs) explicitly and installs no default, so it works beside kube's ring.
//!
//! # Comparison
//!
//! | | kube 5.0 | this crate |
//! |---|---|---|
//! | plugin runs to build a client | 3, or 4 with an https proxy, blocking the thread | none |
//! | clients of one configuration | each runs the plugin | share one credential per process |
//! | concurrent requests without a valid token | one run, but one per request if tokens live for less than a minute or the plugin fails | one run, with backoff after a failure |
//! | refresh | in the last minute, while the request waits | in the background, ahead of expiry |
//! | `401` | returned to the caller; the token stays in use | the token is replaced once for all requests, and the request retried |
//! | token without an expiry | never refreshed | refreshed after a `401` |
//! | certificate from a plugin | never renewed; the program must check `valid_until` | renewed; new connections use the new one, open watches keep the old |
//! | token and certificate of one plugin run | the token is dropped | both are used |
//! | output of a plugin | hardly validated: `{}` means anonymous | validated like kubectl |
//! | `interactiveMode`, install hint, plugin policy | not checked; not shown; none | like kubectl |
//! | a plugin that hangs | blocks all requests forever | killed after a minute, or five if interactive |
//! | errors | contain the plugin's environment, arguments and output | contain none of them |
//! | `Authorization` set by the program | overwritten | kept |
//! | kubeconfig | differs from kubectl for 31 of 52 files | like kubectl, with file and line in errors |
//! | an invalid kubeconfig, in a pod | the pod's service account is used instead | an error |
//! | credentials to an `http://` server | sent | not sent, like kubectl; a warning is logged |
//! | token file, static token, basic, certificate, `oidc` | yes; `oidc` by feature | yes |
//! | `gcp` auth-provider | by feature `oauth` | no, like kubectl |
//! | impersonation, extra headers, default namespace, `tls-server-name` | yes | yes |
//! | proxies: http, https, socks5, with user and password | by features | always |
//! | `NO_PROXY` | compared with the proxy's address | compared with the server's, as Go does |
//! | HTTP/2 | no: one connection per open request or watch | yes, with HTTP/1.1 as a fallback |
//! | `exec`, `attach`, `port-forward` (feature `ws`) | yes | yes, over HTTP/1.1, with retry after `401` |
//! | exec proxy of a plugin (KEP-2718) | no | by feature `proxy`, on by default; `CLIENT_EXEC_PROXY=false` disables it |
//! | gzip | by feature `gzip` | by feature `gzip`, on by default |
//! | retry after 429, 503, 504 | yes, `default_retry` | the same layer, [`KubeClientOptions::retry`] |
//! | tracing span | one per attempt, below the credential | one per attempt, including the credential and the retry after `401` |
//! | more layers | `ClientBuilder::with_layer` | the same builder; the service is `Clone` |
//! | connect timeout | 30 s, TLS included | the same, [`ClientOptions::limits`](credlet_client::ClientOptions) |
//! | read timeout | per connection | per response, [`KubeClientOptions::read_timeout`] |
//! | write timeout | 295 s per connection | none: HTTP/2 pings detect a stalled server after 45 s; HTTP/1.1 relies on TCP |
//! | rotation of a pod's `ca.crt` | read again each minute | not supported yet: read when the client is built |
//! | `KUBE_RS_DEBUG_*` | read by `Config::infer` | used if that `Config` is passed to [`client`]; [`KubeClientOptions::infer`] ignores them |
//! | TLS library | rustls or openssl | rustls |
//! | `Client::valid_until` | expiry of the certificate | always `None`: not needed |
//!
//! # Example
//!
//! ```
//! use credlet_kubeconfig::{Kubeconfig, ConfigOverrides};
//! use credlet_exec::FixedEnv;
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
//! // Building a client runs no plugin and opens no connection.
//! let client = credlet_kube::client(kubeconfig.resolve(&ConfigOverrides::default(), &env)?)?;
//! assert_eq!(client.default_namespace(), "sky");
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` has a list, a watcher and a controller; the tests run them through expiry, rotation and revocation.

mod config;
mod error;
mod options;
mod request_span;
mod send_service;
mod stack;

pub use error::Error;
pub use options::KubeClientOptions;
pub use send_service::ReadTimeoutError;
pub use stack::{KubeService, builder, client};
