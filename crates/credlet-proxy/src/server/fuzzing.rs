//! Entry points of `fuzz/fuzz_targets` into private parsers. Not part of the public API.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use credlet_api::exec::Cluster;
use credlet_exec::Platform;
use credlet_http::CryptoBackend;
use http::{HeaderMap, HeaderValue, Request, Uri};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::authority::AllowedAuthorities;
use super::{ProxyServer, ServerOptions, UpstreamTarget, connect, control, headers};
use crate::dir::ProxyDir;
use crate::sign::HeaderSigner;

/// Authorities that requests may name.
#[derive(Debug)]
pub struct ServerNames(AllowedAuthorities);

impl ServerNames {
    /// For this server, and for the local names of the port `loopback`. `None` if the server is not valid as an
    /// authority.
    pub fn new(server: &str, loopback: Option<u16>) -> Option<Self> {
        AllowedAuthorities::new(&credlet_http::ServerAddr::parse(server).ok()?, loopback).ok().map(Self)
    }

    /// Whether this authority is allowed.
    pub fn allows(&self, authority: &str) -> bool {
        self.0.allows(authority)
    }

    /// Returns the URI at the API server for a request target. `None` if it is rejected.
    pub fn addressed(&self, uri: &Uri) -> Option<Uri> {
        self.0.addressed(uri).ok()
    }

    /// Length of a `CONNECT` head. `Ok(None)` if it is incomplete.
    ///
    /// # Errors
    /// The error response, if the request is rejected.
    pub fn connect_head(&self, bytes: &[u8]) -> Result<Option<usize>, Vec<u8>> {
        connect::head_length(bytes, &self.0).map_err(|error| error.into_http1_bytes())
    }
}

/// Whether the body length is unambiguous.
pub fn has_one_length(headers: &HeaderMap) -> bool {
    headers::check_body_length(headers).is_ok()
}

/// Removes headers that must not reach the API server.
pub fn clean_request(headers: &mut HeaderMap) {
    headers::clean_request(headers);
}

/// Removes headers that must not reach the client.
pub fn clean_response(headers: &mut HeaderMap) {
    headers::clean_response(headers);
}

/// Protocol of an upgrade request.
pub fn requested_upgrade(request: &Request<()>) -> Option<HeaderValue> {
    headers::requested_upgrade(request)
}

/// Control socket of a proxy that is not run.
#[derive(Debug)]
pub struct ControlSocket {
    runtime: tokio::runtime::Runtime,
    server: ProxyServer,
}

impl ControlSocket {
    /// Creates a proxy in this directory. `None` if that fails.
    pub fn open(dir: ProxyDir) -> Option<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let cluster = Cluster { server: "https://api.example:6443".to_owned(), ..Cluster::default() };
        let target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &Platform::system()).ok()?;
        let signer = Arc::new(HeaderSigner::fixed([]).ok()?);
        let server = runtime.block_on(ProxyServer::bind(signer, ServerOptions::new(target, dir))).ok()?;
        Some(Self { runtime, server })
    }

    /// Returns the response to these bytes followed by EOF.
    pub fn respond(&self, bytes: &[u8]) -> Vec<u8> {
        /// Enough for the largest request and its response.
        const BUFFER: usize = 1 << 17;
        const POLLS: usize = 100;
        let _entered = self.runtime.enter();
        let (mut caller, socket) = tokio::io::duplex(BUFFER);
        let mut served = pin!(async move {
            caller.write_all(bytes).await.ok()?;
            caller.shutdown().await.ok()?;
            control::serve(socket, Arc::clone(&self.server.shared), || {}).await;
            let mut response = Vec::new();
            caller.read_to_end(&mut response).await.ok()?;
            Some(response)
        });
        // No external events are needed, except for `/stop?wait`.
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..POLLS {
            if let Poll::Ready(response) = served.as_mut().poll(&mut context) {
                return response.unwrap_or_default();
            }
        }
        Vec::new()
    }
}
