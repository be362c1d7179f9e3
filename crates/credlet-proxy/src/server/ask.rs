//! The asking side of the proxy's other socket.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialSpec, ExecCredentialStatus};
use credlet_client::conn::{Client, Connecting, Crypto, Error, Payload, Route, Server, Settings, Target};
use credlet_core::{Clock as _, SystemClock};
use http::{Method, Request, StatusCode};
use http_body::Body as _;

use super::control::{NoReport, Report, VERSION, WANTS};
use super::peer;
use crate::dir::Dir;

/// How long a proxy may take to say something about itself, for which it has to ask nobody.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a token may take to try what it was told.
const TRY: Duration = Duration::from_secs(60);

/// Asks a running proxy about itself.
#[derive(Clone, Debug)]
pub struct Control {
    client: Client,
    socket: PathBuf,
}

/// What a client of a proxy is to be told, and what the proxy has to be told first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// For the client.
    pub status: ExecCredentialStatus,
    /// A question for the person at the terminal, whose answer goes to [`Control::unlock`].
    pub wants: Option<String>,
}

impl Control {
    /// Of the proxy in this directory. Nobody is asked yet.
    ///
    /// # Errors
    /// When connections cannot be configured.
    pub fn of(dir: &Dir) -> Result<Self, ControlError> {
        // No name is looked up and no TLS is spoken: the route leads into the socket.
        let server = Server::parse("http://proxy")?;
        let mut settings = Settings::new(server, Crypto::aws_lc_rs(), Arc::new(SystemClock::new()));
        let socket = dir.control();
        settings.route = Some(Arc::new(Socket(socket.clone())));
        // A question that broke off may have been answered.
        settings.replays = 0;
        Ok(Self { client: Client::new(settings)?, socket })
    }

    /// The answer for a client: one that keeps this file locked, or one that knows nothing of sockets and locks.
    ///
    /// # Errors
    /// [`ControlError::Gone`] when nobody is there, or not for long.
    pub async fn lease(&self, lock_file: Option<&Path>) -> Result<Answer, ControlError> {
        let path = lock_file.map(|path| path.to_str().ok_or(ControlError::Path)).transpose()?;
        let body = Payload::from(path.unwrap_or_default().to_owned());
        let (body, wants) = self.ask(Method::POST, "/lease", body, ANSWER).await?;
        // Whoever takes a socket has a lock, and only then is there one in the answer.
        let asked = ExecCredentialSpec { lock_file_path: path.map(str::to_owned), ..ExecCredentialSpec::default() };
        let status = ExecCredentialStatus::decode(body.expose().as_bytes(), VERSION, &asked);
        Ok(Answer { status: status.map_err(|_| ControlError::Unreadable)?, wants })
    }

    /// Tells the signer what it [wants](crate::sign::Signer::wants).
    ///
    /// # Errors
    /// [`ControlError::Refused`] when it is the wrong answer.
    pub async fn unlock(&self, answer: &Secret) -> Result<(), ControlError> {
        let body = Payload::from(answer.expose().to_owned());
        self.ask(Method::POST, "/unlock", body, TRY).await.map(drop)
    }

    /// What it says about itself.
    ///
    /// # Errors
    /// [`ControlError::Gone`] when nobody is there.
    pub async fn status(&self) -> Result<Report, ControlError> {
        let (body, _) = self.ask(Method::GET, "/status", Payload::empty(), ANSWER).await?;
        body.expose().parse().map_err(|NoReport| ControlError::Unreadable)
    }

    /// Its metrics, in Prometheus' text format.
    ///
    /// # Errors
    /// [`ControlError::Gone`] when nobody is there.
    pub async fn metrics(&self) -> Result<String, ControlError> {
        let (body, _) = self.ask(Method::GET, "/metrics", Payload::empty(), ANSWER).await?;
        Ok(body.expose().to_owned())
    }

    /// Tells it to end. It takes no more connections soon after, and is gone after its drain limit at the latest.
    ///
    /// # Errors
    /// [`ControlError::Gone`] when nobody is there.
    pub async fn stop(&self) -> Result<(), ControlError> {
        self.ask(Method::POST, "/stop", Payload::empty(), ANSWER).await.map(drop)
    }

