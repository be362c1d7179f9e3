//! The login service of the demo: signs a token or a certificate for each request on a local socket. The keys stay in memory. The number
//! of requests is the number of plugin runs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_apiserver::ca::{CertificateAuthority, CertificateError, Identity};
use credlet_apiserver::token::{TokenClaims, TokenSigner};
use credlet_exec::Clock;
use credlet_platform::local_socket::{LocalListener, LocalStream, SocketAccess};
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{JoinHandle, JoinSet};

use super::cluster::SetupError;
use super::state::DemoState;

pub(super) const GROUP: &str = "demo";

/// Claim `iss` of the tokens.
const TOKEN_ISSUER: &str = "credlet demo";

/// Kind of a credential. Each kind belongs to one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialKind {
    Token,
    Certificate,
}

impl CredentialKind {
    pub(super) const BOTH: [Self; 2] = [Self::Token, Self::Certificate];

    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Token => "ada",
            Self::Certificate => "grace",
        }
    }
}

impl fmt::Display for CredentialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
        })
    }
}

/// Lifetimes and delay of the issuer.
#[derive(Clone, Copy)]
pub(super) struct IssuerConfig {
    pub(super) token_lifetime: Duration,
    pub(super) certificate_lifetime: Duration,
    /// Duration of a login.
    pub(super) delay: Duration,
    /// Issues each kind only once, so that every refresh fails.
    pub(super) only_once: bool,
}

/// Signs tokens and certificates.
pub(super) struct DemoIssuer {
    authority: CertificateAuthority,
    signer: TokenSigner,
    clock: Arc<dyn Clock>,
    terms: IssuerConfig,
    state: Arc<DemoState>,
}

impl DemoIssuer {
    pub(super) fn new(clock: Arc<dyn Clock>, terms: IssuerConfig, state: Arc<DemoState>) -> Result<Self, SetupError> {
        let authority = CertificateAuthority::with_clock("credlet demo authority", Arc::clone(&clock))?;
        let signer = TokenSigner::new()?.with_issuer(TOKEN_ISSUER);
        Ok(Self { authority, signer, clock, terms, state })
    }

    pub(super) fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    pub(super) fn signer(&self) -> &TokenSigner {
        &self.signer
    }

    /// Serves the socket, in a private directory, until the handle is dropped.
    pub(super) fn listen(self: &Arc<Self>, socket: &Path) -> Result<IssuerListener, SetupError> {
        let listener = LocalListener::bind(socket, &socket.with_file_name("new"), SocketAccess::Private)?;
        let issuer = Arc::clone(self);
        Ok(IssuerListener(tokio::spawn(async move {
            let mut logins = JoinSet::new();
            while let Ok(stream) = listener.accept().await {
                let issuer = Arc::clone(&issuer);
                logins.spawn(async move { issuer.serve(stream).await });
                while logins.try_join_next().is_some() {}
            }
        })))
    }

    async fn serve(&self, mut stream: LocalStream) -> std::io::Result<()> {
        let mut requested = String::new();
        (&mut stream).take(32).read_to_string(&mut requested).await?;
        let Some(kind) = CredentialKind::BOTH.into_iter().find(|kind| kind.to_string() == requested) else {
            return Ok(());
        };
        let number = self.state.record_plugin_run(kind);
        self.clock.sleep(self.terms.delay).await;
        if number > 1 && self.terms.only_once {
            return Ok(());
        }
        if let Some(response) = self.issue(kind, number) {
            stream.write_all(response.expose().as_bytes()).await?;
        }
        stream.shutdown().await
    }

    /// Returns the response to the plugin: a line with the expiry in Unix seconds, then the credential.
    fn issue(&self, kind: CredentialKind, number: usize) -> Option<Secret> {
        let now = self.clock.now();
        Some(match kind {
            CredentialKind::Token => {
                let expires = now + self.terms.token_lifetime;
                let token = self.token(&number.to_string(), expires);
                Secret::new(format!("{}\n{}", expires.as_second(), token.expose()))
            }
            CredentialKind::Certificate => {
                let expires = now + self.terms.certificate_lifetime;
                let identity = self.certificate(expires).ok()?;
                let (certificate, key) = (identity.cert_pem(), identity.key_pem());
                Secret::new(format!("{}\n{certificate}\n\n{key}", expires.as_second()))
            }
        })
    }

    pub(super) fn token(&self, id: &str, expires: Timestamp) -> Secret {
        let (user, groups) = (CredentialKind::Token.user().into(), vec![GROUP.into()]);
        let claims = TokenClaims { id: id.into(), user, groups, expires };
        self.signer.sign(&claims, self.clock.now())
    }

    pub(super) fn certificate(&self, expires: Timestamp) -> Result<Identity, CertificateError> {
        let from = expires - Duration::from_secs(3600);
        self.authority.client(CredentialKind::Certificate.user()).organizations([GROUP]).valid(from, expires).issue()
    }
}

/// The listening socket of the issuer. Dropping it stops the service.
pub(super) struct IssuerListener(JoinHandle<()>);

impl Drop for IssuerListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}
