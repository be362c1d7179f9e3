//! Entry points of `fuzz/fuzz_targets` into parsers that are private otherwise. Not part of the public interface.

use credlet_api::Secret;
use credlet_api::oidc::{IdTokenClaims, JwkSet};
use jiff::Timestamp;

use super::callback_query::CallbackQuery;
use super::id_token::{self, ExpectedClaims, IdTokenError};
use super::login_record::LoginRecord;

/// Verifies an ID token.
///
/// # Errors
/// As for the verification of a login.
pub fn verify_id_token(
    token: &Secret,
    keys: &JwkSet,
    issuer: &str,
    client_id: &str,
    now: Timestamp,
) -> Result<IdTokenClaims, IdTokenError> {
    id_token::verify(token, keys, &ExpectedClaims { issuer, client_id, nonce: None, subject: None }, now)
}

/// Returns the value of a parameter in the query of a redirect.
pub fn callback_query(query: &str, name: &str) -> Option<String> {
    CallbackQuery::parse(query).value(name).map(str::to_owned)
}

/// Parses a stored login and checks its times at `now`. Returns whether its encoding parses to the same login.
pub fn record(bytes: &[u8], now: Timestamp) -> Option<bool> {
    let record = LoginRecord::decode(bytes)?;
    let _ = (record.is_fresh(now), record.is_unexpired(now), record.expiry(), record.login_cooldown(now).is_some());
    Some(LoginRecord::decode(record.encode().as_bytes())? == record)
}
