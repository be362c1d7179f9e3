//! Serves namespaces until Ctrl-C, and prints a kubeconfig with a token that is valid for an hour:
//!
//! ```text
//! cargo run -p credlet-apiserver --example serve > kubeconfig
//! kubectl --kubeconfig kubeconfig get namespaces --watch
//! ```

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use credlet_apiserver::ApiServer;
use credlet_apiserver::authn::ClusterAuthenticator;
use credlet_apiserver::ca::CertificateAuthority;
use credlet_apiserver::resources::{NamespaceApi, NamespaceStore};
use credlet_apiserver::token::{TokenClaims, TokenSigner};
use credlet_platform::{Clock, SystemClock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ca = CertificateAuthority::with_clock("example CA", Arc::clone(&clock))?;
    let signer = TokenSigner::new()?;
    let namespaces = NamespaceStore::new(Arc::clone(&clock));
    let server = ApiServer::builder(&ca)
        .authenticator(ClusterAuthenticator::new(&ca)?.with_tokens(signer.verifier()))
        .handler(NamespaceApi::with_namespaces(namespaces.clone()))
        .record_requests(false)
        .on_response(|record| eprintln!("{} {} {}", record.status, record.request.method, record.request.path_only()))
        .start()?;

    let now = clock.now();
    let (id, user, groups) = ("1".to_owned(), "jane".to_owned(), vec!["developers".to_owned()]);
    let token = signer.sign(&TokenClaims { id, user, groups, expires: now + Duration::from_secs(3600) }, now);
    println!(
        "apiVersion: v1
kind: Config
current-context: example
contexts: [{{name: example, context: {{cluster: example, user: jane}}}}]
clusters: [{{name: example, cluster: {{server: {}, certificate-authority-data: {}}}}}]
users: [{{name: jane, user: {{token: {}}}}}]",
        server.url(),
        BASE64.encode(ca.pem()),
        token.expose(),
    );

    namespaces.add("example");
    loop {
        tokio::select! {
            () = clock.sleep(Duration::from_secs(5)) => namespaces.touch("example"),
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
        }
    }
}
