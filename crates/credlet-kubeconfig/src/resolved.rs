use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_api::exec::{Cluster, ExecConfig};
use credlet_platform::fs::read_bounded_or_pipe;

use super::SMALL_FILE_LIMIT;
use super::origin::{Sourced, ValueOrigin, one_line};
use super::validation::ConfigProblem;

/// Validated connection parameters of one context.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResolvedConfig {
    /// Context name. `None`: no context is selected, and none was needed.
    pub context: Option<Sourced<String>>,
    /// Cluster name, or empty.
    pub cluster: String,
    /// User name, or empty.
    pub user: String,
    /// URL of the API server: https or http, host, optional port and path.
    pub server: Sourced<String>,
    /// Namespace of requests that name none: of the overrides, the context or the pod, else `default`.
    pub namespace: Sourced<String>,
    /// TLS parameters. Unused for an http server.
    pub tls: ClusterTls,
    /// Proxy URL: http, https or socks5. `None`: the environment decides.
    pub proxy_url: Option<Sourced<Secret>>,
    /// Whether responses are requested without compression.
    pub disable_compression: Sourced<bool>,
    /// Credentials of the user. Empty for an http server.
    pub identity: UserCredentials,
    /// Headers to add to every request. `None`: no impersonation.
    pub impersonation: Option<Impersonation>,
    /// Warnings for the user.
    pub warnings: Vec<ConfigWarning>,
}

impl ResolvedConfig {
    /// Returns the cluster as an exec plugin receives it, without `config`.
    pub fn to_cluster(&self) -> Cluster {
        let authority = self.tls.certificate_authority.as_ref();
        Cluster {
            server: self.server.value.clone(),
            tls_server_name: self.tls.server_name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
            insecure_skip_tls_verify: self.tls.insecure_skip_verify.value,
            certificate_authority_data: authority.map(|authority| authority.pem.clone()).unwrap_or_default(),
            proxy_url: self.proxy_url.as_ref().map(|url| url.value.clone()).unwrap_or_default(),
            disable_compression: self.disable_compression.value,
            config: None,
        }
    }
}

/// TLS parameters of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClusterTls {
    /// Name to verify in the server certificate. `None`: the host of the URL.
    pub server_name: Option<Sourced<String>>,
    /// Whether the server certificate is not verified.
    pub insecure_skip_verify: Sourced<bool>,
    /// Trust anchors. `None`: the system's trust store.
    pub certificate_authority: Option<Sourced<CertificateAuthority>>,
}

/// Trust anchors for the server certificate.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateAuthority {
    /// PEM with at least one certificate.
    pub pem: Vec<u8>,
    /// File that the PEM was read from.
    pub file: Option<PathBuf>,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority")
            .field("pem", &format_args!("[{} bytes]", self.pem.len()))
            .field("file", &self.file)
            .finish()
    }
}

/// Credentials of a kubeconfig user. [`header`](Self::header) and [`certificate`](Self::certificate) may be used together;
/// the other two are used only where those are not set.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct UserCredentials {
    /// Content of the `Authorization` header.
    pub header: Option<Sourced<HeaderCredential>>,
    /// Client certificate and key.
    pub certificate: Option<ClientCertificate>,
    /// Exec plugin, also if it is not [in use](Self::exec_in_use).
    pub exec: Option<Sourced<ResolvedExec>>,
    /// Legacy auth-provider (`oidc` only), also if it is not [in use](Self::auth_provider_in_use).
    pub auth_provider: Option<Sourced<AuthProvider>>,
}

impl UserCredentials {
    /// Returns the exec plugin, unless a token, a user name or a client certificate takes precedence: then it is never run.
    pub fn exec_in_use(&self) -> Option<&ResolvedExec> {
        let overridden = self.header.is_some() || self.certificate.is_some();
        self.exec.as_ref().filter(|_| !overridden).map(|exec| &exec.value)
    }

    /// Returns the auth-provider, unless a token or a user name takes precedence. It can be combined with a certificate.
    pub fn auth_provider_in_use(&self) -> Option<&AuthProvider> {
        self.auth_provider.as_ref().filter(|_| self.header.is_none()).map(|provider| &provider.value)
    }

    /// Returns whether the user has no credentials.
    pub fn is_anonymous(&self) -> bool {
        *self == Self::default()
    }
}

