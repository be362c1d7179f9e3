use serde::de::{Deserialize, Deserializer, Error as _, MapAccess};
use serde::ser::{Serialize, Serializer};

use super::decode::{TypeMeta, WireDocument};
use super::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus};
use crate::wire::document::{self, DecodeObject, MemberValue};

/// The object of `client.authentication.k8s.io`: a client passes it to an exec plugin with a `spec`, and the plugin
/// prints it with a `status`.
///
/// It implements the traits of serde, with `apiVersion` and `kind` as in Kubernetes. Clients and plugins need the
/// stricter [`ExecCredentialStatus::decode`] and [`ExecInfo::decode`](super::ExecInfo::decode), which report positions
/// and validate the credential, and the `encode` methods, which wipe the buffer.
///
/// The format is JSON: use `serde_json`, also as an intermediate step for other formats.
///
/// ```
/// use credlet_api::exec::{ApiVersion, ExecCredential, ExecCredentialStatus};
///
/// let text = r#"{
///     "apiVersion": "client.authentication.k8s.io/v1",
///     "kind": "ExecCredential",
///     "status": {"token": "hunter2", "expirationTimestamp": "2030-01-02T03:04:05Z"}
/// }"#;
/// let credential: ExecCredential = serde_json::from_str(text)?;
/// assert_eq!(credential.api_version, ApiVersion::V1);
/// let status = credential.status.clone().unwrap_or_default();
/// assert_eq!(status.token.expose(), "hunter2");
/// assert!(!format!("{credential:?}").contains("hunter2"));
///
/// // The same document as `encode` writes, which adds the final newline.
/// let printed = status.encode(ApiVersion::V1);
/// assert_eq!(serde_json::to_string(&credential)? + "\n", *printed);
///
/// let status = Some(ExecCredentialStatus::token("t"));
/// let credential = ExecCredential { status, ..ExecCredential::new(ApiVersion::V1beta1) };
/// assert_eq!(serde_json::to_value(&credential)?["kind"], ExecCredential::KIND);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExecCredential {
    /// Version of the document. It selects the fields of `spec` that are written and read.
    pub api_version: ApiVersion,
    /// Set by the client.
    pub spec: Option<ExecCredentialSpec>,
    /// Set by the plugin.
    pub status: Option<ExecCredentialStatus>,
}

impl ExecCredential {
    /// Value of `kind`.
    pub const KIND: &str = "ExecCredential";

    /// Returns a document without `spec` and `status`.
    pub fn new(api_version: ApiVersion) -> Self {
        Self { api_version, spec: None, status: None }
    }
}

impl Serialize for ExecCredential {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        super::encode::WireDocument::from(self).serialize(serializer)
    }
}

/// Reads all three versions. An error names the field and never quotes a value. The draft form of v1alpha1, without
/// `status`, is read by [`ExecCredentialStatus::decode`] only.
impl<'de> Deserialize<'de> for ExecCredential {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default)]
        struct WireCredential {
            meta: TypeMeta,
            document: WireDocument,
        }

        impl DecodeObject for WireCredential {
            fn decode_member<'de, A: MapAccess<'de>>(
                &mut self,
                name: &str,
                value: MemberValue<'_, A>,
            ) -> Result<(), A::Error> {
                if TypeMeta::has_member(name) {
                    self.meta.decode_member(name, value)
                } else {
                    self.document.decode_member(name, value)
                }
            }
        }

        let WireCredential { meta, document } = document::deserialize(deserializer)?;
        let api_version = meta.version().map_err(D::Error::custom)?;
        let (spec, status) = document.into_parts(api_version);
        Ok(Self { api_version, spec, status })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::exec::{Cluster, ExecInfo, FailedResponse, ProxyConfig, RawExtension};

    fn full_spec() -> ExecCredentialSpec {
        let config = RawExtension::from_json(r#"{"b":1.0,"a":[12345678901234567890123]}"#).unwrap();
        ExecCredentialSpec {
            cluster: Some(Cluster {
                server: "https://h".into(),
                certificate_authority_data: b"PEM".to_vec(),
                proxy_url: "http://u:hunter2@p:1".into(),
                config: Some(config),
                ..Cluster::default()
            }),
            interactive: true,
            response: Some(FailedResponse {
                code: 401,
                header: BTreeMap::from([("Www-Authenticate".into(), vec!["x".into()])]),
            }),
            lock_file_path: Some("/run/lock".into()),
        }
    }

    #[test]
    fn serialises_as_the_encoders() {
        for api_version in ApiVersion::ALL {
            let spec = full_spec();
            let credential = ExecCredential { spec: Some(spec.clone()), ..ExecCredential::new(api_version) };
            let text = serde_json::to_string(&credential).unwrap();
            assert_eq!(text.clone() + "\n", spec.encode(api_version));
            let info = ExecInfo::decode(text.as_bytes()).unwrap();
            assert_eq!(serde_json::from_str::<ExecCredential>(&text).unwrap().spec, Some(info.spec));

            let proxy_config =
                Some(ProxyConfig { url: "unix:///s".into(), certificate_authority_data: b"PEM".to_vec() });
            let status = ExecCredentialStatus { proxy_config, ..ExecCredentialStatus::token("t") }
                .with_expiration("2030-01-02T03:04:05Z".parse().unwrap());
            let credential = ExecCredential { status: Some(status.clone()), ..ExecCredential::new(api_version) };
            let text = serde_json::to_string(&credential).unwrap();
            assert_eq!(text.clone() + "\n", *status.encode(api_version));
            assert_eq!(serde_json::from_str::<ExecCredential>(&text).unwrap(), credential);
            let value = serde_json::to_value(&credential).unwrap();
            assert_eq!(serde_json::from_value::<ExecCredential>(value).unwrap(), credential);
        }
    }

    #[test]
    fn parts_round_trip_as_in_v1() {
        let spec = ExecCredentialSpec { response: None, ..full_spec() };
        let text = serde_json::to_string(&spec).unwrap();
        assert!(text.contains(r#""config":{"b":1.0,"a":[12345678901234567890123]}"#), "{text}");
        assert_eq!(serde_json::from_str::<ExecCredentialSpec>(&text).unwrap(), spec);
        let response = full_spec().response.unwrap();
        let text = serde_json::to_string(&response).unwrap();
        assert_eq!(serde_json::from_str::<FailedResponse>(&text).unwrap(), response);
        assert_eq!(serde_json::to_string(&ApiVersion::V1).unwrap(), "\"client.authentication.k8s.io/v1\"");
        assert!(serde_json::from_str::<ApiVersion>("\"v1\"").is_err());
    }

    #[test]
    fn errors_name_the_field_only() {
        let head = r#""apiVersion":"client.authentication.k8s.io/v1""#;
        for (text, expected) in [
            (format!(r#"{{{head},"status":{{"token":["hunter2"]}}}}"#), "`status.token`"),
            (format!(r#"{{{head},"status":"hunter2"}}"#), "`status`"),
            (format!(r#"{{{head},"spec":{{"cluster":"hunter2"}}}}"#), "`spec.cluster`"),
            (r#"{"status":{"token":"hunter2"}}"#.to_owned(), "missing apiVersion"),
            (format!(r#"{{{head},"kind":"hunter2 "}}"#), "not an ExecCredential"),
            (r#""hunter2""#.to_owned(), "object"),
        ] {
            let error = serde_json::from_str::<ExecCredential>(&text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
