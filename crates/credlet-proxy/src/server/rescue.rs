//! What a client is told when its request does not come back with an answer of the API server's.

use std::error::Error as _;

use credlet_api::status::Status;
use credlet_client::conn;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::stack::Reply;
use crate::sign::SignError;

/// On every answer that is ours and not the API server's, with a word that programs can tell them apart by.
pub(super) const ERROR: HeaderName = HeaderName::from_static("exec-proxy-error");

/// Why a request was not answered by the API server.
#[derive(Debug)]
pub(super) struct Trouble {
    code: StatusCode,
    class: &'static str,
    reason: &'static str,
    message: String,
}

impl Trouble {
    fn new(code: StatusCode, class: &'static str, message: impl Into<String>) -> Self {
        // The reasons are Kubernetes' own; it has none for a gateway.
        let reason = match code {
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            StatusCode::GATEWAY_TIMEOUT => "Timeout",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            code if code.is_client_error() => "BadRequest",
            _ => "InternalError",
        };
        Self { code, class, reason, message: message.into() }
    }

    /// The request is for another server than the one this proxy is for.
    pub(super) fn other_server(asked: &str, server: &conn::Server) -> Self {
        let message = format!("this proxy is for {server}, not for {}", credlet_api::visible(asked));
        Self::new(StatusCode::MISDIRECTED_REQUEST, "other-server", message)
    }

    /// The client has its certificate from another proxy of this port.
    pub(super) fn other_proxy() -> Self {
        let message = "the proxy that gave out this client's certificate is gone: let the plugin be run again";
        Self::new(StatusCode::UNAUTHORIZED, "other-proxy", message)
    }

    pub(super) fn no_tunnels() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "connect", "this proxy passes on requests and makes no tunnels")
    }

    /// A tunnel is wanted to another server than the one this proxy is for.
    pub(super) fn no_way(asked: &str, server: &conn::Server) -> Self {
        let message = format!("this proxy leads to {server}, not to {}", credlet_api::visible(asked));
        Self::new(StatusCode::FORBIDDEN, "other-server", message)
    }

    /// At a port that is taken for an HTTP proxy.
    pub(super) fn only_tunnels(server: &conn::Server) -> Self {
        let message = format!("at this port there is a way to {server} by CONNECT, and nothing else");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "connect", message)
    }

    pub(super) fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", "the head of the request took too long")
    }

    /// A policy of the proxy's own is against it.
    pub(super) fn forbidden(message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "policy", message)
    }

    pub(super) fn malformed(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    pub(super) fn too_large(max: usize) -> Self {
        let message = format!("a request that is to be signed may have a body of at most {max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    pub(super) fn large_head(max: u32) -> Self {
        let message = format!("the headers of a request may have {max} bytes together");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too-large", message)
    }

    pub(super) fn too_many() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "this proxy has too many requests in flight")
    }

    /// Nobody here could speak that protocol.
    pub(super) fn unasked_upgrade() -> Self {
        let message = "the API server changed to another protocol, which nobody had asked it to";
        Self::new(StatusCode::BAD_GATEWAY, "broken", message)
    }

    pub(super) fn unreadable() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "body", "the body of the request broke off")
    }

    /// As an answer. It is a `401` only where the client's credential for this very hop is meant: it will take the
    /// credential for a bad one, and run its plugin again.
    pub(super) fn answer(self) -> Response<Reply> {
        let status = Status::new(self.code.as_u16(), self.reason, self.message);
        let mut response = Response::new(Reply::whole(status.encode()));
        *response.status_mut() = self.code;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(ERROR, HeaderValue::from_static(self.class));
        response
    }

    /// The same as bytes, for where no HTTP library speaks: before a tunnel. It is the last answer on its connection.
    pub(super) fn written(self) -> Vec<u8> {
        let body = Status::new(self.code.as_u16(), self.reason, self.message).encode();
        let allow = if self.code == StatusCode::METHOD_NOT_ALLOWED { "allow: CONNECT\r\n" } else { "" };
        let (code, class, length) = (self.code, self.class, body.len());
        let head = format!(
            "HTTP/1.1 {code}\r\ncontent-type: application/json\r\n{ERROR}: {class}\r\n{allow}content-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        [head, body].concat().into_bytes()
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> StatusCode {
        self.code
    }
}

impl From<SignError> for Trouble {
    fn from(error: SignError) -> Self {
        let (code, class) = match error {
            SignError::Person { .. } => (StatusCode::GATEWAY_TIMEOUT, "person"),
            SignError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "signer"),
            SignError::Misconfigured { .. } => (StatusCode::BAD_GATEWAY, "configuration"),
        };
        Self::new(code, class, error.to_string())
    }
}

impl From<conn::Error> for Trouble {
    fn from(error: conn::Error) -> Self {
        use conn::Error as E;
        let (code, class) = match &error {
            E::Server { .. } | E::ProxyUrl { .. } | E::Roots { .. } | E::Identity { .. } => {
                (StatusCode::BAD_GATEWAY, "configuration")
            }
            E::OtherServer { .. } => (StatusCode::MISDIRECTED_REQUEST, "other-server"),
            E::RequestBody { .. } => (StatusCode::BAD_REQUEST, "body"),
            E::Unreachable { .. } => (StatusCode::BAD_GATEWAY, "unreachable"),
            E::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            E::ProxyRefused { .. } => (StatusCode::BAD_GATEWAY, "proxy"),
            E::Certificate { .. } | E::Handshake { .. } => (StatusCode::BAD_GATEWAY, "tls"),
            E::Rotated { .. } | E::Stopped { .. } => (StatusCode::SERVICE_UNAVAILABLE, "rotated"),
            _ => (StatusCode::BAD_GATEWAY, "broken"),
        };
        // The system's own word for why nothing is there is worth having; it is in the cause.
        let message = match (&error, error.source()) {
            (E::Unreachable { .. }, Some(cause)) => format!("{error}: {cause}"),
            _ => error.to_string(),
        };
        Self::new(code, class, message)
    }
}
