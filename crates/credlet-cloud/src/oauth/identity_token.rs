//! Identity tokens: JWTs and SAML assertions that prove an identity to a token endpoint.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use credlet_api::Secret;
use credlet_api::oidc::{Jwt, jwt_expiry};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::TokenError;

/// Maximum size of a token in bytes. Tokens of clusters and CI systems have 1 to 4 kB.
pub(crate) const TOKEN_LIMIT: u64 = 64 << 10;

/// A token of an identity provider. The constructors accept only values with the structure of such a token, so that another file
/// named by an environment variable or a kubeconfig (a private key, a password) is never sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityToken(Secret);

impl IdentityToken {
    /// Parses a signed JWT: three parts in base64url, a JSON header with `alg`, JSON claims, a signature. Surrounding whitespace is
    /// removed. The signature is not verified.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let token = Secret::new(text.trim());
        match Jwt::parse(&token) {
            _ if token.is_empty() => Err("empty"),
            _ if too_long(text) => Err("too long for a token, not sent"),
            Some(jwt) if !jwt.header.alg.is_empty() && !jwt.signature.is_empty() => Ok(Self(token)),
            _ => Err("not a JSON web token (JWT), not sent"),
        }
    }

    /// Parses a token of an RFC 8693 type: a JWT, an ID token or a SAML 2.0 assertion. Fails as
    /// [`parse`](Self::parse).
    pub(crate) fn parse_as(text: &str, token_type: &str) -> Result<Self, &'static str> {
        match token_type.strip_prefix("urn:ietf:params:oauth:token-type:") {
            Some("jwt" | "id_token") => Self::parse(text),
            Some("saml2") if !too_long(text) && is_saml(text.trim()) => Ok(Self(Secret::new(text.trim()))),
            Some("saml2") => Err("not a SAML assertion, not sent"),
            _ => Err("unsupported token type, not sent: must be jwt, id_token or saml2"),
        }
    }

    /// Reads a signed JWT from a file. `what` describes it in errors.
    ///
    /// # Errors
    /// When the file cannot be read, or has no signed JWT.
    pub fn from_file(path: &Path, what: &str) -> Result<Self, TokenError> {
        let text = super::read_text_file(path, what, TOKEN_LIMIT)?;
        let invalid = |reason| TokenError::InvalidFile { what: what.to_owned(), path: path.to_owned(), reason };
        Self::parse(&text).map_err(invalid)
    }

    /// Returns the token.
    pub fn secret(&self) -> &Secret {
        &self.0
    }

    /// Returns the token's text.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the `exp` claim.
    pub fn expires(&self) -> Option<Timestamp> {
        jwt_expiry(&self.0)
    }
}

fn too_long(text: &str) -> bool {
    u64::try_from(text.len()).is_ok_and(|length| length > TOKEN_LIMIT)
}

/// Whether the text is a SAML assertion, or a response with one, as XML or in base64.
fn is_saml(text: &str) -> bool {
    let is_xml = |xml: &str| xml.trim_start().starts_with('<') && xml.contains("Assertion") && xml.contains("SAML:2.0");
    let decoded = [STANDARD, URL_SAFE].iter().find_map(|engine| engine.decode(text).ok()).map(Zeroizing::new);
    is_xml(text) || decoded.is_some_and(|bytes| std::str::from_utf8(&bytes).is_ok_and(is_xml))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
    const SAML: &str = "urn:ietf:params:oauth:token-type:saml2";

    fn jwt(header: &str, claims: &str, signature: &str) -> String {
        [header, claims, signature].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".")
    }

    #[test]
    fn accepts_only_signed_jwts() {
        let good = jwt(r#"{"alg":"RS256"}"#, r#"{"sub":"a","exp":1}"#, "signature");
        let token = IdentityToken::parse(&format!(" {good}\n")).unwrap();
        assert_eq!((token.expose(), token.expires()), (&*good, Timestamp::from_second(1).ok()));
        for bad in [
            jwt("{}", "{}", "signature"),
            jwt(r#"{"alg":""}"#, "{}", "signature"),
            jwt(r#"{"alg":"none"}"#, "{}", ""),
            jwt(r#"{"alg":"RS256"}"#, "[]", "signature"),
            jwt("alg", "{}", "signature"),
            format!("{good}.{good}"),
            format!("{good}\n{good}"),
            format!("{good} aws_secret_access_key"),
            "ya29.a0AfH6SMBx.y".to_owned(),
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----\n".to_owned(),
            "hvs.CAESIJ".to_owned(),
            " \n".to_owned(),
            jwt(r#"{"alg":"RS256"}"#, &format!(r#"{{"x":"{}"}}"#, "x".repeat(64 << 10)), "signature"),
        ] {
            assert!(IdentityToken::parse(&bad).is_err(), "{bad:.80}");
            assert!(IdentityToken::parse_as(&bad, JWT).is_err() && IdentityToken::parse_as(&bad, SAML).is_err());
        }
    }

    #[test]
    fn parses_by_configured_type() {
        let assertion = r#"<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">…</saml:Assertion>"#;
        for text in [assertion.to_owned(), STANDARD.encode(assertion), URL_SAFE.encode(assertion)] {
            assert!(IdentityToken::parse_as(&text, SAML).is_ok() && IdentityToken::parse_as(&text, JWT).is_err());
        }
        let good = jwt(r#"{"alg":"RS256"}"#, "{}", "signature");
        assert!(IdentityToken::parse_as(&good, "urn:ietf:params:oauth:token-type:id_token").is_ok());
        for other in ["urn:ietf:params:oauth:token-type:access_token", "jwt", "", SAML] {
            assert!(IdentityToken::parse_as(&good, other).is_err(), "{other}");
        }
        for file in ["<settings><password>x</password></settings>", "PHNldHRpbmdzLz4="] {
            assert!(IdentityToken::parse_as(file, SAML).is_err(), "{file}");
        }
    }
}
