//! What would be sent with a request, and where it comes from.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_client::ClientOptions;
use credlet_client::kubeconfig::{HeaderCredential, Origin, Resolved};
use jiff::Timestamp;

use crate::error::CliError;

/// The credential of the moment.
#[derive(Debug, Default)]
pub(crate) struct Credential {
    pub(crate) header: Option<Header>,
    pub(crate) certificate: Option<Pair>,
    /// Where its plugin's proxy listens: requests go there, and a certificate is shown to nobody else.
    pub(crate) proxy: Option<String>,
    /// When its plugin says that it ends.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) source: Source,
    /// How long it took to get.
    pub(crate) took: Option<Duration>,
}

/// The header `Authorization`.
#[derive(Debug)]
pub(crate) enum Header {
    Bearer(Secret),
    Basic { username: String, password: Secret },
}

impl Header {
    /// As it is sent.
    pub(crate) fn value(&self) -> Secret {
        match self {
            Self::Bearer(token) => Secret::new(format!("Bearer {}", token.expose())),
            Self::Basic { username, password } => {
                let pair = Secret::new(format!("{username}:{}", password.expose()));
                Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())))
            }
        }
    }
}

/// A client certificate with its intermediates, and its key.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: Secret,
}

/// Where a credential comes from.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// In the words of a kubeconfig: `exec`, `token`, `tokenFile` …
    pub(crate) kind: &'static str,
    /// The plugin.
    pub(crate) command: Option<String>,
    /// The line that says so.
    pub(crate) origin: Option<Origin>,
}

impl Source {
    fn new(kind: &'static str, origin: &Origin) -> Self {
        Self { kind, command: None, origin: Some(origin.clone()) }
    }

    fn of(resolved: &Resolved) -> Self {
        let identity = &resolved.identity;
        if let (Some(exec), Some(_)) = (&identity.exec, identity.exec_in_use()) {
            return Self { command: Some(exec.config.command.clone()), ..Self::new("exec", &exec.origin) };
        }
        if let (Some(provider), Some(_)) = (&identity.auth_provider, identity.auth_provider_in_use()) {
            return Self::new("auth-provider", &provider.origin);
        }
        match (&identity.header, &identity.certificate) {
            (Some(header), _) => {
                let kind = match &header.value {
                    HeaderCredential::TokenFile { .. } => "tokenFile",
                    HeaderCredential::Basic { .. } => "username",
                    _ => "token",
                };
                Self::new(kind, &header.origin)
            }
            (None, Some(certificate)) => Self::new("client-certificate", &certificate.certificate.origin),
            (None, None) => Self::default(),
        }
    }

    /// For a person.
    pub(crate) fn describe(&self) -> String {
        let what = match &self.command {
            Some(command) => format!("plugin `{command}`"),
            None if self.kind.is_empty() => return "nothing: requests are anonymous".to_owned(),
            None => format!("`{}`", self.kind),
        };
        match &self.origin {
            Some(origin) => format!("{what} ({origin})"),
            None => what,
        }
    }
}

impl Credential {
    /// Gets it as a request would: a plugin is run if there is one.
    pub(crate) async fn obtain(resolved: &Resolved, options: &ClientOptions) -> Result<Self, CliError> {
        let mut credential = Self { source: Source::of(resolved), ..Self::default() };
        credential.certificate = resolved.identity.certificate.as_ref().map(|pair| Pair {
            chain_pem: String::from_utf8_lossy(&pair.certificate.value).into_owned(),
            key_pem: pair.key.value.clone(),
        });
        if let Some(authenticator) = options.authenticator(resolved)? {
            let entry = authenticator.credential().await.map_err(|error| CliError::from(&*error))?;
            let given = entry.value().credential();
            credential.header = given.token.clone().map(Header::Bearer);
            credential.proxy = given.proxy.as_ref().map(|proxy| proxy.config.url.clone());
            if credential.proxy.is_some() {
                credential.certificate = None;
            }
            if let Some(pair) = &given.certificate {
                let (chain_pem, key_pem) = (pair.chain_pem.clone(), pair.key_pem.clone());
                credential.certificate = Some(Pair { chain_pem, key_pem });
            }
            // A token file is read again every minute; that is not when its token ends.
            credential.expires = entry.expires().filter(|_| credential.source.kind != "tokenFile");
            credential.took = Some(entry.took());
            return Ok(credential);
        }
        credential.header = match resolved.identity.header.as_ref().map(|header| &header.value) {
            Some(HeaderCredential::Token(token)) => Some(Header::Bearer(token.clone())),
            Some(HeaderCredential::Basic { username, password }) => {
                Some(Header::Basic { username: username.clone(), password: password.clone() })
            }
            _ => None,
        };
        Ok(credential)
    }

    /// The bearer token.
    pub(crate) fn token(&self) -> Option<&Secret> {
        match &self.header {
            Some(Header::Bearer(token)) => Some(token),
            _ => None,
        }
    }

    /// As a plugin would answer with it. `None`: there is nothing that a plugin could answer with, or it is of no use
    /// without the proxy, which ends with us.
    pub(crate) fn as_answer(&self) -> Option<ExecCredentialStatus> {
        if self.proxy.is_some() {
            return None;
        }
        let token = self.token().cloned().unwrap_or_default();
        let mut status = ExecCredentialStatus::token(token);
        if let Some(pair) = &self.certificate {
            status.client_certificate_data.clone_from(&pair.chain_pem);
            status.client_key_data = pair.key_pem.clone();
        }
        status.expiration_timestamp = self.expires;
        (!status.token.is_empty() || !status.client_certificate_data.is_empty()).then_some(status)
    }
}
