use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_api::exec::{Cluster, ExecConfig};

use super::mistake::Problem;
use super::origin::{Origin, Sourced, one_line};
use super::read;

/// Everything a connection needs, checked. It owns what it holds, and nothing in it changes any more.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Resolved {
    /// The name of the context. `None`: nobody chose one, and none was needed.
    pub context: Option<Sourced<String>>,
    /// The name of the cluster. Empty: it has none.
    pub cluster: String,
    /// The name of the user. Empty: it has none.
    pub user: String,
    /// The API server's address: https or http, a host, perhaps a port and a path.
    pub server: Sourced<String>,
    /// The namespace for requests that name none.
    pub namespace: Sourced<String>,
    /// How to know the server. Without meaning for an http address.
    pub tls: Tls,
    /// The proxy to reach it through: http, https or socks5. `None`: that is for the environment to say.
    pub proxy_url: Option<Sourced<Secret>>,
    /// Whether answers should come uncompressed.
    pub disable_compression: Sourced<bool>,
    /// How to prove who we are. Nothing at all for an http address.
    pub identity: Identity,
    /// Whom to act as.
    pub impersonation: Option<Impersonation>,
    /// What deserves a word on stderr.
    pub warnings: Vec<Warning>,
}

/// How to know the server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tls {
    /// The name to expect in its certificate. `None`: the address's.
    pub server_name: Option<Sourced<String>>,
    /// Whether its certificate goes unchecked.
    pub insecure_skip_verify: Sourced<bool>,
    /// Whom to trust. `None`: whom the system trusts.
    pub certificate_authority: Option<Sourced<CertificateAuthority>>,
}

/// Certificate authorities.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateAuthority {
    /// At least one certificate.
    pub pem: Vec<u8>,
    /// The file it was read from.
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

/// All ways in which a user can prove who they are. [`header`](Self::header) and [`certificate`](Self::certificate) may
/// be used together; the other two only where they have nothing to say.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Identity {
    /// What to put into the header `Authorization`.
    pub header: Option<Sourced<HeaderCredential>>,
    /// A client certificate.
    pub certificate: Option<ClientCertificate>,
    /// A program to ask, whether [in use](Self::exec_in_use) or not.
    pub exec: Option<Sourced<Exec>>,
    /// An old form of login, only ever `oidc`, whether [in use](Self::auth_provider_in_use) or not.
    pub auth_provider: Option<Sourced<AuthProvider>>,
}

impl Identity {
    /// The program to ask, unless a token, a user name, or a certificate with its key makes it superfluous: then it is
    /// never run.
    pub fn exec_in_use(&self) -> Option<&Exec> {
        let superfluous = self.header.is_some() || self.certificate.is_some();
        self.exec.as_ref().filter(|_| !superfluous).map(|exec| &exec.value)
    }

    /// The old form of login, unless a token or a user name goes first. It works beside a certificate.
    pub fn auth_provider_in_use(&self) -> Option<&AuthProvider> {
        self.auth_provider.as_ref().filter(|_| self.header.is_none()).map(|provider| &provider.value)
    }

    /// Whether there is nothing to prove.
    pub fn is_anonymous(&self) -> bool {
        *self == Self::default()
    }
}

/// What to put into the header `Authorization`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HeaderCredential {
    /// A bearer token.
    Token(Secret),
    /// A bearer token that somebody keeps fresh in a file.
    TokenFile {
        /// The file. It goes before `inline`.
        file: TokenFile,
        /// To be used while the file cannot be read.
        inline: Option<Secret>,
    },
    /// A name and a password.
    Basic {
        /// The name. Never empty.
        username: String,
        /// The password.
        password: Secret,
    },
}

/// A file with a token in it, to be read again at least once a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// The file at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The token of this moment, without white space around it.
    ///
    /// # Errors
    /// When there is none: whoever writes the file must act.
    pub fn read(&self) -> Result<Secret, Problem> {
        let bytes =
            read::file(&self.path, read::SMALL).map_err(|problem| Problem::File { field: "tokenFile", problem })?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Problem::NoToken)?.trim();
        match text {
            "" => Err(Problem::NoToken),
            text if text.contains(|c: char| c.is_ascii_control() && c != '\t') => {
                Err(Problem::NotForHeader("tokenFile"))
            }
            text => Ok(Secret::new(text)),
        }
    }
}

/// A client certificate and its key, both as PEM.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// The certificate and its intermediates.
    pub certificate: Sourced<Vec<u8>>,
    /// The file it was read from.
    pub certificate_file: Option<PathBuf>,
    /// Its key.
    pub key: Sourced<Secret>,
    /// The file it was read from.
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

/// A program to ask for a credential.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Exec {
    /// The program.
    pub config: ExecConfig,
    /// What it is told about the cluster if `config.provide_cluster_info` says so. This cluster's own: two contexts
    /// with one user differ in it.
    pub cluster: Cluster,
}

impl Exec {
    /// A program that no kubeconfig names, for this cluster.
    pub fn new(config: ExecConfig, cluster: Cluster) -> Self {
        Self { config, cluster }
    }
}

/// An old form of login.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuthProvider {
    /// Which one.
    pub name: String,
    /// Its settings and the tokens it has been given.
    pub config: BTreeMap<String, Secret>,
}

/// Whom to act as.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Impersonation {
    /// The user.
    pub user: Sourced<String>,
    /// The uid.
    pub uid: Option<Sourced<String>>,
    /// The groups.
    pub groups: Option<Sourced<Vec<String>>>,
    /// More attributes. If some are the caller's, so is the origin of all.
    pub extra: Option<Sourced<BTreeMap<String, Vec<String>>>>,
}

/// What is no mistake and may surprise all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Credentials do not travel in the clear: no plugin is run, no token sent.
    PlainHttp {
        /// Where the address is.
        origin: Origin,
    },
    /// A context with an unknown user is anonymous.
    UserNotFound {
        /// The name.
        name: String,
        /// Where it is.
        origin: Origin,
    },
    /// An `auth-provider` that no longer exists stands beside a credential that does.
    AuthProviderUnused {
        /// Whose it is.
        user: String,
        /// Where it is.
        origin: Origin,
    },
    /// The pod has no certificate authority, so the system's are trusted.
    NoServiceAccountAuthority,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainHttp { origin } => {
                write!(f, "{origin}: `server` is an http address, so no credential is sent: use https")
            }
            Self::UserNotFound { name, origin } => {
                let name = one_line(name);
                write!(f, "{origin}: the user \"{name}\" is in none of the files, so requests are anonymous")
            }
            Self::AuthProviderUnused { user, origin } => {
                let user = one_line(user);
                write!(
                    f,
                    "{origin}: the auth-provider of user \"{user}\" no longer exists: its other credential is used"
                )
            }
            Self::NoServiceAccountAuthority => {
                f.write_str("the service account of this pod has no ca.crt: the system's authorities are trusted")
            }
        }
    }
}