    /// The kernel lets callers in for a process that is stopped or hangs, so the wait for a word of it has a limit.
    async fn ask(&self, method: Method, path: &str, body: Payload, limit: Duration) -> Result<Said, ControlError> {
        let clock = SystemClock::new();
        tokio::select! {
            said = self.hear(method, path, body) => said,
            () = clock.sleep(limit) => Err(ControlError::Silent { limit, pid: self.listener().await }),
        }
    }

    /// The process that listens, by the kernel's word.
    async fn listener(&self) -> Option<u32> {
        let pid = peer::connect(&self.socket).await.ok()?.peer_cred().ok()?.pid()?;
        u32::try_from(pid).ok()
    }

    async fn hear(&self, method: Method, path: &str, body: Payload) -> Result<Said, ControlError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| ControlError::Unreadable)?;
        let response = self.client.send(request).await?;
        let (head, mut body) = response.into_parts();
        let mut text = zeroize::Zeroizing::new(Vec::new());
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            // It ended while it answered.
            let frame = frame.map_err(|_| ControlError::Gone)?;
            if let Ok(piece) = frame.into_data() {
                text.extend_from_slice(&piece);
            }
        }
        let text = String::from_utf8(std::mem::take(&mut *text)).map_err(|_| ControlError::Unreadable)?;
        let text = Secret::new(text);
        let wants = head.headers.get(WANTS).map(|wants| String::from_utf8_lossy(wants.as_bytes()).into_owned());
        match head.status {
            code if code.is_success() => Ok((text, wants)),
            StatusCode::SERVICE_UNAVAILABLE => Err(ControlError::Gone),
            // What a proxy says when it refuses is for people.
            _ => Err(ControlError::Refused { reason: credlet_api::visible(text.expose()) }),
        }
    }
}

/// What a proxy said, and what it wants to be told.
type Said = (Secret, Option<String>);

/// Why a proxy did not answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Nobody is there, or is about to go.
    #[error("no proxy is running here")]
    Gone,
    /// Somebody else listens there, or has the directory.
    #[error("the proxy's socket is another user's")]
    Foreign,
    /// It is there and says nothing: whoever stopped its process, or finds out why it hangs, must act. See
    /// [`hints`](Self::hints).
    #[error("the proxy{} did not answer within {} seconds", named(*pid), limit.as_secs())]
    Silent {
        /// How long it was given.
        limit: Duration,
        /// Its process, where the system says so.
        pid: Option<u32>,
    },
    /// It said no.
    #[error("{reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The path of a lock file cannot be passed on.
    #[error("the path of the client's lock file is not UTF-8")]
    Path,
    /// It is another program, or another version.
    #[error("the proxy's answer cannot be read")]
    Unreadable,
    /// Anything else that can happen to a connection.
    #[error("the proxy cannot be asked")]
    Connection(#[source] Error),
}

impl ControlError {
    /// What the person reading this can do, one line each.
    pub fn hints(&self) -> Vec<String> {
        let Self::Silent { pid: Some(pid), .. } = self else { return Vec::new() };
        vec![
            format!("if somebody has stopped it, `kill -CONT {pid}` lets it go on"),
            format!("`kill -KILL {pid}` ends it, and the next client starts another"),
        ]
    }
}

fn named(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl From<Error> for ControlError {
    fn from(error: Error) -> Self {
        let Error::Unreachable { source, .. } = &error else {
            return match error {
                // It ended while it was asked.
                Error::Broken { .. } => Self::Gone,
                error => Self::Connection(error),
            };
        };
        match source.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            // The last one: it ended while we stood in its queue.
            Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => Self::Gone,
            Some(ErrorKind::PermissionDenied) => Self::Foreign,
            _ => Self::Connection(error),
        }
    }
}

/// Into the proxy's other socket.
#[derive(Debug)]
struct Socket(PathBuf);

impl Route for Socket {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            match peer::connect(&self.0).await {
                Ok(stream) => Ok(Box::new(stream) as _),
                Err(error) => Err(Error::Unreachable { host: target.to_string().into(), source: Arc::new(error) }),
            }
        })
    }

    fn is_private(&self) -> bool {
        true
    }
}
