//! `SelfSubjectReview` of `authentication.k8s.io`: the authenticated user of a request.
//!
//! ```
//! use credlet_api::review::{SelfSubjectReview, UserInfo};
//!
//! let version = SelfSubjectReview::VERSIONS[0];
//! assert_eq!(version.path(), "/apis/authentication.k8s.io/v1/selfsubjectreviews");
//!
//! let response = br#"{"kind":"SelfSubjectReview","status":{"userInfo":{"username":"ada","groups":["devs"]}}}"#;
//! assert_eq!(UserInfo::decode(response).unwrap().username, "ada");
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A version of the `SelfSubjectReview` API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfSubjectReview(&'static str);

impl SelfSubjectReview {
    /// All versions, newest first. Servers before Kubernetes 1.28 support the second one only.
    pub const VERSIONS: [Self; 2] = [Self("v1"), Self("v1beta1")];

    /// Returns the path of the resource.
    pub fn path(self) -> String {
        format!("/apis/authentication.k8s.io/{}/selfsubjectreviews", self.0)
    }

    /// Returns the body of the `POST` request.
    pub fn body(self) -> String {
        format!(r#"{{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/{}"}}"#, self.0)
    }
}

/// The authenticated user. Untrusted text: escape it with [`escape_line`](crate::escape_line).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// User name as the API server maps it, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub username: String,
    /// Unique identifier. Empty unless the authenticator provides one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Groups of the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Extra attributes from the authenticator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Decodes the response to a [`SelfSubjectReview`]. Returns `None` for any other document.
    pub fn decode(response: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Review {
            status: Status,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            user_info: UserInfo,
        }

        serde_json::from_slice::<Review>(response).ok().map(|review| review.status.user_info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_all_fields() {
        let response = br#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"status":
            {"userInfo":{"username":"ada","uid":"7","groups":["a","b"],"extra":{"k":["v"]},"new":1}}}"#;
        let user = UserInfo::decode(response).unwrap();
        assert_eq!((user.username.as_str(), user.uid.as_str(), user.groups.len()), ("ada", "7", 2));
        assert_eq!(user.extra["k"], ["v"]);
    }

    #[test]
    fn rejects_other_documents() {
        for response in ["", "ok", "{}", r#"{"status":"Failure"}"#, r#"{"status":{"userInfo":5}}"#] {
            assert_eq!(UserInfo::decode(response.as_bytes()), None, "{response}");
        }
    }
}