/// Content of the `Authorization` header.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderCredential {
    /// Bearer token from the kubeconfig.
    Token(Secret),
    /// Bearer token in a file that another program refreshes.
    TokenFile {
        /// Token file. It takes precedence over `inline`.
        file: TokenFile,
        /// Token to use while the file cannot be read.
        inline: Option<Secret>,
    },
    /// User name and password.
    Basic {
        /// User name, not empty.
        username: String,
        /// Password, possibly empty.
        password: Secret,
    },
}

/// A file with a bearer token. It must be read again at least once a minute, as client-go does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Refers to the file at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the token and trims white space.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no text that fits into a header.
    pub fn read(&self) -> Result<Secret, ConfigProblem> {
        let bytes = read_bounded_or_pipe(&self.path, SMALL_FILE_LIMIT)
            .map_err(|problem| ConfigProblem::File { field: "tokenFile", problem })?;
        let text = std::str::from_utf8(&bytes).map_err(|_| ConfigProblem::NoToken)?.trim();
        match text {
            "" => Err(ConfigProblem::NoToken),
            text if text.contains(|c: char| c.is_ascii_control() && c != '\t') => {
                Err(ConfigProblem::NotForHeader("tokenFile"))
            }
            text => Ok(Secret::new(text)),
        }
    }
}

/// Client certificate and key in PEM.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// Certificate chain in PEM.
    pub certificate: Sourced<Vec<u8>>,
    /// File that the certificate was read from.
    pub certificate_file: Option<PathBuf>,
    /// Private key in PEM.
    pub key: Sourced<Secret>,
    /// File that the key was read from.
    pub key_file: Option<PathBuf>,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate")
            .field("certificate", &format_args!("[{} bytes]", self.certificate.len()))
            .field("certificate_file", &self.certificate_file)
            .field("key", &self.key)
            .field("key_file", &self.key_file)
            .finish()
    }
}

/// Exec plugin of a user, with the cluster it is run for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResolvedExec {
    /// Validated `exec` section. A relative path of the command is resolved.
    pub config: ExecConfig,
    /// Cluster information, passed to the plugin if `config.provide_cluster_info` is set. Two contexts with the same user
    /// may differ in it.
    pub cluster: Cluster,
}

impl ResolvedExec {
    /// Creates an exec plugin that is not in a kubeconfig.
    pub fn new(config: ExecConfig, cluster: Cluster) -> Self {
        Self { config, cluster }
    }
}

/// Legacy auth-provider.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuthProvider {
    /// Name of the provider.
    pub name: String,
    /// Settings and tokens.
    pub config: BTreeMap<String, Secret>,
}

/// Impersonation headers to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Impersonation {
    /// User name (`Impersonate-User`).
    pub user: Sourced<String>,
    /// UID (`Impersonate-Uid`).
    pub uid: Option<Sourced<String>>,
    /// Groups (`Impersonate-Group`).
    pub groups: Option<Sourced<Vec<String>>>,
    /// Extra attributes (`Impersonate-Extra-…`). If some come from the overrides, that is the origin of all.
    pub extra: Option<Sourced<BTreeMap<String, Vec<String>>>>,
}

/// A valid configuration with a possibly unexpected effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigWarning {
    /// The server is an http address: no plugin is run and no token is sent.
    PlainHttp {
        /// Origin of the address.
        origin: ValueOrigin,
    },
    /// The context refers to an unknown user, so requests are anonymous.
    UserNotFound {
        /// Name in the context.
        name: String,
        /// Position in the kubeconfig.
        origin: ValueOrigin,
    },
    /// The user has an unsupported auth-provider beside another credential, which is used.
    AuthProviderUnused {
        /// Name of the kubeconfig user.
        user: String,
        /// Position in the kubeconfig.
        origin: ValueOrigin,
    },
    /// The pod's service account has no ca.crt, so the system's trust store is used.
    NoServiceAccountAuthority,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainHttp { origin } => {
                write!(f, "{origin}: `server` is an http address, no credentials are sent: use https")
            }
            Self::UserNotFound { name, origin } => {
                let name = one_line(name);
                write!(f, "{origin}: user \"{name}\" not found, requests are anonymous")
            }
            Self::AuthProviderUnused { user, origin } => {
                let user = one_line(user);
                write!(
                    f,
                    "{origin}: unsupported auth-provider of user \"{user}\" ignored, its other credential is used"
                )
            }
            Self::NoServiceAccountAuthority => {
                f.write_str("missing ca.crt in the service account of this pod: the system's trust store is used")
            }
        }
    }
}
