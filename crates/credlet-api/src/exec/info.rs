use super::decode::{Document, TypeMeta};
use super::{AnswerError, ApiVersion, Cluster, ExecCredentialSpec};
use crate::Secret;
use crate::wire::document::{self, Duplicates};
use crate::wire::fault::Fault;

/// What a plugin has been told: the version to answer in, and the specification.
///
/// ```
/// use credlet_api::exec::{ApiVersion, ExecInfo};
///
/// let told = br#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":true}}"#;
/// let info = ExecInfo::load(told).unwrap();
/// assert_eq!(info.version, ApiVersion::V1);
/// assert!(info.spec.interactive);
/// // Nobody said `provideClusterInfo: true`, which is fine until the plugin wants to reach the cluster.
/// assert!(info.spec.cluster.is_none());
/// assert!(info.connection().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExecInfo {
    /// The version in which the client wants its answer.
    pub version: ApiVersion,
    /// What the client said.
    pub spec: ExecCredentialSpec,
}

impl ExecInfo {
    /// Reads the value of [`KUBERNETES_EXEC_INFO`](super::EXEC_INFO_ENV).
    ///
    /// # Errors
    /// The client, or whoever set the variable by hand, must act.
    pub fn load(data: &[u8]) -> Result<Self, InfoError> {
        let meta: TypeMeta = match document::read(data, Duplicates::LastWins) {
            Err(Fault::Empty) => return Err(InfoError::Unset),
            other => other.map_err(InfoError::Unreadable)?,
        };
        let version = meta.version().map_err(|error| match error {
            AnswerError::OtherKind { found } => InfoError::OtherKind { found },
            _ => InfoError::NoVersion,
        })?;
        let document: Document = document::read(data, Duplicates::LastWins).map_err(InfoError::Unreadable)?;
        let mut spec = ExecCredentialSpec::from(document.spec.unwrap_or_default());
        match version {
            // A version's reader does not know what only another version has.
            ApiVersion::V1alpha1 => (spec.cluster, spec.lock_file_path) = (None, None),
            ApiVersion::V1beta1 | ApiVersion::V1 => spec.response = None,
        }
        Ok(Self { version, spec })
    }

    /// How to reach the cluster the credential is for, anonymously.
    ///
    /// # Errors
    /// When the client was not told to pass it on, or passed on something unusable.
    pub fn connection(&self) -> Result<Connection<'_>, InfoError> {
        let cluster = self.spec.cluster.as_ref().ok_or(InfoError::NoCluster)?;
        if !cluster.proxy_url.is_empty() && !is_proxy_url(cluster.proxy_url.expose()) {
            return Err(InfoError::ProxyUrl);
        }
        Ok(Connection { cluster })
    }
}

/// The connection details of a [`Cluster`], seen to be usable.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    cluster: &'a Cluster,
}

impl<'a> Connection<'a> {
    /// The API server's address.
    pub fn server(&self) -> &'a str {
        &self.cluster.server
    }

    /// The name to expect in the server's certificate, if not the address's.
    pub fn tls_server_name(&self) -> Option<&'a str> {
        Some(&*self.cluster.tls_server_name).filter(|name| !name.is_empty())
    }

    /// Whether the server's certificate goes unchecked.
    pub fn insecure_skip_tls_verify(&self) -> bool {
        self.cluster.insecure_skip_tls_verify
    }

    /// The certificate authorities as PEM, if not those of the system.
    pub fn certificate_authority_data(&self) -> Option<&'a [u8]> {
        Some(&*self.cluster.certificate_authority_data).filter(|pem| !pem.is_empty())
    }

    /// The proxy to reach the server through.
    pub fn proxy_url(&self) -> Option<&'a Secret> {
        Some(&self.cluster.proxy_url).filter(|url| !url.is_empty())
    }

    /// Whether answers should come uncompressed.
    pub fn disable_compression(&self) -> bool {
        self.cluster.disable_compression
    }
}

/// The schemes that Kubernetes knows, and a host that could be one.
fn is_proxy_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https" | "socks5")
        && !host.is_empty()
        && !url.chars().any(|c| c.is_control() || c == ' ')
}

/// Why a plugin does not know what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InfoError {
    /// Nobody asked.
    #[error("KUBERNETES_EXEC_INFO is unset or empty: a Kubernetes client sets it when it runs this program")]
    Unset,
    /// The variable holds something else.
    #[error("KUBERNETES_EXEC_INFO {0}")]
    Unreadable(Fault),
    /// Nothing says in which version to answer.
    #[error("KUBERNETES_EXEC_INFO has no apiVersion")]
    NoVersion,
    /// Another object, or an unknown version.
    #[error("KUBERNETES_EXEC_INFO holds {found} instead of an ExecCredential of a known version")]
    OtherKind {
        /// Kind and version, as far as they look harmless.
        found: String,
    },
    /// The client did not say which cluster.
    #[error("the client did not say which cluster: the kubeconfig user needs `provideClusterInfo: true`")]
    NoCluster,
    /// The proxy cannot be used.
    #[error("the cluster's proxy-url is not a URL with the scheme http, https or socks5")]
    ProxyUrl,
}
