use std::sync::Arc;

use credlet_http::HttpError;
use credlet_kubeconfig::KubeconfigError;

use crate::layer::BoxError;
use crate::{AuthError, ClientBuildError};

/// Error of building a [`Client`](crate::Client) or of a request without a response. A response with an error status is not
/// an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig files are invalid, missing or unreadable.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The resolved configuration is invalid.
    #[error(transparent)]
    Config(#[from] ClientBuildError),
    /// No credential is available: the plugin failed, or a file cannot be read. Shared by all requests that waited for it.
    #[error(transparent)]
    Credential(Arc<AuthError>),
    /// The connection to the API server or to a proxy failed.
    #[error(transparent)]
    Connection(#[from] HttpError),
    /// The request itself is invalid.
    #[error("invalid request: {reason}")]
    InvalidRequest {
        /// What the request violates.
        reason: String,
    },
}

impl Error {
    /// Converts the error of the tower layer, which is type-erased because the layer can wrap any service. Over the
    /// connections of [`Client`](crate::Client) it is always an [`AuthError`] or an [`HttpError`].
    pub(crate) fn from_layer(error: BoxError) -> Self {
        let error = match error.downcast::<Arc<AuthError>>() {
            Ok(error) => return Self::Credential(*error),
            Err(error) => error,
        };
        match error.downcast::<HttpError>() {
            Ok(error) => Self::Connection(*error),
            Err(error) => Self::InvalidRequest { reason: error.to_string() },
        }
    }
}

impl From<Arc<AuthError>> for Error {
    fn from(error: Arc<AuthError>) -> Self {
        Self::Credential(error)
    }
}

impl From<http::Error> for Error {
    fn from(error: http::Error) -> Self {
        Self::InvalidRequest { reason: error.to_string() }
    }
}
