use std::fmt;
use std::str::FromStr;

/// A version of `client.authentication.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiVersion {
    /// The first one, of 2018. Kubernetes removed it in 1.24; old plugins still speak it.
    V1alpha1,
    /// Since Kubernetes 1.11.
    V1beta1,
    /// Since Kubernetes 1.22.
    V1,
}

impl ApiVersion {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::V1alpha1, Self::V1beta1, Self::V1];

    /// As a kubeconfig spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1alpha1 => "client.authentication.k8s.io/v1alpha1",
            Self::V1beta1 => "client.authentication.k8s.io/v1beta1",
            Self::V1 => "client.authentication.k8s.io/v1",
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ApiVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or(UnknownVersion)
    }
}

/// A text names none of the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not one of client.authentication.k8s.io/v1, …/v1beta1 and …/v1alpha1")]
pub struct UnknownVersion;
