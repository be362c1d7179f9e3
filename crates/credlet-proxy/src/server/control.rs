//! The proxy's other socket: where it is asked about itself. A socket of its own, so that no path of the API can be
//! taken for a question, and no client of the API can ask one by a slip of its path.
//!
//! | request | answer |
//! |---|---|
//! | `POST /lease`, body: the path of a lock file | an `ExecCredential` for the socket; the proxy stays while it is locked |
//! | `POST /lease`, no body | an `ExecCredential` for the port; the proxy stays until it expires |
//! | `POST /unlock`, body: what the signer [wants](crate::sign::Signer::wants) | nothing |
//! | `GET /metrics` | Prometheus' text format |
//! | `GET /status` | a [`Report`] |
//! | `POST /stop` | nothing; the proxy ends |
//!
//! It speaks plain HTTP/1.1: the kernel has said who is there.

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use credlet_api::Secret;
use credlet_api::exec::{ApiVersion, ExecCredentialStatus};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::leases::Taken;
use super::peer::Peers;
use super::run::Shared;
use super::stack::Reply;
use crate::policy::Guard;

/// The version in which daemon and plugin speak to each other: they are the same program.
pub(super) const VERSION: ApiVersion = ApiVersion::V1;

/// On the answer to `/lease`: what the signer has to be told first.
pub(super) const WANTS: &str = "credlet-wants";

/// No question is larger. The path of a file has 4096 bytes at most, and a PIN has fewer.
const LARGEST: usize = 8 << 10;

