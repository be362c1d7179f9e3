//! Which path has which answer.

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::documents;
use super::gate::User;
use super::namespaces::Namespaces;
use super::query::{Form, Query};
use super::reply::{self, Body, No};

/// As the real one.
const MAX_BODY: usize = 3 << 20;

/// Something that has a path.
enum Resource<'a> {
    Health,
    Document(fn() -> Value),
    Namespaces,
    Namespace(&'a str),
    SelfSubjectReviews,
}

impl<'a> Resource<'a> {
    fn at(path: &'a str) -> Option<Self> {
        let words: Vec<_> = path.split('/').skip(1).collect();
        Some(match *words {
            ["readyz" | "livez" | "healthz"] => Self::Health,
            ["version"] => Self::Document(documents::version),
            [""] => Self::Document(documents::paths),
            ["api"] => Self::Document(documents::core_versions),
            ["api", "v1"] => Self::Document(documents::core_resources),
            ["api", "v1", "namespaces"] => Self::Namespaces,
            ["api", "v1", "namespaces", name] => Self::Namespace(name),
            ["apis"] => Self::Document(documents::groups),
            ["apis", documents::REVIEWS] => Self::Document(documents::group),
            ["apis", documents::REVIEWS, "v1"] => Self::Document(documents::review_resources),
            ["apis", documents::REVIEWS, "v1", "selfsubjectreviews"] => Self::SelfSubjectReviews,
            ["openapi", "v2"] => Self::Document(documents::openapi_v2),
            ["openapi", "v3"] => Self::Document(documents::openapi_v3),
            _ => return None,
        })
    }

    fn method(&self) -> Method {
        match self {
            Self::SelfSubjectReviews => Method::POST,
            _ => Method::GET,
        }
    }
}

/// The answer to somebody who was let in.
pub(super) async fn answer(
    request: Request<Incoming>,
    user: &User,
    namespaces: &Namespaces,
) -> Result<Response<Body>, No> {
    let (parts, body) = request.into_parts();
    if let Some(wanted) = parts.headers.get("impersonate-user") {
        let (name, wanted) = (&user.name, String::from_utf8_lossy(wanted.as_bytes()));
        return Err(No::Forbidden(format!("users {wanted:?} is forbidden: user {name:?} cannot impersonate anybody")));
    }
    let resource = Resource::at(parts.uri.path()).ok_or(No::UnknownPath)?;
    if parts.method != resource.method() {
        return Err(No::MethodNotAllowed { allowed: if resource.method() == Method::POST { "POST" } else { "GET" } });
    }
    match resource {
        Resource::Health => Ok(reply::text("ok")),
        Resource::Document(document) => {
            form(&parts.headers, false)?;
            Ok(reply::object(StatusCode::OK, &document()))
        }
        Resource::Namespaces => {
            let (query, form) = (query(&parts), form(&parts.headers, true)?);
            if query.is_set("watch") {
                return Ok(reply::stream(namespaces.watch(&query, form)?));
            }
            Ok(reply::object(StatusCode::OK, &namespaces.list(&query, form)?))
        }
        Resource::Namespace(name) => {
            Ok(reply::object(StatusCode::OK, &namespaces.get(name, form(&parts.headers, true)?)?))
        }
        Resource::SelfSubjectReviews => {
            form(&parts.headers, false)?;
            check_review(&parts.headers, body).await?;
            Ok(reply::object(StatusCode::CREATED, &review(user)))
        }
    }
}

fn query(parts: &Parts) -> Query {
    Query::parse(parts.uri.query().unwrap_or_default())
}

fn form(headers: &HeaderMap, tables: bool) -> Result<Form, No> {
    Form::wanted(headers, tables).ok_or(No::NotAcceptable)
}

/// A review has no content of its own, but it must be one.
async fn check_review(headers: &HeaderMap, body: Incoming) -> Result<(), No> {
    let media_type = headers.get(CONTENT_TYPE).map_or(Ok("application/json"), |value| value.to_str());
    let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_review: fn(&[u8]) -> Option<bool> = match media_type {
        "application/json" => is_review_in_json,
        "application/vnd.kubernetes.protobuf" => is_review_in_protobuf,
        _ => return Err(No::UnsupportedMediaType),
    };
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
        let too_large = error.downcast_ref::<LengthLimitError>().is_some();
        if too_large { No::TooLarge } else { No::BadRequest("the request's body ended too soon".into()) }
    })?;
    match is_review(&body.to_bytes()) {
        Some(true) => Ok(()),
        Some(false) => {
            Err(No::BadRequest("the request's body is no SelfSubjectReview of authentication.k8s.io/v1".into()))
        }
        None => Err(No::BadRequest(format!("the request's body is not {media_type}"))),
    }
}

const KIND: &str = "SelfSubjectReview";
const API_VERSION: &str = "authentication.k8s.io/v1";

/// `None`: it is not JSON. What it leaves out, the path says.
fn is_review_in_json(body: &[u8]) -> Option<bool> {
    let object: Value = serde_json::from_slice(body).ok()?;
    let says = |field: &str, wanted: &str| object[field].as_str().is_none_or(|text| text == wanted);
    Some(object.is_object() && says("kind", KIND) && says("apiVersion", API_VERSION))
}

/// As kubectl sends it: an envelope that begins with version and kind, and that is all there is to it.
fn is_review_in_protobuf(body: &[u8]) -> Option<bool> {
    let envelope = body.strip_prefix(b"k8s\0")?;
    let says = |wanted: &str| envelope.windows(wanted.len()).any(|part| part == wanted.as_bytes());
    Some(says(KIND) && says(API_VERSION))
}

fn review(user: &User) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": null },
        "status": {
            "userInfo": {
                "username": user.name,
                "groups": user.groups,
                "extra": { "authentication.kubernetes.io/credential-id": [user.credential.to_string()] },
            },
        },
    })
}
