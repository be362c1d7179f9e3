//! Responses, and the `Status` object of an error.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

/// Body of a response.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Returns a response with a JSON body.
pub(super) fn object(code: StatusCode, object: &Value) -> Response<ResponseBody> {
    whole(code, "application/json", format!("{object}\n"))
}

pub(super) fn text(text: &'static str) -> Response<ResponseBody> {
    whole(StatusCode::OK, "text/plain; charset=utf-8", text.to_owned())
}

/// Returns a response with a streamed body.
pub(super) fn stream(body: ResponseBody) -> Response<ResponseBody> {
    with_headers(StatusCode::OK, "application/json", body)
}

fn whole(code: StatusCode, media_type: &'static str, text: String) -> Response<ResponseBody> {
    with_headers(code, media_type, Full::new(Bytes::from(text)).boxed_unsync())
}

fn with_headers(code: StatusCode, media_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An error response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StatusError {
    /// 400 with a message.
    BadRequest(String),
    Unauthorized,
    /// 403 with a message.
    Forbidden(String),
    /// 404 for an unknown path.
    UnknownPath,
    /// 404 for a namespace that does not exist.
    UnknownNamespace(String),
    /// 405 with the allowed method.
    MethodNotAllowed {
        allowed: &'static str,
    },
    /// 406: responses are JSON.
    NotAcceptable,
    /// 413: the body exceeds the limit.
    TooLarge,
    /// 415: only JSON and the protobuf envelope are supported.
    UnsupportedMediaType,
}

impl StatusError {
    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let (code, reason) = self.code_and_reason();
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message(),
            "reason": reason,
            "details": match &self {
                Self::UnknownNamespace(name) => json!({ "name": name, "kind": "namespaces" }),
                _ => json!({}),
            },
            "code": code.as_u16(),
        });
        let mut response = object(code, &status);
        if let Self::MethodNotAllowed { allowed } = self {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }

    /// Returns the status code and the `reason` by which clients recognise the error.
    fn code_and_reason(&self) -> (StatusCode, &'static str) {
        match self {
            Self::BadRequest(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::UnknownPath | Self::UnknownNamespace(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::MethodNotAllowed { .. } => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::BadRequest(message) | Self::Forbidden(message) => message.clone(),
            Self::Unauthorized => "Unauthorized".into(),
            Self::UnknownPath => "the server could not find the requested resource".into(),
            Self::UnknownNamespace(name) => format!("namespaces {name:?} not found"),
            Self::MethodNotAllowed { .. } => "the server does not allow this method on the requested resource".into(),
            Self::NotAcceptable => "not acceptable: only application/json is supported".into(),
            Self::TooLarge => "the request is larger than 3 MiB".into(),
            Self::UnsupportedMediaType => {
                "unsupported media type: must be application/json or application/vnd.kubernetes.protobuf".into()
            }
        }
    }
}
