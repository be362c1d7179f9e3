use super::decode::{TypeMeta, WireDocument};
use super::{ApiVersion, Cluster, ExecCredentialSpec, InvalidCredential};
use crate::Secret;
use crate::wire::document::{self, DuplicateKeys};
use crate::wire::error::DocumentError;

/// The input of an exec plugin: the content of [`KUBERNETES_EXEC_INFO`](super::EXEC_INFO_ENV).
///
/// ```
/// use credlet_api::exec::{ApiVersion, ExecInfo};
///
/// let value = br#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":true}}"#;
/// let info = ExecInfo::decode(value).unwrap();
/// assert_eq!(info.version, ApiVersion::V1);
/// assert!(info.spec.interactive);
/// // Without `provideClusterInfo: true` the plugin cannot connect to the cluster.
/// assert!(info.spec.cluster.is_none());
/// assert!(info.connection().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExecInfo {
    /// Version in which the client expects the output.
    pub version: ApiVersion,
    /// The request of the client.
    pub spec: ExecCredentialSpec,
}

impl ExecInfo {
    /// Decodes the value of [`KUBERNETES_EXEC_INFO`](super::EXEC_INFO_ENV).
    ///
    /// # Errors
    /// If the value is not an ExecCredential of a known version.
    pub fn decode(data: &[u8]) -> Result<Self, ExecInfoError> {
        let meta: TypeMeta = match document::read(data, DuplicateKeys::LastWins) {
            Err(DocumentError::Empty) => return Err(ExecInfoError::Unset),
            other => other.map_err(ExecInfoError::InvalidDocument)?,
        };
        let version = meta.version().map_err(|error| match error {
            InvalidCredential::UnexpectedKind { found } => ExecInfoError::UnexpectedKind { found },
            _ => ExecInfoError::MissingApiVersion,
        })?;
        let document: WireDocument =
            document::read(data, DuplicateKeys::LastWins).map_err(ExecInfoError::InvalidDocument)?;
        let (spec, _) = document.into_parts(version);
        Ok(Self { version, spec: spec.unwrap_or_default() })
    }

    /// Returns the connection settings of the cluster.
    ///
    /// # Errors
    /// If the kubeconfig lacks `provideClusterInfo: true`, or `proxy-url` has no host or an unsupported scheme.
    pub fn connection(&self) -> Result<ClusterConnection<'_>, ExecInfoError> {
        let cluster = self.spec.cluster.as_ref().ok_or(ExecInfoError::MissingCluster)?;
        if !cluster.proxy_url.is_empty() && !is_proxy_url(cluster.proxy_url.expose()) {
            return Err(ExecInfoError::InvalidProxyUrl);
        }
        Ok(ClusterConnection { cluster })
    }
}

/// The validated connection settings of a [`Cluster`].
#[derive(Clone, Copy, Debug)]
pub struct ClusterConnection<'a> {
    cluster: &'a Cluster,
}

impl<'a> ClusterConnection<'a> {
    /// Returns the URL of the API server.
    pub fn server(&self) -> &'a str {
        &self.cluster.server
    }

    /// Returns the server name for TLS, if it differs from the host of the URL.
    pub fn tls_server_name(&self) -> Option<&'a str> {
        Some(&*self.cluster.tls_server_name).filter(|name| !name.is_empty())
    }

    /// Returns whether verification of the server certificate is disabled.
    pub fn insecure_skip_tls_verify(&self) -> bool {
        self.cluster.insecure_skip_tls_verify
    }

    /// Returns the PEM bundle of certificate authorities; `None` means those of the system.
    pub fn certificate_authority_data(&self) -> Option<&'a [u8]> {
        Some(&*self.cluster.certificate_authority_data).filter(|pem| !pem.is_empty())
    }

    /// Returns the URL of the HTTP or SOCKS proxy.
    pub fn proxy_url(&self) -> Option<&'a Secret> {
        Some(&self.cluster.proxy_url).filter(|url| !url.is_empty())
    }

    /// Returns whether compression of responses is disabled.
    pub fn disable_compression(&self) -> bool {
        self.cluster.disable_compression
    }
}

/// Whether a URL has a scheme that client-go supports, and a host.
fn is_proxy_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https" | "socks5")
        && !host.is_empty()
        && !url.chars().any(|c| c.is_control() || c == ' ')
}

/// Error in the input of an exec plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecInfoError {
    /// The variable is not set or empty.
    #[error("KUBERNETES_EXEC_INFO is not set: Kubernetes clients set it when they run this program")]
    Unset,
    /// The value is not a JSON or YAML object with fields of the right types.
    #[error("invalid KUBERNETES_EXEC_INFO: {0}")]
    InvalidDocument(DocumentError),
    /// `apiVersion` is missing.
    #[error("invalid KUBERNETES_EXEC_INFO: missing apiVersion")]
    MissingApiVersion,
    /// The value is another object, or has an unknown version.
    #[error("invalid KUBERNETES_EXEC_INFO: found {found} instead of an ExecCredential of a known version")]
    UnexpectedKind {
        /// Kind and version, replaced by a description if they do not look like names.
        found: String,
    },
    /// The client passed no cluster.
    #[error("missing cluster information: set `provideClusterInfo: true` for the kubeconfig user")]
    MissingCluster,
    /// The `proxy-url` of the cluster is invalid.
    #[error("invalid proxy-url of the cluster: must be a URL with the scheme http, https or socks5")]
    InvalidProxyUrl,
}
