//! Client of the control socket.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialSpec, ExecCredentialStatus};
use credlet_exec::{Clock as _, SystemClock};
use credlet_http::{
    ClientSettings, ConnectFuture, CryptoBackend, HostPort, HttpClient, HttpError, RequestBody, Route, ServerAddr,
    read_body,
};
use credlet_platform::local_socket::LocalStream;
use http::{Method, Request, StatusCode};

use super::control::{ParseReportError, StatusReport, UNLOCK_PROMPT_HEADER, VERSION, WAIT_QUERY};
use crate::dir::ProxyDir;

/// Timeout of requests that the proxy answers from memory.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Size limit of a response. The metrics are the longest, with some ten thousand bytes.
const MAX_RESPONSE_SIZE: usize = 4 << 20;

/// Timeout of a shutdown: 10 s for requests in flight, 10 s for closing a token, plus a margin for a busy machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for unlocking a token.
const UNLOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Client of the control socket of a running proxy.
#[derive(Clone, Debug)]
pub struct ControlClient {
    client: HttpClient,
    socket: PathBuf,
}

/// Credential for a client of the proxy, and the prompt of a locked signer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeaseResponse {
    /// Credential for the client.
    pub status: ExecCredentialStatus,
    /// Prompt for the user. The input goes to [`ControlClient::unlock`].
    pub wants: Option<String>,
}

impl ControlClient {
    /// Creates a client for the proxy in this directory without connecting.
    ///
    /// # Errors
    /// If the connection settings are invalid.
    pub fn new(dir: &ProxyDir) -> Result<Self, ControlError> {
        // The route connects to the socket, so the host is not resolved and TLS is not used.
        let server = ServerAddr::parse("http://proxy").map_err(HttpError::from)?;
        let mut settings = ClientSettings::new(server, CryptoBackend::aws_lc_rs(), Arc::new(SystemClock::new()));
        let socket = dir.control();
        settings.route = Some(Arc::new(ControlRoute(socket.clone())));
        // An interrupted request may have been processed.
        settings.max_retries = 0;
        Ok(Self { client: HttpClient::new(settings)?, socket })
    }

    /// Requests a credential: for a client that holds this lock file, or for the port if `lock_file` is `None`.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`] if no proxy is running or it is shutting down.
    pub async fn lease(&self, lock_file: Option<&Path>) -> Result<LeaseResponse, ControlError> {
        let path = lock_file.map(|path| path.to_str().ok_or(ControlError::Path)).transpose()?;
        let body = RequestBody::from(path.unwrap_or_default().to_owned());
        let (body, wants) = self.request(Method::POST, "/lease", body, RESPONSE_TIMEOUT).await?;
        // The response has a socket only if the client has a lock file.
        let spec = ExecCredentialSpec { lock_file_path: path.map(str::to_owned), ..ExecCredentialSpec::default() };
        let status = ExecCredentialStatus::decode(body.expose().as_bytes(), VERSION, &spec);
        Ok(LeaseResponse { status: status.map_err(|_| ControlError::InvalidResponse)?, wants })
    }

    /// Unlocks the signer, see [`Signer::unlock_prompt`](crate::sign::Signer::unlock_prompt).
    ///
    /// # Errors
    /// [`ControlError::Refused`] if the secret is wrong.
    pub async fn unlock(&self, secret: &Secret) -> Result<(), ControlError> {
        let body = RequestBody::from(secret.expose().to_owned());
        self.request(Method::POST, "/unlock", body, UNLOCK_TIMEOUT).await.map(drop)
    }

    /// Returns the status of the proxy.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`] if no proxy is running.
    pub async fn status(&self) -> Result<StatusReport, ControlError> {
        let (body, _) = self.request(Method::GET, "/status", RequestBody::empty(), RESPONSE_TIMEOUT).await?;
        body.expose().parse().map_err(|ParseReportError| ControlError::InvalidResponse)
    }

    /// Returns the metrics in the Prometheus text format.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`] if no proxy is running.
    pub async fn metrics(&self) -> Result<String, ControlError> {
        let (body, _) = self.request(Method::GET, "/metrics", RequestBody::empty(), RESPONSE_TIMEOUT).await?;
        Ok(body.expose().to_owned())
    }

    /// Requests a shutdown. The proxy soon stops accepting connections, and exits within its drain timeout.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`] if no proxy is running.
    pub async fn stop(&self) -> Result<(), ControlError> {
        self.request(Method::POST, "/stop", RequestBody::empty(), RESPONSE_TIMEOUT).await.map(drop)
    }

