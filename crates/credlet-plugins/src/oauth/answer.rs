//! What token endpoints and metadata services answer.

use credlet_api::Secret;
use credlet_api::oidc::known_code;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{AccessToken, Error};
use crate::web::{Answer, WebError};

/// Seconds, which some write as a number and some as a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seconds(Option<i64>);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[expect(clippy::cast_possible_truncation, reason = "parts of a second are dropped, and it saturates")]
        let whole = |number: &serde_json::Number| number.as_i64().or_else(|| Some(number.as_f64()? as i64));
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::Number(number) => whole(&number),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }))
    }
}

#[derive(Deserialize)]
struct Granted {
    access_token: Secret,
    #[serde(default)]
    expires_in: Seconds,
    /// Azure's: in seconds since 1970.
    #[serde(default)]
    expires_on: Seconds,
}

/// The access token in an answer to what was asked at `asked_at`. `what` it is, for the error; `hint` knows the vendor's
/// codes.
pub(crate) fn granted(
    answer: &Answer,
    what: &str,
    asked_at: Timestamp,
    hint: fn(&str) -> Option<&'static str>,
) -> Result<AccessToken, Error> {
    if !answer.status.is_success() {
        return Err(refused(answer, what, hint));
    }
    let failed = |source: WebError| Error::Web { what: what.to_owned(), source };
    let granted: Granted = answer.json().map_err(failed)?;
    if granted.access_token.is_empty() {
        return Err(failed(answer.nonsense("that has an empty token in it")));
    }
    let after = granted.expires_in.0.map(|life| asked_at.as_second().saturating_add(life));
    let ends = [after, granted.expires_on.0].into_iter().flatten().map(Timestamp::from_second);
    let ends = ends.collect::<Result<Vec<_>, _>>();
    let ends = ends.map_err(|_| failed(answer.nonsense("that has an end which is not a time")))?;
    AccessToken::new(granted.access_token, ends.into_iter().min()).current(what, asked_at)
}

/// What a refusal means.
pub(crate) fn refused(answer: &Answer, what: &str, hint: fn(&str) -> Option<&'static str>) -> Error {
    let body: Value = match answer.json() {
        Ok(body) => body,
        // Not the one who was asked.
        Err(source @ WebError::Nonsense { fault: "that is a web page instead of JSON", .. }) => {
            return Error::Web { what: what.to_owned(), source };
        }
        Err(_) => Value::Null,
    };
    let code = code(&body);
    let hint = code.as_deref().and_then(hint).or_else(|| hint(answer.status.as_str()));
    Error::Refused { host: answer.host.clone(), what: what.to_owned(), status: answer.status, code, hint }
}

/// The reason, if it is one that is known: anything else is foreign text, and may repeat what was sent.
fn code(body: &Value) -> Option<String> {
    // Google's APIs: the codes of gRPC.
    const STATUSES: [&str; 9] = [
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "NOT_FOUND",
        "INVALID_ARGUMENT",
        "FAILED_PRECONDITION",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
        "INTERNAL",
        "DEADLINE_EXCEEDED",
    ];
    // Google's logins.
    const SUBTYPES: [&str; 3] = ["invalid_rapt", "rapt_required", "invalid_user"];
    // RFC 8693 and what Entra adds to RFC 6749.
    const MORE: [&str; 3] = ["invalid_target", "invalid_resource", "identity_not_found"];
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let among = |known: &[&str], found: Option<&str>| {
        known.iter().find(|known| Some(**known) == found).map(|c| (*c).to_owned())
    };
    let entra = body.get("error_codes").and_then(|codes| codes.get(0)).and_then(Value::as_u64);
    entra
        .map(|number| format!("AADSTS{number}"))
        .or_else(|| among(&SUBTYPES, text("error_subtype")))
        .or_else(|| known_code(text("error")?).map(str::to_owned))
        .or_else(|| among(&MORE, text("error")))
        .or_else(|| among(&STATUSES, body.get("error")?.get("status")?.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_in_every_form() {
        let read = |text: &str| serde_json::from_str::<Seconds>(text).unwrap().0;
        assert_eq!([read("3599"), read("\"3599\""), read("3599.9"), read("\" 7\"")], [3599, 3599, 3599, 7].map(Some));
        assert_eq!([read("null"), read("\"soon\""), read("[1]"), read("\"\"")], [None; 4]);
    }

    #[test]
    fn only_known_reasons_are_told() {
        let told = |text: &str| code(&serde_json::from_str(text).unwrap());
        assert_eq!(told(r#"{"error":"invalid_client","error_codes":[7000215]}"#).as_deref(), Some("AADSTS7000215"));
        assert_eq!(told(r#"{"error":"invalid_grant"}"#).as_deref(), Some("invalid_grant"));
        assert_eq!(
            told(r#"{"error":"invalid_grant","error_subtype":"invalid_rapt"}"#).as_deref(),
            Some("invalid_rapt")
        );
        assert_eq!(told(r#"{"error":{"status":"PERMISSION_DENIED"}}"#).as_deref(), Some("PERMISSION_DENIED"));
        for other in [
            r#"{"error":"hunter2"}"#,
            r#"{"error":{"status":"hunter2"}}"#,
            r#"["x"]"#,
            "null",
            r#"{"error_codes":["hunter2"]}"#,
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
