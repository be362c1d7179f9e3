//! The default handler: version, discovery, namespaces with list and watch, and `SelfSubjectReview`.
//!
//! Enough for `kubectl get namespaces --watch`, `kubectl auth whoami`, `kubectl version` and clients that refresh credentials.
//! There is no authorization: every authenticated user may read everything, and impersonation is rejected.

mod documents;
mod namespaces;
mod query;

use std::sync::Arc;

use credlet_platform::Clock;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

pub use self::namespaces::NamespaceStore;
use self::query::{QueryParams, ResponseForm};
use crate::authn::AuthenticatedUser;
use crate::response::{self, ResponseBody, StatusError};
use crate::server::{Handler, RequestContext, ResponseFuture};

/// Request body limit of kube-apiserver.
const MAX_BODY: usize = 3 << 20;

/// A resource of the server.
enum ApiResource<'a> {
    Health,
    Document(fn(&str) -> Value),
    Namespaces,
    Namespace(&'a str),
    SelfSubjectReviews,
}

impl<'a> ApiResource<'a> {
    fn at(path: &'a str) -> Option<Self> {
        let segments: Vec<_> = path.split('/').skip(1).collect();
        Some(match *segments {
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

/// Handler that serves namespaces.
///
/// | path | response |
/// |---|---|
/// | `/readyz`, `/livez`, `/healthz` | `ok` |
/// | `/version`, `/`, `/api`, `/api/v1`, `/apis`, `/apis/authentication.k8s.io[/v1]` | version and discovery |
/// | `/api/v1/namespaces`, `/api/v1/namespaces/NAME` | objects or, by `Accept`, tables; `watch`, `fieldSelector=metadata.name=NAME` |
/// | `POST /apis/authentication.k8s.io/v1/selfsubjectreviews` | the authenticated user |
/// | `/openapi/v2`, `/openapi/v3` | empty documents |
#[derive(Clone, Debug)]
pub struct NamespaceApi {
    namespaces: NamespaceStore,
    name: Arc<str>,
}

impl NamespaceApi {
    /// Serves the namespaces of a new cluster.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_namespaces(NamespaceStore::new(clock))
    }

    /// Serves these namespaces.
    pub fn with_namespaces(namespaces: NamespaceStore) -> Self {
        Self { namespaces, name: "credlet-apiserver".into() }
    }

    /// Sets the name of the server, which appears in `/version`. Default: `credlet-apiserver`.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
}

impl Handler for NamespaceApi {
    fn handle(&self, request: Request<Incoming>, context: RequestContext) -> ResponseFuture {
        let api = self.clone();
        Box::pin(async move {
            let routed = respond(request, &context.user, &api).await;
            routed.unwrap_or_else(StatusError::into_response)
        })
    }
}

/// Returns the response to an authenticated user.
async fn respond(
    request: Request<Incoming>,
    user: &AuthenticatedUser,
    api: &NamespaceApi,
) -> Result<Response<ResponseBody>, StatusError> {
    let (parts, body) = request.into_parts();
    if let Some(wanted) = parts.headers.get("impersonate-user") {
        let (name, wanted) = (&user.name, String::from_utf8_lossy(wanted.as_bytes()));
        return Err(StatusError::Forbidden(format!(
            "users {wanted:?} is forbidden: user {name:?} cannot impersonate anybody"
        )));
    }
    let resource = ApiResource::at(parts.uri.path()).ok_or(StatusError::UnknownPath)?;
    if parts.method != resource.method() {
        return Err(StatusError::MethodNotAllowed {
            allowed: if resource.method() == Method::POST { "POST" } else { "GET" },
        });
    }
    match resource {
        ApiResource::Health => Ok(response::text("ok")),
        ApiResource::Document(document) => {
            form(&parts.headers, false)?;
            Ok(response::object(StatusCode::OK, &document(&api.name)))
        }
        ApiResource::Namespaces => {
            let (query, form) = (query(&parts), form(&parts.headers, true)?);
            if query.is_set("watch") {
                return Ok(response::stream(api.namespaces.watch(&query, form)?));
            }
            Ok(response::object(StatusCode::OK, &api.namespaces.list(&query, form)?))
        }
        ApiResource::Namespace(name) => {
            Ok(response::object(StatusCode::OK, &api.namespaces.get(name, form(&parts.headers, true)?)?))
        }
        ApiResource::SelfSubjectReviews => {
            form(&parts.headers, false)?;
            check_review(&parts.headers, body).await?;
            Ok(response::object(StatusCode::CREATED, &review(user)))
        }
    }
}

fn query(parts: &Parts) -> QueryParams {
    QueryParams::parse(parts.uri.query().unwrap_or_default())
}

fn form(headers: &HeaderMap, tables: bool) -> Result<ResponseForm, StatusError> {
    ResponseForm::from_accept(headers, tables).ok_or(StatusError::NotAcceptable)
}

/// Checks that the body is a SelfSubjectReview, the content of which does not matter.
async fn check_review(headers: &HeaderMap, body: Incoming) -> Result<(), StatusError> {
    let media_type = headers.get(CONTENT_TYPE).map_or(Ok("application/json"), |value| value.to_str());
    let media_type = media_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_review: fn(&[u8]) -> Option<bool> = match media_type {
        "application/json" => is_review_in_json,
        "application/vnd.kubernetes.protobuf" => is_review_in_protobuf,
        _ => return Err(StatusError::UnsupportedMediaType),
    };
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
        let too_large = error.downcast_ref::<LengthLimitError>().is_some();
        if too_large {
            StatusError::TooLarge
        } else {
            StatusError::BadRequest("unexpected end of the request body".into())
        }
    })?;
    match is_review(&body.to_bytes()) {
        Some(true) => Ok(()),
        Some(false) => Err(StatusError::BadRequest(
            "invalid request body: not a SelfSubjectReview of authentication.k8s.io/v1".into(),
        )),
        None => Err(StatusError::BadRequest(format!("invalid request body: not {media_type}"))),
    }
}

const KIND: &str = "SelfSubjectReview";
const API_VERSION: &str = "authentication.k8s.io/v1";

/// Returns `None` if the body is not JSON. Missing `kind` and `apiVersion` are implied by the path.
fn is_review_in_json(body: &[u8]) -> Option<bool> {
    let object: Value = serde_json::from_slice(body).ok()?;
    let matches = |field: &str, wanted: &str| object[field].as_str().is_none_or(|text| text == wanted);
    Some(object.is_object() && matches("kind", KIND) && matches("apiVersion", API_VERSION))
}

/// Checks the envelope that kubectl sends, which contains API version and kind. Returns `None` without the prefix `k8s\0`.
fn is_review_in_protobuf(body: &[u8]) -> Option<bool> {
    let envelope = body.strip_prefix(b"k8s\0")?;
    let contains = |wanted: &str| envelope.windows(wanted.len()).any(|part| part == wanted.as_bytes());
    Some(contains(KIND) && contains(API_VERSION))
}

fn review(user: &AuthenticatedUser) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if let Some(credential) = &user.credential {
        info["extra"] = json!({ "authentication.kubernetes.io/credential-id": [credential.to_string()] });
    }
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": null },
        "status": { "userInfo": info },
    })
}
