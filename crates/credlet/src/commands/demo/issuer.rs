//! Where the demo's plugin gets its credentials: a login service behind a Unix socket, which signs a token or a
//! certificate whenever it is asked. The keys never leave its memory, and what it is asked for is how often the plugin ran.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_core::Clock;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use super::authority::{Authority, Pair};
use super::board::Board;
use super::stage::SetupError;
use super::token::{Claims, Signer};

pub(super) const GROUP: &str = "demo";

/// The two kinds of credential, and the user that has each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Token,
    Certificate,
}

impl Kind {
    pub(super) const BOTH: [Self; 2] = [Self::Token, Self::Certificate];

    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Token => "ada",
            Self::Certificate => "grace",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::Certificate => "certificate",
        })
    }
}

/// What the issuer hands out, and how fast.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    pub(super) token_life: Duration,
    pub(super) certificate_life: Duration,
    /// How long a login takes.
    pub(super) delay: Duration,
    /// Each kind is issued once and never again: for the test that a demo in which renewal fails does fail.
    pub(super) only_once: bool,
}

/// Signs whatever it is asked to sign.
pub(super) struct Issuer {
    authority: Authority,
    signer: Signer,
    clock: Arc<dyn Clock>,
    terms: Terms,
    board: Arc<Board>,
}

impl Issuer {
    pub(super) fn new(clock: Arc<dyn Clock>, terms: Terms, board: Arc<Board>) -> Result<Self, SetupError> {
        let authority = Authority::new("credlet demo authority", clock.now())?;
        let signer = Signer::new().map_err(|_| SetupError::Key)?;
        Ok(Self { authority, signer, clock, terms, board })
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(super) fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Answers at the socket until the handle is dropped.
    pub(super) fn listen(self: &Arc<Self>, socket: &Path) -> Result<Listening, SetupError> {
        let listener = UnixListener::bind(socket)?;
        let issuer = Arc::clone(self);
        Ok(Listening(tokio::spawn(async move {
            let mut logins = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let issuer = Arc::clone(&issuer);
                logins.spawn(async move { issuer.answer(stream).await });
                while logins.try_join_next().is_some() {}
            }
        })))
    }

    /// A plugin that goes away before it has its answer gets none.
    async fn answer(&self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut wanted = String::new();
        (&mut stream).take(32).read_to_string(&mut wanted).await?;
        let Some(kind) = Kind::BOTH.into_iter().find(|kind| kind.to_string() == wanted) else { return Ok(()) };
        let number = self.board.plugin_ran(kind);
        self.clock.sleep(self.terms.delay).await;
        if number > 1 && self.terms.only_once {
            return Ok(());
        }
        if let Some(answer) = self.issue(kind, number) {
            stream.write_all(answer.expose().as_bytes()).await?;
        }
        stream.shutdown().await
    }

    /// The second at which it expires, a line end, and the credential: what the plugin makes its answer of.
    fn issue(&self, kind: Kind, number: usize) -> Option<Secret> {
        let now = self.clock.now();
        Some(match kind {
            Kind::Token => {
                let expires = now + self.terms.token_life;
                let token = self.token(&number.to_string(), expires);
                Secret::new(format!("{}\n{}", expires.as_second(), token.expose()))
            }
            Kind::Certificate => {
                let expires = now + self.terms.certificate_life;
                let Pair { certificate, key } = self.certificate(expires).ok()?;
                Secret::new(format!("{}\n{certificate}\n\n{}", expires.as_second(), key.expose()))
            }
        })
    }

    pub(super) fn token(&self, id: &str, expires: Timestamp) -> Secret {
        let claims = Claims { id: id.into(), user: Kind::Token.user().into(), group: GROUP.into(), expires };
        self.signer.sign(&claims, self.clock.now())
    }

    pub(super) fn certificate(&self, expires: Timestamp) -> Result<Pair, rcgen::Error> {
        let from = expires - Duration::from_secs(3600);
        self.authority.client(Kind::Certificate.user(), GROUP, from, expires)
    }
}

/// The issuer's socket, open.
pub(super) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}
