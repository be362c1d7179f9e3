use std::fmt;

use credlet_api::exec::ExecConfigError;

use super::origin::{ValueOrigin, one_line};
use credlet_platform::fs::ReadError;

/// A problem in a kubeconfig, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Entry that has the problem.
    pub subject: ConfigSubject,
    /// Position of the value.
    pub origin: ValueOrigin,
    /// Kind of the problem.
    pub problem: ConfigProblem,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, origin, problem } = self;
        write!(f, "{origin}: {subject}: {problem}")
    }
}

impl std::error::Error for ValidationError {}

/// Entry of a kubeconfig. The name is empty for overrides and for the service account of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigSubject {
    /// The whole file.
    Config,
    /// Context of this name.
    Context(String),
    /// Cluster of this name.
    Cluster(String),
    /// User of this name.
    User(String),
}

impl fmt::Display for ConfigSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Config => return f.write_str("kubeconfig"),
            Self::Context(name) => ("context", name),
            Self::Cluster(name) => ("cluster", name),
            Self::User(name) => ("user", name),
        };
        if name.is_empty() { f.write_str(kind) } else { write!(f, "{kind} \"{}\"", one_line(name)) }
    }
}

/// Problem in an entry. Texts use the field names of the file and never quote values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// `current-context` refers to an unknown context.
    #[error("`current-context` refers to an unknown context")]
    NoSuchContext,
    /// An entry has no name.
    #[error("`name` is empty")]
    NoName,
    /// A context has no cluster.
    #[error("`cluster` is empty")]
    NoCluster,
    /// A context refers to an unknown cluster.
    #[error("`cluster` refers to unknown cluster \"{}\"", one_line(name))]
    NoSuchCluster {
        /// Name in the context.
        name: String,
    },
    /// A context has no user: requests are anonymous.
    #[error("`user` is empty")]
    NoUser,
    /// A context refers to an unknown user: requests are anonymous.
    #[error("`user` refers to unknown user \"{}\"", one_line(name))]
    NoSuchUser {
        /// Name in the context.
        name: String,
    },
    /// A namespace is not a DNS label.
    #[error("`namespace` is not a valid namespace name")]
    Namespace,

    /// A cluster has no server.
    #[error("`server` is missing")]
    NoServer,
    /// The server address has no scheme.
    #[error("missing scheme in `server`: must be https or http")]
    ServerWithoutScheme,
    /// The server address has an unsupported scheme.
    #[error("unsupported scheme in `server`: must be https or http")]
    ServerScheme,
    /// The server address contains user info.
    #[error("`server` must not contain a user name: set credentials in a user")]
    ServerUserInfo,
    /// The server address is not a valid URL.
    #[error("`server` is not an address like https://host:port/path")]
    ServerAddress,
    /// The proxy URL has an unsupported scheme.
    #[error("unsupported scheme in `proxy-url`: must be http, https or socks5")]
    ProxyScheme,
    /// The proxy URL is not valid.
    #[error("`proxy-url` is not an address like http://host:port")]
    ProxyAddress,
    /// A cluster both disables verification and sets a certificate authority.
    #[error("`insecure-skip-tls-verify` conflicts with the certificate authority: keep one")]
    InsecureWithAuthority,

    /// A value is set inline and as a file.
    #[error("`{0}-data` conflicts with `{0}`: keep one")]
    DataAndFile(&'static str),
    /// A file cannot be read.
    #[error("invalid `{field}`: the file {problem}")]
    File {
        /// Field with the path.
        field: &'static str,
        /// Error of reading the file.
        problem: ReadError,
    },
    /// A value contains no certificate.
    #[error("missing PEM certificate in `{0}`")]
    NoCertificate(&'static str),
    /// A value contains no private key.
    #[error("missing PEM private key in `{0}`")]
    NoKeyInside(&'static str),
    /// A client certificate has no key.
    #[error("missing `client-key-data` or `client-key` for the client certificate")]
    NoKey,

    /// A user has both a token and a user name or password.
    #[error("the token conflicts with username or password: keep one")]
    TokenAndBasic,
    /// A token contains control characters.
    #[error("invalid `{0}`: contains a line break or another control character")]
    NotForHeader(&'static str),
    /// The token file is empty or not UTF-8.
    #[error("missing token in the file of `tokenFile`")]
    NoToken,
    /// Impersonated groups, UID or extra attributes without a user.
    #[error("missing `as`: required by `as-uid`, `as-groups` and `as-user-extra`")]
    ImpersonateWithoutUser,

    /// A user has both an exec plugin and an auth-provider.
    #[error("`exec` conflicts with `auth-provider`: keep one")]
    ExecAndAuthProvider,
    /// The exec plugin has no API version.
    #[error("`exec.apiVersion` is empty")]
    NoApiVersion,
    /// The exec plugin has an unsupported API version.
    #[error("unsupported `exec.apiVersion`: must be client.authentication.k8s.io/v1, …/v1beta1 or …/v1alpha1")]
    ApiVersion,
    /// `interactiveMode` is required in v1.
    #[error("`exec.interactiveMode` is empty: with v1 it must be Never, IfAvailable or Always")]
    NoInteractiveMode,
    /// The resolved path of the plugin is not UTF-8.
    #[error("invalid `exec.command`: relative to a directory whose name is not UTF-8")]
    CommandPath,
    /// Another problem in `exec`.
    #[error("invalid `exec`: {0}")]
    Exec(ExecConfigError),
    /// auth-provider `gcp`, removed in Kubernetes 1.26.
    #[error(
        "unsupported auth-provider gcp (removed from Kubernetes): use `exec` with gke-gcloud-auth-plugin, or with `credlet plugin gke`"
    )]
    GcpRemoved,
    /// auth-provider `azure`, removed in Kubernetes 1.26.
    #[error(
        "unsupported auth-provider azure (removed from Kubernetes): use `exec` with kubelogin, or with `credlet plugin aks`"
    )]
    AzureRemoved,
    /// Unknown auth-provider.
    #[error("unsupported `auth-provider.name`: must be oidc; use `exec`")]
    AuthProvider,
}

/// Collects the problems of one entry.
#[derive(Debug)]
pub(super) struct ProblemCollector<'a> {
    pub(super) subject: ConfigSubject,
    pub(super) errors: &'a mut Vec<ValidationError>,
}

impl ProblemCollector<'_> {
    pub(super) fn add(&mut self, origin: &ValueOrigin, problem: ConfigProblem) {
        self.errors.push(ValidationError { subject: self.subject.clone(), origin: origin.clone(), problem });
    }
}
