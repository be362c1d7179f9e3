//! Responses of token endpoints and metadata services (RFC 6749, section 5).

use credlet_api::Secret;
use credlet_api::oidc::known_error_code;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{AccessToken, TokenError};
use credlet_http::fetch::{FetchError, FetchResponse};

/// Seconds, as a number or a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FlexibleSeconds(Option<i64>);

impl<'de> Deserialize<'de> for FlexibleSeconds {
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
struct TokenResponse {
    access_token: Secret,
    #[serde(default)]
    expires_in: FlexibleSeconds,
    /// Azure: Unix time.
    #[serde(default)]
    expires_on: FlexibleSeconds,
}

/// Parses the response to a token request that was sent at `requested_at`. `what` describes the token in errors; `hint` returns the
/// hint for an error code of the vendor.
pub(crate) fn parse_token_response(
    response: &FetchResponse,
    what: &str,
    requested_at: Timestamp,
    hint: fn(&str) -> Option<&'static str>,
) -> Result<AccessToken, TokenError> {
    if !response.status.is_success() {
        return Err(rejected(response, what, hint));
    }
    let failed = |source: FetchError| TokenError::Request { what: what.to_owned(), source };
    let token_response: TokenResponse = response.json().map_err(failed)?;
    if token_response.access_token.is_empty() {
        return Err(failed(response.invalid_response("it has an empty token")));
    }
    let after = token_response.expires_in.0.map(|life| requested_at.as_second().saturating_add(life));
    let ends = [after, token_response.expires_on.0].into_iter().flatten().map(Timestamp::from_second);
    let ends = ends.collect::<Result<Vec<_>, _>>();
    let ends = ends.map_err(|_| failed(response.invalid_response("it has an invalid expiry")))?;
    AccessToken::new(token_response.access_token, ends.into_iter().min()).ensure_valid(what, requested_at)
}

/// Converts an error response. `hint` returns the hint for an error code or a status.
pub(crate) fn rejected(response: &FetchResponse, what: &str, hint: fn(&str) -> Option<&'static str>) -> TokenError {
    let body: Value = match response.json() {
        Ok(body) => body,
        // Not the requested server, probably a proxy.
        Err(source @ FetchError::InvalidResponse { .. }) if source.is_html_response() => {
            return TokenError::Request { what: what.to_owned(), source };
        }
        Err(_) => Value::Null,
    };
    let code = code(&body);
    let hint = code.as_deref().and_then(hint).or_else(|| hint(response.status.as_str()));
    TokenError::Rejected { host: response.host.clone(), what: what.to_owned(), status: response.status, code, hint }
}

/// Returns the error code if it is a known one. Anything else is untrusted text and may repeat sent secrets.
fn code(body: &Value) -> Option<String> {
    // gRPC status codes of Google APIs.
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
    // `error_subtype` of Google logins.
    const SUBTYPES: [&str; 3] = ["invalid_rapt", "rapt_required", "invalid_user"];
    // RFC 8693, and codes that Entra ID adds to RFC 6749.
    const MORE: [&str; 3] = ["invalid_target", "invalid_resource", "identity_not_found"];
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let among = |known: &[&str], found: Option<&str>| {
        known.iter().find(|known| Some(**known) == found).map(|c| (*c).to_owned())
    };
    let entra = body.get("error_codes").and_then(|codes| codes.get(0)).and_then(Value::as_u64);
    entra
        .map(|number| format!("AADSTS{number}"))
        .or_else(|| among(&SUBTYPES, text("error_subtype")))
        .or_else(|| known_error_code(text("error")?).map(str::to_owned))
        .or_else(|| among(&MORE, text("error")))
        .or_else(|| among(&STATUSES, body.get("error")?.get("status")?.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_seconds_as_number_or_string() {
        let read = |text: &str| serde_json::from_str::<FlexibleSeconds>(text).unwrap().0;
        assert_eq!([read("3599"), read("\"3599\""), read("3599.9"), read("\" 7\"")], [3599, 3599, 3599, 7].map(Some));
        assert_eq!([read("null"), read("\"soon\""), read("[1]"), read("\"\"")], [None; 4]);
    }

    #[test]
    fn reports_only_known_error_codes() {
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
