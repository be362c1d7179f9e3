//! A JSON web token: header, claims and expiry.

#![no_main]

use credlet_api::{Secret, oidc};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let token = Secret::new(text);
    let expiry = oidc::jwt_expiry(&token);
    let Some(jwt) = oidc::Jwt::parse(&token) else { return };
    assert!(text.as_bytes().starts_with(jwt.signed.as_bytes()));
    let _ = jwt.claims.account();
    if let (Some(at), Some(seconds)) = (expiry, jwt.claims.exp) {
        assert_eq!(at.as_second(), seconds);
    }
});