    /// Stops the proxy and returns when it has closed its signer, so that the next proxy can use a hardware key.
    /// Succeeds if no proxy is running.
    ///
    /// # Errors
    /// [`ControlError::TimedOut`] if it takes longer than the drain timeout and the timeout for closing a token.
    pub async fn stop_and_wait(&self) -> Result<(), ControlError> {
        let stopped =
            self.request(Method::POST, &format!("/stop?{WAIT_QUERY}"), RequestBody::empty(), STOP_TIMEOUT).await;
        match stopped {
            // The exit closes the connection, even if no response was sent.
            Ok(_) | Err(ControlError::NotRunning) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Applies a timeout: the kernel accepts connections for a stopped or hanging process.
    async fn request(
        &self,
        method: Method,
        path: &str,
        body: RequestBody,
        limit: Duration,
    ) -> Result<ControlResponse, ControlError> {
        let clock = SystemClock::new();
        tokio::select! {
            response = self.send(method, path, body) => response,
            () = clock.sleep(limit) => Err(ControlError::TimedOut { limit, pid: self.listener_pid().await }),
        }
    }

    /// Process id of the listener, from the peer credentials.
    async fn listener_pid(&self) -> Option<u32> {
        LocalStream::connect_own(&self.socket).await.ok()?.peer().ok()?.process
    }

    async fn send(&self, method: Method, path: &str, body: RequestBody) -> Result<ControlResponse, ControlError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| ControlError::InvalidResponse)?;
        let response = self.client.send(request).await?;
        let (head, body) = response.into_parts();
        // An error: the proxy exited during the response.
        let mut text = read_body(body, MAX_RESPONSE_SIZE).await.map_err(|_| ControlError::NotRunning)?;
        let text = String::from_utf8(std::mem::take(&mut *text)).map_err(|_| ControlError::InvalidResponse)?;
        let text = Secret::new(text);
        let wants =
            head.headers.get(UNLOCK_PROMPT_HEADER).map(|wants| String::from_utf8_lossy(wants.as_bytes()).into_owned());
        match head.status {
            code if code.is_success() => Ok((text, wants)),
            StatusCode::SERVICE_UNAVAILABLE => Err(ControlError::NotRunning),
            // The body of an error response is a message for the user.
            _ => Err(ControlError::Refused { reason: credlet_api::escape_control_chars(text.expose()) }),
        }
    }
}

/// Body of a response and the prompt of a locked signer.
type ControlResponse = (Secret, Option<String>);

/// A failed request to the control socket.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No proxy is running, or it is shutting down.
    #[error("no running proxy found")]
    NotRunning,
    /// The socket or its listener belongs to another user.
    #[error("permission denied: the proxy's socket belongs to another user")]
    Foreign,
    /// The proxy is stopped or hangs. See [`hints`](Self::hints).
    #[error("the proxy{} timed out after {} seconds", pid_suffix(*pid), limit.as_secs())]
    TimedOut {
        /// How long the caller waited for the response.
        limit: Duration,
        /// Process id of the proxy, if known.
        pid: Option<u32>,
    },
    /// The proxy rejected the request.
    #[error("{reason}")]
    Refused {
        /// Message of the proxy.
        reason: String,
    },
    /// The path of the lock file is not UTF-8.
    #[error("invalid path of the client's lock file: not UTF-8")]
    Path,
    /// The response of another program or version.
    #[error("invalid response from the proxy")]
    InvalidResponse,
    /// Any other connection error.
    #[error("failed to connect to the proxy")]
    Connection(#[source] HttpError),
}

impl ControlError {
    /// Hints for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        let Self::TimedOut { pid: Some(pid), .. } = self else { return Vec::new() };
        vec![
            format!("if the process is stopped, resume it with `kill -CONT {pid}`"),
            format!("or end it with `kill -KILL {pid}`; the next client starts a new one"),
        ]
    }
}

fn pid_suffix(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl From<HttpError> for ControlError {
    fn from(error: HttpError) -> Self {
        let HttpError::Unreachable { source, .. } = &error else {
            return match error {
                // The proxy exited during the request.
                HttpError::ConnectionLost { .. } => Self::NotRunning,
                error => Self::Connection(error),
            };
        };
        match source.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            // ConnectionReset: the proxy exited before it accepted the connection.
            Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => Self::NotRunning,
            Some(ErrorKind::PermissionDenied) => Self::Foreign,
            _ => Self::Connection(error),
        }
    }
}

/// Route to the control socket.
#[derive(Debug)]
struct ControlRoute(PathBuf);

impl Route for ControlRoute {
    fn connect<'a>(&'a self, target: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async move {
            match LocalStream::connect_own(&self.0).await {
                Ok(stream) => Ok(Box::new(stream) as _),
                Err(error) => Err(HttpError::Unreachable { host: target.to_string().into(), source: Arc::new(error) }),
            }
        })
    }

    fn is_private(&self) -> bool {
        true
    }
}
