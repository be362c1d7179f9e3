//! The credential that a request would be sent with, and its source.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_client::ClientOptions;
use credlet_kubeconfig::{HeaderCredential, ResolvedConfig, ValueOrigin};
use jiff::Timestamp;

use crate::error::CliError;

/// The current credential of the selected user.
#[derive(Debug, Default)]
pub(crate) struct RequestCredential {
    pub(crate) header: Option<AuthorizationHeader>,
    pub(crate) certificate: Option<ClientKeyPair>,
    /// Address of the plugin's exec proxy. Requests are sent to it, and the client certificate is presented to it only.
    pub(crate) proxy: Option<String>,
    /// Expiry according to the plugin.
    pub(crate) expires: Option<Timestamp>,
    pub(crate) source: SourceInfo,
    /// Time that fetching the credential took.
    pub(crate) took: Option<Duration>,
}

/// Value of the `Authorization` header.
#[derive(Debug)]
pub(crate) enum AuthorizationHeader {
    Bearer(Secret),
    Basic { username: String, password: Secret },
}

impl AuthorizationHeader {
    /// The value as sent in the request.
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

/// Client certificate with its intermediates, and its private key.
#[derive(Debug)]
pub(crate) struct ClientKeyPair {
    pub(crate) chain_pem: String,
    pub(crate) key_pem: Secret,
}

/// Source of a credential.
#[derive(Debug, Default)]
pub(crate) struct SourceInfo {
    /// Name of the kubeconfig field: `exec`, `token`, `tokenFile` …
    pub(crate) kind: &'static str,
    /// Command of the exec plugin.
    pub(crate) command: Option<String>,
    /// File and line of the field.
    pub(crate) origin: Option<ValueOrigin>,
}

impl SourceInfo {
    fn new(kind: &'static str, origin: &ValueOrigin) -> Self {
        Self { kind, command: None, origin: Some(origin.clone()) }
    }

    fn of(resolved: &ResolvedConfig) -> Self {
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

    /// Returns the source for text output.
    pub(crate) fn describe(&self) -> String {
        let what = match &self.command {
            Some(command) => format!("plugin `{command}`"),
            None if self.kind.is_empty() => return "none: requests are anonymous".to_owned(),
            None => format!("`{}`", self.kind),
        };
        match &self.origin {
            Some(origin) => format!("{what} ({origin})"),
            None => what,
        }
    }
}

impl RequestCredential {
    /// Fetches the credential as a request would, running the exec plugin if the user has one.
    pub(crate) async fn fetch(resolved: &ResolvedConfig, options: &ClientOptions) -> Result<Self, CliError> {
        let mut credential = Self { source: SourceInfo::of(resolved), ..Self::default() };
        credential.certificate = resolved.identity.certificate.as_ref().map(|pair| ClientKeyPair {
            chain_pem: String::from_utf8_lossy(&pair.certificate.value).into_owned(),
            key_pem: pair.key.value.clone(),
        });
        if let Some(authenticator) = options.authenticator(resolved)? {
            let entry = authenticator.credential().await.map_err(|error| CliError::from(&*error))?;
            let given = entry.value().credential();
            credential.header = given.token.clone().map(AuthorizationHeader::Bearer);
            credential.proxy = given.proxy.as_ref().map(|proxy| proxy.config.url.clone());
            if credential.proxy.is_some() {
                credential.certificate = None;
            }
            if let Some(pair) = &given.certificate {
                let (chain_pem, key_pem) = (pair.chain_pem.clone(), pair.key_pem.clone());
                credential.certificate = Some(ClientKeyPair { chain_pem, key_pem });
            }
            // A token file is re-read every minute; that is not the expiry of its token.
            credential.expires = entry.expires().filter(|_| credential.source.kind != "tokenFile");
            credential.took = Some(entry.fetch_duration());
            return Ok(credential);
        }
        credential.header = match resolved.identity.header.as_ref().map(|header| &header.value) {
            Some(HeaderCredential::Token(token)) => Some(AuthorizationHeader::Bearer(token.clone())),
            Some(HeaderCredential::Basic { username, password }) => {
                Some(AuthorizationHeader::Basic { username: username.clone(), password: password.clone() })
            }
            _ => None,
        };
        Ok(credential)
    }

    /// The bearer token, if the header has one.
    pub(crate) fn token(&self) -> Option<&Secret> {
        match &self.header {
            Some(AuthorizationHeader::Bearer(token)) => Some(token),
            _ => None,
        }
    }

    /// Returns the credential in the form of a plugin's output. Returns `None` if there is neither a token nor a certificate, or if the
    /// certificate is valid only for the exec proxy, which stops with this process.
    pub(crate) fn to_exec_status(&self) -> Option<ExecCredentialStatus> {
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
