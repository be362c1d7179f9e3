use std::sync::Arc;

use credlet_api::exec::FailedResponse;
use credlet_client::{AuthError, Authenticator, ConnectionCredentials, ExecProxy};
use credlet_exec::Clock;
use credlet_http::HttpCredential;

use super::{SignError, SignFuture, Signer};

/// Uses the credential of another exec plugin. The proxy runs the plugin once for all clients, which never receive its
/// tokens and keys. If the plugin returns an exec proxy, requests are forwarded through that proxy.
#[derive(Debug)]
pub struct ExecSigner {
    authenticator: Authenticator,
    credentials: Arc<ConnectionCredentials>,
}

impl ExecSigner {
    /// Creates the signer without running the plugin. The plugin can return an exec proxy only if the authenticator
    /// passes it the lock file of `exec_proxy`.
    pub fn new(authenticator: Authenticator, clock: Arc<dyn Clock>, exec_proxy: Option<Arc<dyn ExecProxy>>) -> Self {
        let credentials = ConnectionCredentials::new(authenticator.clone(), clock, None, exec_proxy);
        Self { authenticator, credentials }
    }
}

impl Signer for ExecSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async {
            let entry = self.authenticator.credential().await.map_err(|error| unavailable(&error))?;
            let credential = self.credentials.credential(&entry);
            credential.map_err(|error| SignError::Unavailable { message: error.to_string() })
        })
    }

    fn on_unauthorized(&self, generation: u64) -> SignFuture<'_, bool> {
        Box::pin(async move {
            let entry = self.authenticator.credential().await.map_err(|error| unavailable(&error))?;
            if entry.generation() != generation {
                // A concurrent request has already replaced the credential.
                return Ok(true);
            }
            let response = FailedResponse { code: 401, ..FailedResponse::default() };
            let other = self.authenticator.replace(&entry, response).await.map_err(|error| unavailable(&error))?;
            Ok(other.is_some())
        })
    }
}

/// Includes the hints, because the client shows nothing else.
fn unavailable(error: &AuthError) -> SignError {
    let mut message = error.to_string();
    for hint in error.hints() {
        message.push_str("; ");
        message.push_str(&hint);
    }
    SignError::Unavailable { message }
}
