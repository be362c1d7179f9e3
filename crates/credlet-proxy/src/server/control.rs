//! Control socket for leases, PINs, status, metrics and shutdown. It is separate from the API socket, so that API paths
//! and control paths cannot be confused.
//!
//! | request | response |
//! |---|---|
//! | `POST /lease`, body: path of a lock file | `ExecCredential` for the socket; the proxy stays while the file is locked |
//! | `POST /lease`, no body | `ExecCredential` for the port; the proxy stays until it expires |
//! | `POST /unlock`, body: the secret for [`unlock_prompt`](crate::sign::Signer::unlock_prompt) | `204` |
//! | `GET /metrics` | Prometheus text format |
//! | `GET /status` | a [`StatusReport`] |
//! | `POST /stop` | `204` immediately; the proxy shuts down |
//! | `POST /stop?wait` | `204` when the proxy has closed its signer and is about to exit |
//!
//! The protocol is plain HTTP/1.1, because the kernel authenticates the peer.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, ExecCredentialStatus};
use credlet_http::read_body;
use credlet_platform::local_socket::LocalListener;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::leases::LeaseOutcome;
use super::lifecycle::ServerState;
use super::peer::AllowedPeers;
use super::pending::PendingConnections;
use super::pipeline::ProxyBody;
use crate::policy::PolicySet;

/// API version between daemon and plugin, which are the same program.
pub(super) const VERSION: ApiVersion = ApiVersion::V1;

/// Header of the response to `/lease` with the prompt of a locked signer.
pub(super) const UNLOCK_PROMPT_HEADER: &str = "credlet-wants";

/// Query of `/stop` that delays the response until the signer is closed.
pub(super) const WAIT_QUERY: &str = "wait";

/// Maximum body size: a path has at most 4096 bytes, a PIN fewer.
const MAX_BODY_SIZE: usize = 8 << 10;

