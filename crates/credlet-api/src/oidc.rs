//! Documents of OpenID Connect: provider metadata, token responses, JSON web tokens and keys. Nothing is verified here.
//!
//! ```
//! use credlet_api::oidc::{ProviderMetadata, TokenResponse};
//!
//! let metadata = br#"{"issuer":"https://id.example","token_endpoint":"https://id.example/token"}"#;
//! assert_eq!(ProviderMetadata::decode(metadata)?.token_endpoint, "https://id.example/token");
//!
//! let refreshed = TokenResponse::decode(br#"{"id_token":"hunter2","refresh_token":"hunter3"}"#)?;
//! assert_eq!(refreshed.refresh_token.expose(), "hunter3");
//! # Ok::<(), credlet_api::DocumentError>(())
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

pub use self::jwt::{IdTokenClaims, Jwk, JwkSet, Jwt, JwtHeader, SigningInput};
pub use self::metadata::ProviderMetadata;
pub use self::tokens::{DeviceAuthorization, TokenResponse};
use crate::wire::document::{self, DecodeObject, DuplicateKeys, MemberValue, decode_object};
use crate::wire::error::DocumentError;
use crate::{Position, Secret};

/// Path of the provider metadata below the issuer URL (OpenID Connect Discovery).
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// Returns the `error` of a token endpoint's error response, if it is a registered code. Unknown codes and
/// `error_description` are discarded, because an issuer may repeat the rejected secret in them.
pub fn token_error_code(body: &[u8]) -> Option<&'static str> {
    let response: ErrorResponse = read(body).ok()?;
    known_error_code(&response.error)
}

/// Returns the static text of a registered error code, as in the parameters of a redirect.
pub fn known_error_code(code: &str) -> Option<&'static str> {
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

/// Returns the claim `exp` of a JSON web token without verifying it. Returns `None` for other tokens, and without the
/// claim.
pub fn jwt_expiry(token: &Secret) -> Option<Timestamp> {
    let mut parts = token.expose().split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let payload = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?);
    let seconds = read::<ExpiryClaim>(&payload).ok()?.exp?;
    Timestamp::from_second(seconds).ok()
}

/// Decodes a JSON object. Anything else, such as an HTML page, must not be decoded as YAML.
fn read<O: DecodeObject>(bytes: &[u8]) -> Result<O, DocumentError> {
    match bytes.trim_ascii_start().first() {
        None => Err(DocumentError::Empty),
        Some(b'{') => document::read(bytes, DuplicateKeys::LastWins),
        Some(_) => Err(DocumentError::NotAnObject { at: Position { line: 1, column: 1 } }),
    }
}

impl<'de, A: MapAccess<'de>> MemberValue<'_, A> {
    /// Decodes the strings of a list, or a single string as a list.
    fn string_or_list(self, path: &'static str, into: &mut Vec<String>) -> Result<(), A::Error> {
        let mut any = None;
        self.any(path, &mut any)?;
        *into = match any {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        Ok(())
    }

    /// Decodes a number of seconds; a value of another type is ignored.
    fn seconds(self, path: &'static str, into: &mut Option<i64>) -> Result<(), A::Error> {
        let mut any = None;
        self.any(path, &mut any)?;
        *into = any.as_ref().and_then(whole_seconds);
        Ok(())
    }

    /// Decodes text; a value of another type is ignored.
    fn text_or_ignored(self, path: &'static str, into: &mut String) -> Result<(), A::Error> {
        let mut any = None;
        self.any(path, &mut any)?;
        any.as_ref().and_then(Value::as_str).unwrap_or_default().clone_into(into);
        Ok(())
    }
}

#[derive(Default)]
struct ErrorResponse {
    error: String,
}

decode_object! { ErrorResponse, "",
    "error" => string(error),
}

#[derive(Default)]
struct ExpiryClaim {
    exp: Option<i64>,
}

decode_object! { ExpiryClaim, "",
    "exp" => seconds(exp),
}

/// Truncates to whole seconds, as client-go does. Some issuers write `1.7e9`.
fn whole_seconds(exp: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a value out of range saturates and is rejected as a time")]
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
    fn jwt_expiry_truncates_as_client_go() {
        let second = |claims: &str| jwt_expiry(&jwt(claims)).map(Timestamp::as_second);
        assert_eq!(second(r#"{"sub":"ada","exp":1700000000}"#), Some(1_700_000_000));
        assert_eq!(second(r#"{"exp":1700000000.9}"#), Some(1_700_000_000));
        assert_eq!(second(r#"{"exp":1.7e9}"#), Some(1_700_000_000));
    }

    #[test]
    fn jwt_expiry_requires_a_numeric_claim() {
        for claims in [r#"{"sub":"ada"}"#, r#"{"exp":"1700000000"}"#, r#"{"exp":null}"#, r#"{"exp":1e300}"#, "[]", ""] {
            assert_eq!(jwt_expiry(&jwt(claims)), None, "{claims}");
        }
        for token in ["", "opaque", "a.b", "a.%.c", "e30.e30.e30.e30"] {
            assert_eq!(jwt_expiry(&Secret::new(token)), None, "{token}");
        }
    }

    #[test]
    fn errors_quote_nothing() {
        for body in ["", "<html>hunter2</html>", "id_token: hunter2", r#"["hunter2"]"#, r#"{"id_token":["hunter2"]}"#] {
            let error = TokenResponse::decode(body.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        assert_eq!(TokenResponse::decode(br#"{"unknown":"x"}"#), Ok(TokenResponse::default()));
    }

    #[test]
    fn unknown_error_codes_are_discarded() {
        assert_eq!(
            token_error_code(br#"{"error":"invalid_grant","error_description":"hunter2"}"#),
            Some("invalid_grant")
        );
        assert_eq!(token_error_code(br#"{"error":"hunter2"}"#), None);
        assert_eq!(token_error_code(b"<html>"), None);
    }
}
