use std::fmt;

use credlet_api::exec::ConfigError;

use super::origin::{Origin, one_line};
use super::read::FileProblem;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// In what.
    pub subject: Subject,
    /// Where to look.
    pub origin: Origin,
    /// What it is.
    pub problem: Problem,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, origin, problem } = self;
        write!(f, "{origin}: {subject}: {problem}")
    }
}

impl std::error::Error for Mistake {}

/// The entry that has a mistake in it. Without a name it is what the caller gave, or the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// A file as a whole.
    Config,
    /// A context.
    Context(String),
    /// A cluster.
    Cluster(String),
    /// A user.
    User(String),
}

impl fmt::Display for Subject {
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

/// What is wrong. Fields are named as in the file; values are not named at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// `current-context` leads nowhere.
    #[error("`current-context` names a context that is in none of the files")]
    NoSuchContext,
    /// An entry that nobody can ask for.
    #[error("`name` is empty")]
    NoName,
    /// A context that leads nowhere.
    #[error("`cluster` is empty")]
    NoCluster,
    /// A context that leads nowhere.
    #[error("`cluster` names \"{}\", which is in none of the files", one_line(name))]
    NoSuchCluster {
        /// What it names.
        name: String,
    },
    /// A context without a user is anonymous.
    #[error("`user` is empty")]
    NoUser,
    /// A context with an unknown user is anonymous.
    #[error("`user` names \"{}\", which is in none of the files", one_line(name))]
    NoSuchUser {
        /// What it names.
        name: String,
    },
    /// No namespace can have this name.
    #[error("`namespace` is not a name that a namespace can have")]
    Namespace,

    /// There is nothing to connect to.
    #[error("`server` is missing")]
    NoServer,
    /// Not known whether to use TLS.
    #[error("`server` has no scheme: put https:// in front of it")]
    ServerWithoutScheme,
    /// An address of something else.
    #[error("`server` has a scheme other than https and http")]
    ServerScheme,
    /// A secret in the wrong place.
    #[error("`server` has a user name in it: credentials belong to a user")]
    ServerUserInfo,
    /// Not an address.
    #[error("`server` is not an address like https://host:port/path")]
    ServerAddress,
    /// A proxy of an unknown kind.
    #[error("`proxy-url` has a scheme other than http, https and socks5")]
    ProxyScheme,
    /// Not an address.
    #[error("`proxy-url` is not an address like http://host:port")]
    ProxyAddress,
    /// Two answers to the question whether to check the server's certificate.
    #[error("`insecure-skip-tls-verify` and a certificate authority exclude each other: keep one")]
    InsecureWithAuthority,

    /// Two sources for one thing.
    #[error("`{0}-data` and `{0}` are both set: keep one")]
    DataAndFile(&'static str),
    /// A file that cannot be read.
    #[error("the file in `{field}` {problem}")]
    File {
        /// The field with its path.
        field: &'static str,
        /// Why.
        problem: FileProblem,
    },
    /// No use as a certificate.
    #[error("`{0}` holds no certificate in PEM form")]
    NoCertificate(&'static str),
    /// No use as a key.
    #[error("`{0}` holds no private key in PEM form")]
    NoKeyInside(&'static str),
    /// Half a pair.
    #[error("a client certificate needs `client-key-data` or `client-key`")]
    NoKey,

    /// Two sources for one header.
    #[error("a token and a username or password exclude each other: keep one")]
    TokenAndBasic,
    /// Text that no header can carry.
    #[error("`{0}` holds a line break or another control character")]
    NotForHeader(&'static str),
    /// A file without a token in it.
    #[error("the file in `tokenFile` holds no token")]
    NoToken,
    /// Groups of nobody.
    #[error("`as-uid`, `as-groups` and `as-user-extra` need `as`")]
    ImpersonateWithoutUser,

    /// Two ways to log in.
    #[error("`exec` and `auth-provider` exclude each other: keep one")]
    ExecAndAuthProvider,
    /// Nothing says how to talk to the program.
    #[error("`exec.apiVersion` is empty")]
    NoApiVersion,
    /// A version that nobody speaks.
    #[error("`exec.apiVersion` is none of client.authentication.k8s.io/v1, …/v1beta1 and …/v1alpha1")]
    ApiVersion,
    /// With v1 it must be said.
    #[error("`exec.interactiveMode` is empty: with v1 it must be Never, IfAvailable or Always")]
    NoInteractiveMode,
    /// The path cannot be passed on.
    #[error("`exec.command` is relative to a directory whose name is not UTF-8")]
    CommandPath,
    /// Another mistake in `exec`.
    #[error("in `exec`, {0}")]
    Exec(ConfigError),
    /// A login that Kubernetes has taken out.
    #[error("the auth-provider gcp is gone: use `exec` with gke-gcloud-auth-plugin, or with `credlet plugin gke`")]
    GcpRemoved,
    /// A login that Kubernetes has taken out.
    #[error("the auth-provider azure is gone: use `exec` with kubelogin, or with `credlet plugin aks`")]
    AzureRemoved,
    /// A login that nobody knows.
    #[error("`auth-provider.name` is not oidc: use `exec`")]
    AuthProvider,
}

/// Collects what is wrong with one entry.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    pub(super) subject: Subject,
    pub(super) mistakes: &'a mut Vec<Mistake>,
}

impl Findings<'_> {
    pub(super) fn add(&mut self, origin: &Origin, problem: Problem) {
        self.mistakes.push(Mistake { subject: self.subject.clone(), origin: origin.clone(), problem });
    }
}
