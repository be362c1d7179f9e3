//! Conversion of a plugin's output to another version.

use std::fmt;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::ApiVersion;
use crate::wire::{json, timestamp};

/// Returns the output of a plugin with another `apiVersion` and `expirationTimestamp`; `None` removes the latter. All
/// other members, known or not, keep their text and order.
///
/// Returns `None` if `output` is not a JSON object with a status.
///
/// ```
/// use credlet_api::exec::{ApiVersion, rewrite_exec_credential};
///
/// let beta = br#"{"apiVersion":"client.authentication.k8s.io/v1beta1","x":1.0,"status":{"token":"t"}}"#;
/// let v1 = rewrite_exec_credential(beta, ApiVersion::V1, None).unwrap();
/// assert_eq!(&*v1, "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"x\":1.0,\"status\":{\"token\":\"t\"}}\n");
/// ```
pub fn rewrite_exec_credential(
    output: &[u8],
    version: ApiVersion,
    expiration: Option<Timestamp>,
) -> Option<Zeroizing<String>> {
    let document: RawMembers<'_> = serde_json::from_slice(output).ok()?;
    let (_, status) = document.0.iter().rfind(|(name, _)| name == "status")?;
    let status: RawMembers<'_> = serde_json::from_str(status.get()).ok()?;
    let version = json::to_string(&version.as_str());
    let expiration = expiration.map(|at| json::to_string(&timestamp::format(at)));

    // Sufficient capacity: reallocation would leave a copy of the secret in freed memory.
    let mut inner = Zeroizing::new(String::with_capacity(output.len() * 2 + 128));
    let others = status.0.iter().filter(|(name, _)| name != "expirationTimestamp");
    let others = others.map(|(name, value)| (&**name, value.get()));
    write(&mut inner, others.chain(expiration.as_deref().map(|at| ("expirationTimestamp", at))));

    let mut text = Zeroizing::new(String::with_capacity(output.len() * 2 + 256));
    let others = document.0.iter().map(|(name, value)| match &**name {
        "status" => ("status", inner.as_str()),
        // Kubernetes matches this name case-insensitively.
        name if name.eq_ignore_ascii_case("apiVersion") => (name, &*version),
        name => (name, value.get()),
    });
    write(&mut text, others);
    text.push('\n');
    Some(text)
}

fn write<'a>(into: &mut String, members: impl Iterator<Item = (&'a str, &'a str)>) {
    into.push('{');
    for (index, (name, value)) in members.enumerate() {
        into.push_str(if index == 0 { "" } else { "," });
        into.push_str(&json::to_string(&name));
        into.push(':');
        into.push_str(value);
    }
    into.push('}');
}

/// The members of an object in their order. Values are borrowed as written.
struct RawMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BETA: &str = r#"{ "kind":"ExecCredential", "apiVersion" : "client.authentication.k8s.io/v1beta1",
        "spec":{}, "status":{"expirationTimestamp":"2030-01-02T03:04:05Z","token":"t","big":12345678901234567890123},
        "more":{"b":1,"a":[1.50]} }"#;

    #[test]
    fn changes_only_version_and_expiry() {
        let at = "2029-01-02T03:04:05.9Z".parse().unwrap();
        assert_eq!(
            *rewrite_exec_credential(BETA.as_bytes(), ApiVersion::V1, Some(at)).unwrap(),
            concat!(
                r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{},"#,
                r#""status":{"token":"t","big":12345678901234567890123,"expirationTimestamp":"2029-01-02T03:04:05Z"},"#,
                r#""more":{"b":1,"a":[1.50]}}"#,
                "\n",
            )
        );
        assert!(
            !rewrite_exec_credential(BETA.as_bytes(), ApiVersion::V1, None).unwrap().contains("expirationTimestamp")
        );
    }

    #[test]
    fn returns_none_for_other_documents() {
        for output in [
            "",
            "[]",
            "apiVersion: v1\nstatus: {}",
            r#"{"apiVersion":"v1"}"#,
            r#"{"status":5}"#,
            BETA.trim_end_matches('}'),
        ] {
            assert!(rewrite_exec_credential(output.as_bytes(), ApiVersion::V1, None).is_none(), "{output}");
        }
    }
}
