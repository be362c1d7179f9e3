use credlet_client::ClientError;
use credlet_client::kubeconfig::KubeconfigError;

/// Why there is no client. Whoever wrote the configuration must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig leads nowhere.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// What it says cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// kube's configuration holds what no kubeconfig can.
    #[error("kube's configuration cannot be written down as a kubeconfig")]
    Unwritable,
}