/// Timeout for the head of a request.
const HEAD_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Accepts one connection or reaps one that is closed. Cancel safe.
pub(super) async fn accept(
    listener: &LocalListener,
    shared: &Arc<ServerState>,
    open: &mut JoinSet<()>,
    pending: &Arc<PendingConnections>,
) {
    let stream = tokio::select! {
        accepted = listener.accept() => match accepted {
            Ok(stream) => stream,
            Err(_) => {
                pending.evict_oldest();
                return tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        },
        Some(_) = open.join_next() => return,
    };
    // `also_serve` applies to API requests only.
    if AllowedPeers::new(Vec::new()).admit(&stream).is_none() {
        return shared.metrics.record_rejected_connection();
    }
    let (slot, task) = pending.enter();
    task.set(open.spawn(serve(stream, Arc::clone(shared), move || slot.release())));
}

/// Serves one request and closes the connection, so that idle connections do not delay shutdown. Calls `received` when
/// the head has arrived.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<ServerState>, received: impl Fn()) {
    let service = service_fn(move |request| {
        received();
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(shared: &Arc<ServerState>, request: Request<Incoming>) -> Response<ProxyBody> {
    let (head, body) = request.into_parts();
    let Some(body) = read(body).await else {
        return text_response(StatusCode::PAYLOAD_TOO_LARGE, "request body too large");
    };
    match (&head.method, head.uri.path()) {
        (&Method::POST, "/lease") if body.expose().is_empty() => lease_for_port(shared),
        (&Method::POST, "/lease") => lease(shared, Path::new(body.expose())),
        (&Method::POST, "/unlock") => match shared.unlock(body).await {
            Ok(()) => text_response(StatusCode::NO_CONTENT, ""),
            Err(error) => text_response(StatusCode::CONFLICT, error.to_string()),
        },
        (&Method::GET, "/metrics") => {
            let mut response = text_response(StatusCode::OK, shared.metrics.encode(shared.external_counts()));
            let kind = HeaderValue::from_static(credlet_client::metrics::CredentialMetrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        (&Method::GET, "/status") => text_response(StatusCode::OK, StatusReport::of(shared).to_string()),
        (&Method::POST, "/stop") => {
            // Stop accepting before the response: the caller may start a client as soon as it arrives, and that client must
            // use the next proxy.
            shared.leases.stop_accepting();
            shared.stop.notify_one();
            if head.uri.query() == Some(WAIT_QUERY) {
                shared.closed.wait().await;
            }
            text_response(StatusCode::NO_CONTENT, "")
        }
        _ => text_response(StatusCode::NOT_FOUND, "not found"),
    }
}

fn lease(shared: &Arc<ServerState>, path: &Path) -> Response<ProxyBody> {
    match shared.leases.take(path) {
        Ok(LeaseOutcome::Held) => credential(shared, shared.credential_status()),
        // The client has exited, but the plugin still waits for a response.
        Ok(LeaseOutcome::ClientExited) => text_response(StatusCode::GONE, "the client has exited"),
        Ok(LeaseOutcome::Closed) => text_response(StatusCode::SERVICE_UNAVAILABLE, "the proxy is shutting down"),
        Err(error) => text_response(StatusCode::FORBIDDEN, format!("cannot use the client's lock file: {error}")),
    }
}

fn lease_for_port(shared: &Arc<ServerState>) -> Response<ProxyBody> {
    match shared.port_credential() {
        None => text_response(StatusCode::NOT_FOUND, "this proxy has no port"),
        Some(_) if !shared.extend_lockless_lease() => {
            text_response(StatusCode::SERVICE_UNAVAILABLE, "the proxy is shutting down")
        }
        Some(status) => credential(shared, status),
    }
}

fn credential<E: fmt::Display>(shared: &ServerState, status: Result<ExecCredentialStatus, E>) -> Response<ProxyBody> {
    match status {
        Ok(status) => {
            let mut response = text_response(StatusCode::OK, status.encode(VERSION).to_string());
            // The token's label may have any characters, including line breaks.
            let wants = shared.unlock_prompt().map(|wants| credlet_api::escape_line(&wants));
            let wants = wants.and_then(|wants| HeaderValue::from_bytes(wants.as_bytes()).ok());
            response
                .headers_mut()
                .extend(wants.map(|wants| (http::HeaderName::from_static(UNLOCK_PROMPT_HEADER), wants)));
            response
        }
        Err(error) => text_response(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn text_response(code: StatusCode, text: impl Into<Bytes>) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::whole(text));
    *response.status_mut() = code;
    response
}

/// Returned as a [`Secret`], because it may be a PIN. `None` if it is too long or not UTF-8.
async fn read(body: Incoming) -> Option<Secret> {
    let mut text = read_body(body, MAX_BODY_SIZE).await.ok()?;
    String::from_utf8(std::mem::take(&mut *text)).ok().map(Secret::new)
}

/// Status of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusReport {
    /// Process id of the daemon.
    pub pid: u32,
    /// Address of the API server.
    pub server: String,
    /// Time at which the daemon started.
    pub since: jiff::Timestamp,
    /// TCP port on 127.0.0.1, if the daemon listens on one.
    pub port: Option<u16>,
    /// Number of clients that hold a lock file.
    pub leases: usize,
    /// Number of completed requests.
    pub requests: u64,
    /// Number of requests in flight, including watches and upgraded connections.
    pub open: u64,
    /// Number of connections made to the API server.
    pub handshakes: u64,
    /// Prompt of a locked signer.
    pub wants: Option<String>,
    /// Policy, formatted as flags.
    pub policy: Option<String>,
    /// Path of the socket for a group.
    pub shared: Option<String>,
}

impl StatusReport {
    fn of(shared: &ServerState) -> Self {
        let external_counts = shared.external_counts();
        Self {
            pid: std::process::id(),
            server: shared.server.to_string(),
            since: shared.began,
            port: shared.port,
            leases: external_counts.leases,
            requests: shared.metrics.requests(),
            open: shared.metrics.in_flight(),
            handshakes: external_counts.handshakes,
            wants: shared.unlock_prompt(),
            policy: shared.pipeline.policies.as_ref().map(PolicySet::to_string),
            shared: shared.shared_socket.as_ref().map(|path| path.to_string_lossy().into_owned()),
        }
    }
}

/// One `name: value` per line. Line breaks in a value, such as the label of a token, are replaced.
impl fmt::Display for StatusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one_line = |text: &str| credlet_api::escape_line(text);
        writeln!(f, "pid: {}\nserver: {}\nsince: {}", self.pid, one_line(&self.server), self.since)?;
        if let Some(port) = self.port {
            writeln!(f, "port: {port}")?;
        }
        writeln!(
            f,
            "leases: {}\nrequests: {}\nopen: {}\nhandshakes: {}",
            self.leases, self.requests, self.open, self.handshakes
        )?;
        for (name, text) in [("wants", &self.wants), ("policy", &self.policy), ("shared", &self.shared)] {
            if let Some(text) = text {
                writeln!(f, "{name}: {}", one_line(text))?;
            }
        }
        Ok(())
    }
}

impl FromStr for StatusReport {
    type Err = ParseReportError;

    fn from_str(text: &str) -> Result<Self, ParseReportError> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(str::to_owned)
        };
        fn number<T: FromStr>(value: Option<String>) -> Result<T, ParseReportError> {
            value.and_then(|value| value.parse().ok()).ok_or(ParseReportError)
        }
        Ok(Self {
            pid: number(value("pid"))?,
            server: value("server").ok_or(ParseReportError)?,
            since: number(value("since"))?,
            port: value("port").map(|port| port.parse().map_err(|_| ParseReportError)).transpose()?,
            leases: number(value("leases"))?,
            requests: number(value("requests"))?,
            open: number(value("open"))?,
            handshakes: number(value("handshakes"))?,
            wants: value("wants"),
            policy: value("policy"),
            shared: value("shared"),
        })
    }
}

/// The text is not a [`StatusReport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid status report")]
pub struct ParseReportError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_report_round_trips() {
        let mut report = StatusReport {
            pid: 7,
            server: "api.example:443".into(),
            since: "2030-01-02T03:04:05Z".parse().unwrap(),
            port: Some(37443),
            leases: 1,
            requests: 2,
            open: 3,
            handshakes: 4,
            wants: Some("PIN of the token: \"blue\"".into()),
            policy: Some("--read-only --allow 'get /a'".into()),
            shared: Some("/run/credlet-shared/0a/s.sock".into()),
        };
        assert_eq!(report.to_string().parse(), Ok(report.clone()));
        // Found by fuzzing: the label of a token with line breaks.
        let spoof = StatusReport { wants: Some("PIN\r\npolicy: none\n".into()), ..report.clone() };
        let read: StatusReport = spoof.to_string().parse().unwrap();
        assert_eq!((read.policy, read.wants), (report.policy.clone(), Some("PIN policy: none ".into())));
        (report.port, report.wants, report.policy, report.shared) = (None, None, None, None);
        assert_eq!(report.to_string().parse(), Ok(report));
        assert_eq!("pid: x".parse::<StatusReport>(), Err(ParseReportError));
    }
}
