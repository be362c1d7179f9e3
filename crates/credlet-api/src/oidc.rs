//! What an OpenID Connect issuer says: how it describes itself, the tokens it gives, the keys it signs them with.
//!
//! ```
//! use credlet_api::oidc::{Refreshed, discovered_token_endpoint};
//!
//! let metadata = br#"{"issuer":"https://id.example","token_endpoint":"https://id.example/token"}"#;
//! assert_eq!(discovered_token_endpoint(metadata)?, "https://id.example/token");
//!
//! let refreshed = Refreshed::decode(br#"{"id_token":"hunter2","refresh_token":"hunter3"}"#)?;
//! assert_eq!(refreshed.refresh_token.expose(), "hunter3");
//! # Ok::<(), credlet_api::Fault>(())
//! ```

mod jwt;
mod metadata;
mod tokens;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::de::MapAccess;
use serde_json::Value;
use zeroize::Zeroizing;

pub use self::jwt::{Claims, Header, Jwk, JwkSet, Jwt, SignedPart};
pub use self::metadata::Metadata;
pub use self::tokens::{DeviceAuthorization, Tokens};
use crate::wire::document::{self, Duplicates, Member, Object};
use crate::wire::fault::Fault;
use crate::{Position, Secret};

/// The path below an issuer's address at which it describes itself.
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// The `token_endpoint` of the document that an issuer serves at [`DISCOVERY_PATH`]. Empty: it names none.
///
/// # Errors
/// When it is not such a document. The issuer's operator must act.
pub fn discovered_token_endpoint(document: &[u8]) -> Result<String, Fault> {
    read::<Metadata>(document).map(|metadata| metadata.token_endpoint)
}

/// The answer to a refresh token. What is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// The new ID token. Not every issuer gives one.
    pub id_token: Secret,
    /// The refresh token for the next time, if it is another one: the old one may be worthless from now on.
    pub refresh_token: Secret,
}

impl Refreshed {
    /// Reads a token endpoint's answer.
    ///
    /// # Errors
    /// When it is not a JSON object. The issuer's operator must act.
    pub fn decode(answer: &[u8]) -> Result<Self, Fault> {
        read(answer)
    }
}

/// The code in a token endpoint's refusal, if it is one that a specification knows. An unknown one is foreign text, and
/// an issuer may have put what it refuses into it, so nothing is kept of it; nor of the description beside it.
pub fn refusal_code(answer: &[u8]) -> Option<&'static str> {
    let refusal: Refusal = read(answer).ok()?;
    known_code(&refusal.error)
}

/// The same for a code that came another way, as in a redirect.
pub fn known_code(code: &str) -> Option<&'static str> {
    // RFC 6749 section 5.2, then OpenID Connect Core section 3.1.2.6 and RFC 6749 section 4.1.2.1, then RFC 8628
    // section 3.5 and RFC 7009 section 2.2.1.
    const KNOWN: [&str; 18] = [
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "interaction_required",
        "login_required",
        "account_selection_required",
        "consent_required",
        "access_denied",
        "unsupported_response_type",
        "server_error",
        "temporarily_unavailable",
        "authorization_pending",
        "slow_down",
        "expired_token",
        "unsupported_token_type",
    ];
    KNOWN.into_iter().find(|known| *known == code)
}

/// When a token ends, by its own word: the claim `exp` of a JWT. Nothing else of it is read, and nothing is verified:
/// that is for the one who is shown it. `None`: it does not say.
pub fn expiry(token: &Secret) -> Option<Timestamp> {
    let mut parts = token.expose().split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let payload = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?);
    let seconds = read::<Expiry>(&payload).ok()?.exp?;
    Timestamp::from_second(seconds).ok()
}

/// JSON only: what looks like YAML here is somebody's web page.
fn read<O: Object>(bytes: &[u8]) -> Result<O, Fault> {
    match bytes.trim_ascii_start().first() {
        None => Err(Fault::Empty),
        Some(b'{') => document::read(bytes, Duplicates::LastWins),
        Some(_) => Err(Fault::NotAnObject { at: Position { line: 1, column: 1 } }),
    }
}

/// All strings of a list, or the one that stands in its place.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn seconds<'de, A: MapAccess<'de>>(
    value: Member<'_, A>,
    path: &'static str,
    into: &mut Option<i64>,
) -> Result<(), A::Error> {
    let mut any = None;
    value.any(path, &mut any)?;
    *into = any.as_ref().and_then(whole_seconds);
    Ok(())
}

impl Object for Refreshed {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "id_token" => value.secret("id_token", &mut self.id_token),
            "refresh_token" => value.secret("refresh_token", &mut self.refresh_token),
            _ => value.skip(),
        }
    }
}

#[derive(Default)]
struct Refusal {
    error: String,
}

impl Object for Refusal {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "error" => value.string("error", &mut self.error),
            _ => value.skip(),
        }
    }
}

#[derive(Default)]
struct Expiry {
    exp: Option<i64>,
}

impl Object for Expiry {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "exp" => seconds(value, "exp", &mut self.exp),
            _ => value.skip(),
        }
    }
}

/// Some issuers write `1.7e9`, and client-go cuts off a fraction.
fn whole_seconds(exp: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "out of range saturates, and is no time either")]
    let cut = |seconds: f64| seconds as i64;
    exp.as_i64().or_else(|| exp.as_f64().map(cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(claims: &str) -> Secret {
        Secret::new(format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims)))
    }

    #[test]
    fn the_expiry_of_a_token_is_read_as_client_go_reads_it() {
        let second = |claims: &str| expiry(&jwt(claims)).map(Timestamp::as_second);
        assert_eq!(second(r#"{"sub":"ada","exp":1700000000}"#), Some(1_700_000_000));
        assert_eq!(second(r#"{"exp":1700000000.9}"#), Some(1_700_000_000));
        assert_eq!(second(r#"{"exp":1.7e9}"#), Some(1_700_000_000));
    }

    #[test]
    fn a_token_that_does_not_say_has_no_expiry() {
        for claims in [r#"{"sub":"ada"}"#, r#"{"exp":"1700000000"}"#, r#"{"exp":null}"#, r#"{"exp":1e300}"#, "[]", ""] {
            assert_eq!(expiry(&jwt(claims)), None, "{claims}");
        }
        for token in ["", "opaque", "a.b", "a.%.c", "e30.e30.e30.e30"] {
            assert_eq!(expiry(&Secret::new(token)), None, "{token}");
        }
    }

    #[test]
    fn an_answer_that_is_no_json_object_is_told_without_its_content() {
        for answer in ["", "<html>hunter2</html>", "id_token: hunter2", r#"["hunter2"]"#, r#"{"id_token":["hunter2"]}"#]
        {
            let fault = Refreshed::decode(answer.as_bytes()).unwrap_err();
            assert!(!format!("{fault} {fault:?}").contains("hunter2"), "{fault:?}");
        }
        assert_eq!(Refreshed::decode(br#"{"access_token":"x"}"#), Ok(Refreshed::default()));
    }

    #[test]
    fn only_codes_that_a_specification_knows_are_kept() {
        assert_eq!(refusal_code(br#"{"error":"invalid_grant","error_description":"hunter2"}"#), Some("invalid_grant"));
        assert_eq!(refusal_code(br#"{"error":"hunter2"}"#), None);
        assert_eq!(refusal_code(b"<html>"), None);
    }
}
