//! Version and discovery documents.

use serde_json::{Value, json};

pub(super) const REVIEWS: &str = "authentication.k8s.io";

/// Version of Kubernetes that the server states.
const KUBERNETES: &str = "v1.34.0";

/// `/version`. The name of the server is the build metadata of `gitVersion`.
pub(super) fn version(name: &str) -> Value {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    json!({
        "major": "1",
        "minor": "34",
        "gitVersion": format!("{KUBERNETES}+{name}-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

pub(super) fn paths(_: &str) -> Value {
    json!({
        "paths": [
            "/api",
            "/api/v1",
            "/apis",
            "/apis/authentication.k8s.io",
            "/apis/authentication.k8s.io/v1",
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ],
    })
}

pub(super) fn core_versions(_: &str) -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

pub(super) fn core_resources(_: &str) -> Value {
    resources(
        "v1",
        json!({
            "name": "namespaces",
            "singularName": "namespace",
            "namespaced": false,
            "kind": "Namespace",
            "shortNames": ["ns"],
            "verbs": ["get", "list", "watch"],
        }),
    )
}

pub(super) fn groups(name: &str) -> Value {
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [group(name)] })
}

/// `/apis/authentication.k8s.io`
pub(super) fn group(_: &str) -> Value {
    let version = json!({ "groupVersion": "authentication.k8s.io/v1", "version": "v1" });
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": REVIEWS,
        "versions": [version],
        "preferredVersion": version,
    })
}

/// `/apis/authentication.k8s.io/v1`
pub(super) fn review_resources(_: &str) -> Value {
    resources(
        "authentication.k8s.io/v1",
        json!({
            "name": "selfsubjectreviews",
            "singularName": "selfsubjectreview",
            "namespaced": false,
            "kind": "SelfSubjectReview",
            "verbs": ["create"],
        }),
    )
}

/// `/openapi/v2`: an empty document for clients that require one.
pub(super) fn openapi_v2(name: &str) -> Value {
    json!({ "swagger": "2.0", "info": { "title": name, "version": KUBERNETES }, "paths": {} })
}

pub(super) fn openapi_v3(_: &str) -> Value {
    json!({ "paths": {} })
}

fn resources(group_version: &str, resource: Value) -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [resource],
    })
}
