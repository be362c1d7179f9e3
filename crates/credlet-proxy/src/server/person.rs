//! Not waiting for a person longer than a client should: who has to touch a key must first know of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use credlet_client::conn;
use http::header::UPGRADE;
use http::request::Parts;

use super::rescue::Trouble;
use crate::sign::Signer;

/// What `work` gives, or what a person has to do before it can go on. What was begun for it goes on without us.
pub(super) async fn or_person<T, E: Into<Trouble>>(
    signer: &dyn Signer,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble> {
    let Some(needed) = signer.person() else { return work.await.map_err(E::into) };
    tokio::select! {
        biased;
        result = work => result.map_err(E::into),
        error = needed => Err(error.into()),
    }
}

/// Sees to it that there is a connection for a request, if it may take a person to make one. The request itself is not
/// given away before: it would be sent later, when its client has long been told that it was not.
pub(super) async fn connect(signer: &dyn Signer, upstream: &conn::Client, head: &Parts) -> Result<(), Trouble> {
    match signer.person() {
        None => Ok(()),
        Some(_) => or_person(signer, upstream.connect(head.headers.contains_key(UPGRADE))).await,
    }
}

/// Closes what was made with a key that has been gone since: idle connections at once, others after their last request.
/// TLS sessions go as well, or the next connection would need no key.
pub(super) fn after_loss(signer: &dyn Signer, upstream: &conn::Client, known: &AtomicU64) {
    let losses = signer.losses();
    if known.swap(losses, Relaxed) == losses {
        return;
    }
    tracing::info!("the key was gone, and so are the connections that were made with it");
    if let Err(error) = upstream.hang_up() {
        tracing::warn!(%error, "connections could not be closed");
    }
}
