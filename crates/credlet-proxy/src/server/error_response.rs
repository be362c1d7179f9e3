//! Error responses that the proxy generates itself.

use std::error::Error as _;

use credlet_api::status::ApiStatus;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::pipeline::ProxyBody;
use crate::sign::SignError;

/// Header that marks responses of the proxy. The value is the error class, for programs.
pub(super) const ERROR_HEADER: HeaderName = HeaderName::from_static("exec-proxy-error");

/// An error that is returned to the client as a `Status` object.
#[derive(Debug)]
pub(super) struct ProxyError {
    code: StatusCode,
    class: &'static str,
    reason: &'static str,
    message: String,
}

impl ProxyError {
    fn new(code: StatusCode, class: &'static str, message: impl Into<String>) -> Self {
        // Reasons of `metav1.StatusReason`, which has none for gateway errors.
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

    /// The request names another server.
    pub(super) fn other_server(requested: &str, server: &credlet_http::ServerAddr) -> Self {
        let message = format!(
            "misdirected request: this proxy serves {server}, not {}",
            credlet_api::escape_control_chars(requested)
        );
        Self::new(StatusCode::MISDIRECTED_REQUEST, "other-server", message)
    }

    /// The client's certificate was issued by another proxy of this port.
    pub(super) fn other_proxy() -> Self {
        let message = "the proxy that issued this client certificate has exited: run the plugin again";
        Self::new(StatusCode::UNAUTHORIZED, "other-proxy", message)
    }

    pub(super) fn connect_not_supported() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "connect", "unsupported method: this proxy does not accept CONNECT")
    }

    /// A method that the Kubernetes API does not use.
    pub(super) fn unknown_method() -> Self {
        let message = "unsupported method: not part of the Kubernetes API";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", message)
    }

    /// A `CONNECT` to another server.
    pub(super) fn connect_to_other_server(requested: &str, server: &credlet_http::ServerAddr) -> Self {
        let message = format!(
            "forbidden CONNECT target: this proxy serves {server}, not {}",
            credlet_api::escape_control_chars(requested)
        );
        Self::new(StatusCode::FORBIDDEN, "other-server", message)
    }

    /// A request other than `CONNECT` to an HTTP proxy port.
    pub(super) fn connect_required(server: &credlet_http::ServerAddr) -> Self {
        let message = format!("unsupported method: this port accepts only CONNECT to {server}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "connect", message)
    }

    pub(super) fn head_timeout() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow", "timed out reading the request head")
    }

    /// A policy of this proxy rejects the request.
    pub(super) fn forbidden(message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "policy", message)
    }

    pub(super) fn malformed(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    pub(super) fn too_large(max: usize) -> Self {
        let message = format!("request body too large: at most {max} bytes can be signed");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    pub(super) fn head_too_large(max: u32) -> Self {
        let message = format!("request headers too large: at most {max} bytes are allowed");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too-large", message)
    }

    pub(super) fn too_many_requests() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests in flight")
    }

    /// The API server switched protocols without a request for it.
    pub(super) fn unexpected_upgrade() -> Self {
        let message = "unexpected protocol switch by the API server";
        Self::new(StatusCode::BAD_GATEWAY, "broken", message)
    }

    pub(super) fn body_aborted() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "body", "incomplete request body")
    }

    /// Converts the error to a response. `401` is used only for the credential of the hop to this proxy, because
    /// clients run their plugin again after it.
    pub(super) fn into_response(self) -> Response<ProxyBody> {
        let status = ApiStatus::new(self.code.as_u16(), self.reason, self.message);
        let mut response = Response::new(ProxyBody::whole(status.encode()));
        *response.status_mut() = self.code;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(ERROR_HEADER, HeaderValue::from_static(self.class));
        if self.code == StatusCode::METHOD_NOT_ALLOWED {
            // RFC 9110, section 15.5.6.
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(super::headers::ALLOWED_METHODS));
        }
        response
    }

    /// Serializes the response for HTTP/1.1, for use before a `CONNECT` tunnel. It closes the connection.
    pub(super) fn into_http1_bytes(self) -> Vec<u8> {
        let body = ApiStatus::new(self.code.as_u16(), self.reason, self.message).encode();
        let allow = if self.code == StatusCode::METHOD_NOT_ALLOWED { "allow: CONNECT\r\n" } else { "" };
        let (code, class, length) = (self.code, self.class, body.len());
        let head = format!(
            "HTTP/1.1 {code}\r\ncontent-type: application/json\r\n{ERROR_HEADER}: {class}\r\n{allow}content-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        [head, body].concat().into_bytes()
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> StatusCode {
        self.code
    }
}

impl From<SignError> for ProxyError {
    fn from(error: SignError) -> Self {
        let (code, class) = match error {
            SignError::UserActionRequired { .. } => (StatusCode::GATEWAY_TIMEOUT, "person"),
            SignError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "signer"),
            SignError::Misconfigured { .. } => (StatusCode::BAD_GATEWAY, "configuration"),
        };
        Self::new(code, class, error.to_string())
    }
}

impl From<credlet_http::HttpError> for ProxyError {
    fn from(error: credlet_http::HttpError) -> Self {
        use credlet_http::HttpError as E;
        let (code, class) = match &error {
            E::InvalidServer { .. } | E::InvalidProxy { .. } | E::TrustRoots { .. } | E::ClientCertificate { .. } => {
                (StatusCode::BAD_GATEWAY, "configuration")
            }
            E::OtherServer { .. } => (StatusCode::MISDIRECTED_REQUEST, "other-server"),
            E::RequestBody { .. } => (StatusCode::BAD_REQUEST, "body"),
            E::Unreachable { .. } => (StatusCode::BAD_GATEWAY, "unreachable"),
            E::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            E::ProxyRefused { .. } => (StatusCode::BAD_GATEWAY, "proxy"),
            E::Certificate { .. } | E::Handshake { .. } => (StatusCode::BAD_GATEWAY, "tls"),
            E::CredentialRotated { .. } | E::Canceled { .. } => (StatusCode::SERVICE_UNAVAILABLE, "rotated"),
            _ => (StatusCode::BAD_GATEWAY, "broken"),
        };
        // The source has the reason of the operating system.
        let message = match (&error, error.source()) {
            (E::Unreachable { .. }, Some(cause)) => format!("{error}: {cause}"),
            _ => error.to_string(),
        };
        Self::new(code, class, message)
    }
}
