use std::sync::Arc;

use credlet_api::exec::Response;
use credlet_client::conn::Credential;
use credlet_client::{AuthError, Authenticator, ExecProxy, Presenter};
use credlet_core::Clock;

use super::{SignError, Signer, Signing};

/// The credential of any exec plugin: it is run by the proxy, once for all clients, and its tokens and keys never reach
/// them. If it answers with a proxy of its own, requests go on through that one.
#[derive(Debug)]
pub struct Exec {
    authenticator: Authenticator,
    presenter: Arc<Presenter>,
}

impl Exec {
    /// Nothing is run yet. A plugin can only answer with a proxy if the authenticator tells it of the lock file of this
    /// `exec_proxy`.
    pub fn new(authenticator: Authenticator, clock: Arc<dyn Clock>, exec_proxy: Option<Arc<dyn ExecProxy>>) -> Self {
        let presenter = Presenter::new(authenticator.clone(), clock, None, exec_proxy);
        Self { authenticator, presenter }
    }
}

impl Signer for Exec {
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async {
            let entry = self.authenticator.credential().await.map_err(|error| unable(&error))?;
            let credential = self.presenter.credential(&entry);
            credential.map_err(|error| SignError::Unavailable { message: error.to_string() })
        })
    }

    fn refused(&self, serial: u64) -> Signing<'_, bool> {
        Box::pin(async move {
            let entry = self.authenticator.credential().await.map_err(|error| unable(&error))?;
            if entry.generation() != serial {
                // Somebody else was refused before us.
                return Ok(true);
            }
            let response = Response { code: 401, ..Response::default() };
            let other = self.authenticator.replace(&entry, response).await.map_err(|error| unable(&error))?;
            Ok(other.is_some())
        })
    }
}

/// With what a person can do about it: the client shows nothing else.
fn unable(error: &AuthError) -> SignError {
    let mut message = error.to_string();
    for hint in error.hints() {
        message.push_str("; ");
        message.push_str(&hint);
    }
    SignError::Unavailable { message }
}
