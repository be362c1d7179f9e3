//! The API server of the demo: five namespaces, one of which changes periodically so that a watch receives events.

use std::sync::Arc;
use std::time::Duration;

use credlet_apiserver::authn::ClusterAuthenticator;
use credlet_apiserver::ca::CertificateAuthority;
use credlet_apiserver::resources::{NamespaceApi, NamespaceStore};
use credlet_apiserver::token::TokenVerifier;
use credlet_apiserver::{ApiServer, ResponseRecord, StartError};
use credlet_exec::Clock;
use tokio::task::JoinHandle;

const NAMESPACES: [&str; 5] = ["default", "demo", "kube-node-lease", "kube-public", "kube-system"];

/// Namespace that changes periodically.
const CHANGING: &str = "demo";

/// Called for every request before the response is sent.
pub(super) type ResponseLog = dyn Fn(&ResponseRecord<'_>) + Send + Sync;

/// The running server. Dropping it closes its port and all connections.
pub(super) struct DemoApiServer {
    server: ApiServer,
    authenticator: Arc<ClusterAuthenticator>,
    changing: JoinHandle<()>,
}

impl DemoApiServer {
    /// Listens on a free port. One of the namespaces changes every `changes_every`.
    pub(super) fn start(
        authority: &CertificateAuthority,
        tokens: TokenVerifier,
        clock: Arc<dyn Clock>,
        changes_every: Duration,
        log: Box<ResponseLog>,
    ) -> Result<Self, StartError> {
        let authenticator = Arc::new(ClusterAuthenticator::new(authority)?.with_tokens(tokens));
        let namespaces = NamespaceStore::with_names(Arc::clone(&clock), NAMESPACES);
        let server = ApiServer::builder(authority)
            .authenticator(Arc::clone(&authenticator))
            .handler(NamespaceApi::with_namespaces(namespaces.clone()).named("credlet demo"))
            // The server of `--serve` runs until Ctrl-C.
            .record_requests(false)
            .on_response(log)
            .start()?;
        let changing = tokio::spawn(async move {
            loop {
                clock.sleep(changes_every).await;
                namespaces.touch(CHANGING);
            }
        });
        Ok(Self { server, authenticator, changing })
    }

    /// Returns the value of `server` for a kubeconfig.
    pub(super) fn url(&self) -> String {
        self.server.url()
    }

    /// Revokes the token with this id.
    pub(super) fn revoke(&self, id: &str) {
        self.authenticator.revoke(id);
    }
}

impl Drop for DemoApiServer {
    fn drop(&mut self) {
        self.changing.abort();
    }
}
