//! What an API server is asked about pods and their service accounts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Secret;
use crate::wire::json;

/// A service account, as far as providers may know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountObject {
    /// Its unique identifier.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl AccountObject {
    /// Where it is.
    pub fn path(namespace: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
    }

    /// Reads a `ServiceAccount`. `None`: it is none.
    pub fn decode(answer: &[u8]) -> Option<Self> {
        let Object { metadata, .. } = serde_json::from_slice(answer).ok()?;
        Some(Self { uid: metadata.uid, annotations: metadata.annotations.unwrap_or_default() })
    }
}

/// A pod, as far as providers may know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodObject {
    /// Its unique identifier.
    pub uid: String,
    /// The name of its service account.
    pub service_account_name: String,
}

impl PodObject {
    /// Where it is.
    pub fn path(namespace: &str, name: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/pods/{name}")
    }

    /// Reads a `Pod`. `None`: it is none.
    pub fn decode(answer: &[u8]) -> Option<Self> {
        let Object { metadata, spec } = serde_json::from_slice(answer).ok()?;
        Some(Self { uid: metadata.uid, service_account_name: spec.service_account_name })
    }
}

/// A wish for a token of a service account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenWish<'a> {
    /// The account's identifier: a new one of the same name gets no token.
    pub account_uid: &'a str,
    /// For whom the token is meant.
    pub audience: &'a str,
    /// The pod with whose life the token ends: its name and its identifier.
    pub pod: Option<(&'a str, &'a str)>,
}

impl TokenWish<'_> {
    /// Where to send it.
    pub fn path(namespace: &str, account: &str) -> String {
        format!("{}/token", AccountObject::path(namespace, account))
    }

    /// A `TokenRequest`, as JSON.
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

    /// Reads the answer. `None`: there is no token in it.
    pub fn token(answer: &[u8]) -> Option<Secret> {
        #[derive(Deserialize)]
        struct Granted {
            status: Status,
        }
        #[derive(Deserialize)]
        struct Status {
            token: Secret,
        }
        let Granted { status } = serde_json::from_slice(answer).ok()?;
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
    fn a_token_is_asked_for_as_the_kubelet_asks() {
        let wish = TokenWish { account_uid: "u", audience: "a", pod: Some(("p", "q")) };
        assert_eq!(
            wish.encode(),
            r#"{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"uid":"u"},"spec":{"audiences":["a"],"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"q"}}}"#
        );
        assert_eq!(TokenWish::path("ns", "sa"), "/api/v1/namespaces/ns/serviceaccounts/sa/token");
        let token = TokenWish::token(br#"{"kind":"TokenRequest","status":{"token":"t","expirationTimestamp":"x"}}"#);
        assert_eq!(token.unwrap().expose(), "t");
        assert!(TokenWish::token(br#"{"kind":"Status"}"#).is_none());
    }
}
