//! Responds with an error when a signature waits for the user, who must be notified to touch the key.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::header::UPGRADE;
use http::request::Parts;

use super::error_response::ProxyError;
use crate::sign::Signer;

/// Returns the result of `work`, or the action that the user must take. Operations that were started continue.
pub(super) async fn or_user_action<T, E: Into<ProxyError>>(
    signer: &dyn Signer,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, ProxyError> {
    let Some(needed) = signer.user_action_required() else { return work.await.map_err(E::into) };
    tokio::select! {
        biased;
        result = work => result.map_err(E::into),
        error = needed => Err(error.into()),
    }
}

/// Establishes a connection before the request is sent, if that may need user action. Otherwise the request could be
/// sent after its client got an error.
pub(super) async fn connect(
    signer: &dyn Signer,
    upstream: &credlet_http::HttpClient,
    head: &Parts,
) -> Result<(), ProxyError> {
    match signer.user_action_required() {
        None => Ok(()),
        Some(_) => or_user_action(signer, upstream.connect(head.headers.contains_key(UPGRADE))).await,
    }
}

/// Closes connections made with a key that was removed since: idle ones at once, others after their last request. TLS
/// sessions are dropped too, because resumption needs no key.
pub(super) fn close_after_key_loss(signer: &dyn Signer, upstream: &credlet_http::HttpClient, known: &AtomicU64) {
    let losses = signer.key_losses();
    if known.swap(losses, Relaxed) == losses {
        return;
    }
    tracing::info!("closing connections made before the key was removed");
    if let Err(error) = upstream.disconnect() {
        tracing::warn!(%error, "failed to close connections");
    }
}
