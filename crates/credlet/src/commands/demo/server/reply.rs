//! Answers, and the `Status` that goes with a no.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

/// What an answer's body is sent as.
pub(super) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// An object, or whatever else is JSON.
pub(super) fn object(code: StatusCode, object: &Value) -> Response<Body> {
    whole(code, "application/json", format!("{object}\n"))
}

pub(super) fn text(text: &'static str) -> Response<Body> {
    whole(StatusCode::OK, "text/plain; charset=utf-8", text.to_owned())
}

/// A body that is made while it is sent.
pub(super) fn stream(body: Body) -> Response<Body> {
    with_headers(StatusCode::OK, "application/json", body)
}

fn whole(code: StatusCode, media_type: &'static str, text: String) -> Response<Body> {
    with_headers(code, media_type, Full::new(Bytes::from(text)).boxed_unsync())
}

fn with_headers(code: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A no.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum No {
    /// 400, and what is wrong.
    BadRequest(String),
    Unauthorized,
    /// 403, and who may not do what.
    Forbidden(String),
    /// 404: there is no such path.
    UnknownPath,
    /// 404: the path is right, but there is no namespace of this name.
    UnknownNamespace(String),
    /// 405, and what could be done instead.
    MethodNotAllowed {
        allowed: &'static str,
    },
    /// 406: we speak JSON.
    NotAcceptable,
    /// 413
    TooLarge,
    /// 415: we read JSON, and of protobuf what little is needed.
    UnsupportedMediaType,
}

impl No {
    pub(super) fn reply(&self) -> Response<Body> {
        let (code, reason) = self.code_and_reason();
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message(),
            "reason": reason,
            "details": match self {
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

    /// Machines go by the reason; there is one for each code.
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
            Self::NotAcceptable => "only application/json is spoken here".into(),
            Self::TooLarge => "the request is larger than 3 MiB".into(),
            Self::UnsupportedMediaType => {
                "only application/json and application/vnd.kubernetes.protobuf are read here".into()
            }
        }
    }
}
