use credlet_client::ClientBuildError;
use credlet_kubeconfig::KubeconfigError;

/// Invalid configuration of a client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig is invalid or missing.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The resolved configuration is invalid.
    #[error(transparent)]
    Client(#[from] ClientBuildError),
    /// `kube::Config` has a value that a kubeconfig cannot represent.
    #[error("failed to convert kube::Config to a kubeconfig")]
    InvalidKubeConfig,
}
