//! Tokens, and responses of token endpoints.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use credlet_testkit::logs::LeakCheck;

use super::FakeReply;

/// A new JWT that the leak check knows.
pub(crate) fn watched_jwt(watch: &LeakCheck, claims: &str) -> Secret {
    let token = signed(claims, watch.secret("signature").expose());
    watch.adopt("identity token", &token);
    Secret::new(token)
}

/// A JWT with these claims and this signature.
fn signed(claims: &str, signature: &str) -> String {
    [r#"{"alg":"RS256"}"#, claims, signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
}

/// A JWT with these claims and a fixed signature.
pub(crate) fn jwt(claims: &str) -> String {
    signed(claims, "hunter2")
}

/// A successful response of a token endpoint.
pub(crate) fn granted(token: &str) -> FakeReply {
    FakeReply::Status(200, format!(r#"{{"access_token":"{token}","expires_in":3599,"token_type":"Bearer"}}"#))
}
