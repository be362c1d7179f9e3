//! Processes one request: record, fault, authentication, handler, log.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rustls_pki_types::CertificateDer;
use tokio::sync::mpsc;

use super::control::{ConnectionCommand, CutMode, Fault, SharedState};
use super::counting_stream::StreamState;
use super::record::{PeerCertificate, RecordedRequest};
use super::{RequestContext, ResponseRecord};
use crate::response::{ResponseBody, StatusError};

/// Properties of a connection that its requests share.
pub(super) struct Connection {
    pub(super) shared: Arc<SharedState>,
    pub(super) number: usize,
    pub(super) commands: mpsc::UnboundedSender<ConnectionCommand>,
    pub(super) stream: Arc<StreamState>,
    pub(super) alpn: Option<String>,
    pub(super) resumed: bool,
    pub(super) peer: Option<PeerCertificate>,
    /// Certificates of the client, its own first. Empty without client certificate.
    pub(super) chain: Vec<CertificateDer<'static>>,
}

pub(super) async fn respond(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    let shared = &connection.shared;
    let _guard = PanicGuard(shared);
    // Taken before the request is counted: a fault that a test adds in response to the count is for the next request.
    let fault = shared.faults().pop_front();
    let record = shared.record(connection.describe(&request));
    if let Some(fault) = fault {
        return Ok(connection.inject(fault).await);
    }
    let user = shared.settings.authenticator.authenticate(&record, &connection.chain);
    let response = match &user {
        Ok(user) => {
            let context = RequestContext { record: record.clone(), user: user.clone() };
            shared.settings.handler.handle(request, context).await
        }
        Err(_) => StatusError::Unauthorized.into_response(),
    };
    if let Some(log) = &shared.settings.log {
        log(&ResponseRecord {
            request: &record,
            user: user.as_ref().map_err(|failure| *failure),
            status: response.status(),
        });
    }
    Ok(response)
}

impl Connection {
    fn describe(&self, request: &Request<Incoming>) -> RecordedRequest {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        RecordedRequest {
            number: 0,
            connection: self.number,
            method: request.method().to_string(),
            path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
            headers: request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            alpn: self.alpn.clone(),
            resumed: self.resumed,
            peer: self.peer.clone(),
        }
    }

    async fn inject(&self, fault: Fault) -> Response<ResponseBody> {
        match fault {
            Fault::Status(code) => {
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                StatusError::Other(code).into_response()
            }
            Fault::Cut => {
                let _ = self.commands.send(ConnectionCommand::Cut(CutMode::Reset));
                pending().await
            }
            Fault::CutMidBody => {
                let body = TruncatedBody::new(Arc::clone(&self.stream), self.commands.clone());
                let mut response = Response::new(body.boxed_unsync());
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(TruncatedBody::ANNOUNCED));
                response
            }
            Fault::Stall => pending().await,
        }
    }
}

/// Stops the server if the request panics.
struct PanicGuard<'a>(&'a SharedState);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.send_replace(true);
        }
    }
}

/// A body that sends half of its announced length, then closes the connection.
struct TruncatedBody {
    sent: bool,
    stream: Arc<StreamState>,
    /// Count of [`StreamState::bytes_written`] at which the half has been sent.
    enough: u64,
    commands: mpsc::UnboundedSender<ConnectionCommand>,
}

impl TruncatedBody {
    /// Fits into an HTTP/2 flow-control window.
    const LENGTH: usize = 16 * 1024;

    /// The announced `Content-Length`.
    const ANNOUNCED: usize = 2 * Self::LENGTH;

    fn new(stream: Arc<StreamState>, commands: mpsc::UnboundedSender<ConnectionCommand>) -> Self {
        let enough = stream.bytes_written() + Self::LENGTH as u64;
        Self { sent: false, stream, enough, commands }
    }
}

impl Body for TruncatedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.sent {
            self.sent = true;
            return Poll::Ready(Some(Ok(Frame::data(vec![b'x'; Self::LENGTH].into()))));
        }
        ready!(self.stream.poll_written(self.enough, cx));
        let _ = self.commands.send(ConnectionCommand::Cut(CutMode::Close));
        Poll::Pending
    }
}