/// Takes one in, or notes that one has ended. May be dropped at any time.
pub(super) async fn accept(listener: &UnixListener, shared: &Arc<Shared>, open: &mut JoinSet<()>) {
    let stream = tokio::select! {
        accepted = listener.accept() => match accepted {
            Ok((stream, _)) => stream,
            Err(_) => return tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        },
        Some(_) = open.join_next() => return,
    };
    // Whoever else may send requests, these questions are this user's own.
    if !Peers::new(Vec::new()).admit(&stream) {
        return shared.metrics.refused();
    }
    let shared = Arc::clone(shared);
    open.spawn(async move {
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(answer(&shared, request).await) }
        });
        // One question a connection, so that an idle one does not hold up the end.
        let _ = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
    });
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Reply> {
    let (head, body) = request.into_parts();
    let Some(body) = read(body).await else { return said(StatusCode::PAYLOAD_TOO_LARGE, "that is too much") };
    match (&head.method, head.uri.path()) {
        (&Method::POST, "/lease") if body.expose().is_empty() => lease_for_port(shared),
        (&Method::POST, "/lease") => lease(shared, Path::new(body.expose())),
        (&Method::POST, "/unlock") => match shared.unlock(body).await {
            Ok(()) => said(StatusCode::NO_CONTENT, ""),
            Err(error) => said(StatusCode::CONFLICT, error.to_string()),
        },
        (&Method::GET, "/metrics") => {
            let mut response = said(StatusCode::OK, shared.metrics.encode(shared.elsewhere()));
            let kind = HeaderValue::from_static(credlet_client::metrics::Metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        (&Method::GET, "/status") => said(StatusCode::OK, Report::of(shared).to_string()),
        (&Method::POST, "/stop") => {
            // Before it is said: whoever hears it may start a client at once, and that is the next one's.
            shared.leases.shut();
            shared.stop.notify_one();
            said(StatusCode::NO_CONTENT, "")
        }
        _ => said(StatusCode::NOT_FOUND, "no such question"),
    }
}

fn lease(shared: &Arc<Shared>, path: &Path) -> Response<Reply> {
    match shared.leases.take(path) {
        Ok(Taken::Held) => credential(shared, shared.answer()),
        // Nobody will read the answer, but the plugin that asks is still there.
        Ok(Taken::Gone) => said(StatusCode::GONE, "the client that wanted this proxy is gone"),
        Ok(Taken::Closed) => said(StatusCode::SERVICE_UNAVAILABLE, "the proxy ends"),
        Err(error) => said(StatusCode::FORBIDDEN, format!("the client's lock file cannot be used: {error}")),
    }
}

fn lease_for_port(shared: &Arc<Shared>) -> Response<Reply> {
    match shared.answer_for_port() {
        None => said(StatusCode::NOT_FOUND, "this proxy has no port"),
        Some(_) if !shared.stay() => said(StatusCode::SERVICE_UNAVAILABLE, "the proxy ends"),
        Some(answer) => credential(shared, answer),
    }
}

fn credential<E: fmt::Display>(shared: &Shared, answer: Result<ExecCredentialStatus, E>) -> Response<Reply> {
    match answer {
        Ok(status) => {
            let mut response = said(StatusCode::OK, status.encode(VERSION).to_string());
            // As a token calls itself: in letters of any kind, and perhaps on two lines.
            let wants = shared.wants().map(|wants| credlet_api::visible(&wants).replace(char::is_control, " "));
            let wants = wants.and_then(|wants| HeaderValue::from_bytes(wants.as_bytes()).ok());
            response.headers_mut().extend(wants.map(|wants| (http::HeaderName::from_static(WANTS), wants)));
            response
        }
        Err(error) => said(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn said(code: StatusCode, text: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(text));
    *response.status_mut() = code;
    response
}

/// In a [`Secret`] whatever it is: it may be a PIN. `None`: too long, or no text.
async fn read(mut body: Incoming) -> Option<Secret> {
    let mut text = zeroize::Zeroizing::new(Vec::with_capacity(LARGEST));
    while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(piece) = frame.ok()?.into_data() {
            if text.len() + piece.len() > LARGEST {
                return None;
            }
            text.extend_from_slice(&piece);
        }
    }
    String::from_utf8(std::mem::take(&mut *text)).ok().map(Secret::new)
}

/// What a proxy says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Its process.
    pub pid: u32,
    /// The API server.
    pub server: String,
    /// Since when it listens.
    pub since: jiff::Timestamp,
    /// Its port of 127.0.0.1, if it has one.
    pub port: Option<u16>,
    /// How many clients hold on to it by a lock.
    pub leases: usize,
    /// How many requests it has answered.
    pub requests: u64,
    /// How many are being answered, watches and upgraded connections among them.
    pub open: u64,
    /// How many connections to the API server it has made.
    pub handshakes: u64,
    /// What it has to be told before it can sign.
    pub wants: Option<String>,
    /// What it does not pass on, if that is less than its user may do.
    pub policy: Option<String>,
    /// The socket for a group, if it has one.
    pub shared: Option<String>,
}

impl Report {
    fn of(shared: &Shared) -> Self {
        let elsewhere = shared.elsewhere();
        Self {
            pid: std::process::id(),
            server: shared.server.to_string(),
            since: shared.began,
            port: shared.port,
            leases: elsewhere.leases,
            requests: shared.metrics.requests(),
            open: shared.metrics.in_flight(),
            handshakes: elsewhere.handshakes,
            wants: shared.wants(),
            policy: shared.stack.guard.as_ref().map(Guard::to_string),
            shared: shared.shared_socket.as_ref().map(|path| path.to_string_lossy().into_owned()),
        }
    }
}

/// One `name: value` a line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pid: {}\nserver: {}\nsince: {}", self.pid, self.server, self.since)?;
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
                writeln!(f, "{name}: {}", credlet_api::visible(text))?;
            }
        }
        Ok(())
    }
}

impl FromStr for Report {
    type Err = NoReport;

    fn from_str(text: &str) -> Result<Self, NoReport> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(str::to_owned)
        };
        fn number<T: FromStr>(value: Option<String>) -> Result<T, NoReport> {
            value.and_then(|value| value.parse().ok()).ok_or(NoReport)
        }
        Ok(Self {
            pid: number(value("pid"))?,
            server: value("server").ok_or(NoReport)?,
            since: number(value("since"))?,
            port: value("port").map(|port| port.parse().map_err(|_| NoReport)).transpose()?,
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

/// A text that is no [`Report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proxy gives no account of itself that can be read")]
pub struct NoReport;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_as_it_was() {
        let mut report = Report {
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
        (report.port, report.wants, report.policy, report.shared) = (None, None, None, None);
        assert_eq!(report.to_string().parse(), Ok(report));
        assert_eq!("pid: x".parse::<Report>(), Err(NoReport));
    }
}
