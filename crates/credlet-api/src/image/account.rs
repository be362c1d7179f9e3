//! Requests to the API server for pods, service accounts and their tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::wire::json;

/// The fields of a `ServiceAccount` that providers may receive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccountObject {
    /// `metadata.uid`, which differs after the account is created anew.
    pub uid: String,
    /// `metadata.annotations`, all of them.
    pub annotations: BTreeMap<String, String>,
}

impl ServiceAccountObject {
    /// Returns the path of the object in the API.
    pub fn path(namespace: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
    }

    /// Decodes a `ServiceAccount`, or returns `None` for another response.
    pub fn decode(response: &[u8]) -> Option<Self> {
        let Object { metadata, .. } = serde_json::from_slice(response).ok()?;
        Some(Self { uid: metadata.uid, annotations: metadata.annotations.unwrap_or_default() })
    }
}

/// The fields of a `Pod` that select its service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodObject {
    /// `metadata.uid`, which tokens are bound to.
    pub uid: String,
    /// Name of the service account.
    pub service_account_name: String,
}

impl PodObject {
    /// Returns the path of the object in the API.
    pub fn path(namespace: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/pods/{name}")
    }

    /// Decodes a `Pod`, or returns `None` for another response.
    pub fn decode(response: &[u8]) -> Option<Self> {
        let Object { metadata, spec } = serde_json::from_slice(response).ok()?;
        Some(Self { uid: metadata.uid, service_account_name: spec.service_account_name })
    }
}

/// A `TokenRequest` for a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccountTokenRequest<'a> {
    /// UID of the account, so that a new account of the same name gets no token.
    pub account_uid: &'a str,
    /// Audience of the token.
    pub audience: &'a str,
    /// Name and UID of the pod that the token is bound to.
    pub pod: Option<(&'a str, &'a str)>,
}

impl ServiceAccountTokenRequest<'_> {
    /// Returns the path of the `token` subresource.
    pub fn path(namespace: &str, account: &str) -> String {
        format!("{}/token", ServiceAccountObject::path(namespace, account))
    }

    /// Returns the request body.
    pub fn encode(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Request<'a> {
            kind: &'static str,
            api_version: &'static str,
            metadata: Metadata<'a>,
            spec: Spec<'a>,
        }
        #[derive(Serialize)]
        struct Metadata<'a> {
            uid: &'a str,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec<'a> {
            audiences: [&'a str; 1],
            #[serde(skip_serializing_if = "Option::is_none")]
            bound_object_ref: Option<Bound<'a>>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Bound<'a> {
            kind: &'static str,
            api_version: &'static str,
            name: &'a str,
            uid: &'a str,
        }
        let bound_object_ref = self.pod.map(|(name, uid)| Bound { kind: "Pod", api_version: "v1", name, uid });
        json::to_string(&Request {
            kind: "TokenRequest",
            api_version: "authentication.k8s.io/v1",
            metadata: Metadata { uid: self.account_uid },
            spec: Spec { audiences: [self.audience], bound_object_ref },
        })
    }

    /// Decodes the token in the response. Returns `None` if there is none.
    pub fn token(response: &[u8]) -> Option<Secret> {
        #[derive(Deserialize)]
        struct Response {
            status: Status,
        }
        #[derive(Deserialize)]
        struct Status {
            token: Secret,
        }
        let Response { status } = serde_json::from_slice(response).ok()?;
        Some(status.token).filter(|token| !token.is_empty())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    uid: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    service_account_name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_token_request_as_the_kubelet() {
        let request = ServiceAccountTokenRequest { account_uid: "u", audience: "a", pod: Some(("p", "q")) };
        assert_eq!(
            request.encode(),
            r#"{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"uid":"u"},"spec":{"audiences":["a"],"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"q"}}}"#
        );
        assert_eq!(ServiceAccountTokenRequest::path("ns", "sa"), "/api/v1/namespaces/ns/serviceaccounts/sa/token");
        let token = ServiceAccountTokenRequest::token(
            br#"{"kind":"TokenRequest","status":{"token":"t","expirationTimestamp":"x"}}"#,
        );
        assert_eq!(token.unwrap().expose(), "t");
        assert!(ServiceAccountTokenRequest::token(br#"{"kind":"Status"}"#).is_none());
    }
}
