use credlet_api::exec::Response;
use credlet_client::conn::Credential;
use credlet_client::{AuthError, Authenticator};

use super::{SignError, Signer, Signing};

/// The credential of any exec plugin: it is run by the proxy, once for all clients, and its tokens and keys never reach
/// them.
#[derive(Debug)]
pub struct Exec(Authenticator);

impl Exec {
    /// Nothing is run yet.
    pub fn new(authenticator: Authenticator) -> Self {
        Self(authenticator)
    }
}

impl Signer for Exec {
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async {
            let entry = self.0.credential().await.map_err(|error| unable(&error))?;
            let issued = entry.value();
            let (authorization, identity) = (issued.authorization().cloned(), issued.identity().cloned());
            Ok(Credential::new(entry.generation(), authorization, identity))
        })
    }

    fn refused(&self, serial: u64) -> Signing<'_, bool> {
        Box::pin(async move {
            let entry = self.0.credential().await.map_err(|error| unable(&error))?;
            if entry.generation() != serial {
                // Somebody else was refused before us.
                return Ok(true);
            }
            let response = Response { code: 401, ..Response::default() };
            let other = self.0.replace(&entry, response).await.map_err(|error| unable(&error))?;
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
