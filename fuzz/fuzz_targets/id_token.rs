//! An ID token for an issuer with three keys: only signed tokens are accepted.

#![no_main]

use std::sync::OnceLock;

use credlet_api::Secret;
use credlet_api::oidc::JwkSet;
use credlet_oidc::fuzzing::verify_id_token;
use jiff::Timestamp;

/// An Ed25519, a P-256 and an RSA key. Their private halves were not kept.
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"-tSBacS-yXOo6QY8T82XMmrJpSbw5XOXKk_csL9Xk1M"},{"kty":"EC","crv":"P-256","x":"FDEvCs4YKRv3yOVymtjkQ4KV4v7YXgtCBSDw__qPagQ","y":"_SnYEQxytsxnLzZRTFGLEpBMk29oZKD3u0us89SqReg"},{"kty":"RSA","n":"vQTeI1o05pWJ6yAy78fMLtfzFebtp01UiRKaGDNLlHN0MzMgPKILccHZ7HUW574ZlfJO2pO4b3Ud4gn7n4GDPlTtODA1ziDiWUnntCL8JT1zcEdUBY1Fibi6GjVb4w-3d2nqR4VdHNKstLgXwIDw4VJO7PEi_koiVUFVqkS80B_xzvcoItMlsZDhbtg_aOhz2wE1XIrsPHmpODNB9XHrizQvrgRlCt90K3Ah0qRHmX1S72CyPIdA31fnk7BElAVGWju-86fJnZ_qqNVOLL4s-jBK7_2HZlLrRhSxLVxZVYeKguXYB2JGGJXItscpm5Wm8sGYiS9C8DS6pwP3AFCmnQ","e":"AQAB"}]}"#;

/// What those keys have signed: `alg` EdDSA, ES256 and RS256 with the same claims.
const SIGNED: [&str; 3] = [
    "eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJodHRwczovL2lkIiwiYXVkIjoia3ViZSIsImV4cCI6MjAwMCwic3ViIjoiMSJ9",
    "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkIiwiYXVkIjoia3ViZSIsImV4cCI6MjAwMCwic3ViIjoiMSJ9",
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkIiwiYXVkIjoia3ViZSIsImV4cCI6MjAwMCwic3ViIjoiMSJ9",
];

libfuzzer_sys::fuzz_target!(|text: &str| {
    static ISSUER: OnceLock<JwkSet> = OnceLock::new();
    let keys = ISSUER.get_or_init(|| JwkSet::decode(KEYS.as_bytes()).expect("our own keys"));
    let now = Timestamp::from_second(1000).expect("a time");
    if let Ok(claims) = verify_id_token(&Secret::new(text), keys, "https://id", "kube", now) {
        assert!(text.rsplit_once('.').is_some_and(|(signed, _)| SIGNED.contains(&signed)), "{claims:?}");
    }
    // Keys of the input's own choosing: anything but a panic.
    if let Some((keys, token)) = text.split_once('\n')
        && let Ok(keys) = JwkSet::decode(keys.as_bytes())
    {
        let _ = verify_id_token(&Secret::new(token), &keys, "https://id", "kube", now);
    }
});
