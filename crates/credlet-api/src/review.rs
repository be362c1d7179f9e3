//! `authentication.k8s.io`: asking an API server whom it takes us for.
//!
//! ```
//! use credlet_api::review::{SelfSubjectReview, UserInfo};
//!
//! let version = SelfSubjectReview::VERSIONS[0];
//! assert_eq!(version.path(), "/apis/authentication.k8s.io/v1/selfsubjectreviews");
//!
//! let answer = br#"{"kind":"SelfSubjectReview","status":{"userInfo":{"username":"ada","groups":["devs"]}}}"#;
//! assert_eq!(UserInfo::decode(answer).unwrap().username, "ada");
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A version in which an API server can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfSubjectReview(&'static str);

impl SelfSubjectReview {
    /// The newest first. Servers before Kubernetes 1.28 know only the second.
    pub const VERSIONS: [Self; 2] = [Self("v1"), Self("v1beta1")];

    /// Where to send the question.
    pub fn path(self) -> String {
        format!("/apis/authentication.k8s.io/{}/selfsubjectreviews", self.0)
    }

    /// The question, as JSON.
    pub fn question(self) -> String {
        format!(r#"{{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/{}"}}"#, self.0)
    }
}

/// Whom the server takes somebody for. Foreign text: make it [visible](crate::visible) first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The name.
    pub username: String,
    /// A number or text that tells namesakes apart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whatever else the authenticator knows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Reads the answer to [`SelfSubjectReview::question`]. `None`: it is no such answer.
    pub fn decode(answer: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Review {
            status: Status,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            user_info: UserInfo,
        }

        serde_json::from_slice::<Review>(answer).ok().map(|review| review.status.user_info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_server_knows_is_read() {
        let answer = br#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"status":
            {"userInfo":{"username":"ada","uid":"7","groups":["a","b"],"extra":{"k":["v"]},"new":1}}}"#;
        let user = UserInfo::decode(answer).unwrap();
        assert_eq!((user.username.as_str(), user.uid.as_str(), user.groups.len()), ("ada", "7", 2));
        assert_eq!(user.extra["k"], ["v"]);
    }

    #[test]
    fn another_answer_is_none() {
        for answer in ["", "ok", "{}", r#"{"status":"Failure"}"#, r#"{"status":{"userInfo":5}}"#] {
            assert_eq!(UserInfo::decode(answer.as_bytes()), None, "{answer}");
        }
    }
}
