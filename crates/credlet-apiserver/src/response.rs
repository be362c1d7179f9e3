//! Responses, and the `Status` object of an error.
//!
//! ```
//! use credlet_apiserver::response::{self, StatusError};
//! use http::StatusCode;
//!
//! let response = response::object(StatusCode::OK, &serde_json::json!({ "kind": "PodList", "apiVersion": "v1", "items": [] }));
//! assert_eq!(response.headers()["content-type"], "application/json");
//! assert_eq!(StatusError::UnknownPath.into_response().status(), 404);
//! ```

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

/// Body of a response.
pub type ResponseBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Returns a response with a JSON body.
pub fn object(code: StatusCode, object: &Value) -> Response<ResponseBody> {
    whole(code, "application/json", format!("{object}\n"))
}

/// Returns a response with a plain text body.
pub fn text(text: impl Into<String>) -> Response<ResponseBody> {
    whole(StatusCode::OK, "text/plain; charset=utf-8", text.into())
}

/// Returns a response with a streamed JSON body, for watches.
pub fn stream(body: ResponseBody) -> Response<ResponseBody> {
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
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusError {
    /// 400 with a message.
    BadRequest(String),
    /// 401.
    Unauthorized,
    /// 403 with a message.
    Forbidden(String),
    /// 404 for an unknown path.
    UnknownPath,
    /// 404 for a namespace that does not exist.
    UnknownNamespace(String),
    /// 405 with the allowed method.
    MethodNotAllowed {
        /// Value of the header `Allow`.
        allowed: &'static str,
    },
    /// 406: responses are JSON.
    NotAcceptable,
    /// 413: the body exceeds the limit.
    TooLarge,
    /// 415: only JSON and the protobuf envelope are supported.
    UnsupportedMediaType,
    /// Any status, with its canonical phrase as message and reason.
    Other(StatusCode),
}

impl StatusError {
    /// Returns the response: a `Status` object as kube-apiserver encodes it.
    pub fn into_response(self) -> Response<ResponseBody> {
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
    fn code_and_reason(&self) -> (StatusCode, String) {
        let (code, reason) = match self {
            Self::BadRequest(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::UnknownPath | Self::UnknownNamespace(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::MethodNotAllowed { .. } => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Self::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Self::Other(StatusCode::INTERNAL_SERVER_ERROR) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Self::Other(code) => return (*code, phrase(*code).replace(' ', "")),
        };
        (code, reason.to_owned())
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
            Self::Other(code) => phrase(*code).to_owned(),
        }
    }
}

fn phrase(code: StatusCode) -> &'static str {
    code.canonical_reason().unwrap_or("Unknown")
}
