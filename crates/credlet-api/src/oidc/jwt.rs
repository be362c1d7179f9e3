use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::read;
use crate::wire::document::{DecodeObject, MemberValue, decode_object};
use crate::{DocumentError, Secret};

/// The parts of a JSON web token (RFC 7519) in compact form. The signature is not verified.
#[derive(Clone, Debug)]
pub struct Jwt<'a> {
    /// JOSE header: algorithm and key of the signature.
    pub header: JwtHeader,
    /// Claims of an ID token.
    pub claims: IdTokenClaims,
    /// Input of the signature.
    pub signed: SigningInput<'a>,
    /// Signature, decoded from base64url.
    pub signature: Zeroizing<Vec<u8>>,
}

/// JWS signing input (RFC 7515): header and payload as encoded. `Debug` does not show it.
#[derive(Clone, Copy)]
pub struct SigningInput<'a>(&'a str);

impl SigningInput<'_> {
    /// Returns the bytes to verify.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for SigningInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<'a> Jwt<'a> {
    /// Parses a token. Returns `None` unless it has three parts in base64url, of which the first two are JSON objects.
    pub fn parse(token: &'a Secret) -> Option<Self> {
        let (signed, signature) = token.expose().rsplit_once('.')?;
        let (header, payload) = signed.split_once('.').filter(|(_, payload)| !payload.contains('.'))?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().map(Zeroizing::new);
        Some(Self {
            header: read(&part(header)?).ok()?,
            claims: read(&part(payload)?).ok()?,
            signed: SigningInput(signed),
            signature: part(signature)?,
        })
    }
}

/// JOSE header of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtHeader {
    /// Algorithm of the signature.
    pub alg: String,
    /// Key id. Empty: none.
    pub kid: String,
    /// Whether there are critical extensions (`crit`), none of which is supported.
    pub critical: bool,
}

impl DecodeObject for JwtHeader {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "alg" => value.string("alg", &mut self.alg),
            "kid" => value.string("kid", &mut self.kid),
            "crit" => {
                self.critical = true;
                value.skip()
            }
            _ => value.skip(),
        }
    }
}

/// Claims of an ID token. Missing claims are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdTokenClaims {
    /// Issuer: the URL that its discovery document is found under.
    pub iss: String,
    /// Subject: identifier of the user at the issuer.
    pub sub: String,
    /// Audience: client ids that the token is for. A single string becomes a list of one.
    pub aud: Vec<String>,
    /// Authorized party: the client that requested the token.
    pub azp: String,
    /// Expiry, in seconds since 1970.
    pub exp: Option<i64>,
    /// Time of issue.
    pub iat: Option<i64>,
    /// Start of validity.
    pub nbf: Option<i64>,
    /// Nonce of the authorization request.
    pub nonce: String,
    /// E-mail address of the user.
    pub email: String,
    /// Display name of the account.
    pub preferred_username: String,
}

impl IdTokenClaims {
    /// Returns a name of the account for messages: e-mail address, preferred user name, or subject.
    pub fn account(&self) -> &str {
        [&self.email, &self.preferred_username].into_iter().find(|name| !name.is_empty()).unwrap_or(&self.sub)
    }
}

decode_object! { IdTokenClaims, "",
    "iss" => string(iss),
    "sub" => string(sub),
    "aud" => string_or_list(aud),
    "azp" => string(azp),
    "exp" => seconds(exp),
    "iat" => seconds(iat),
    "nbf" => seconds(nbf),
    "nonce" => string(nonce),
    // Informative claims: a value of another type is ignored.
    "email" => text_or_ignored(email),
    "preferred_username" => text_or_ignored(preferred_username),
}

/// The public keys of an issuer (RFC 7517).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwkSet {
    /// All keys, including those of unknown types.
    pub keys: Vec<Jwk>,
}

impl JwkSet {
    /// Decodes the document at [`ProviderMetadata::jwks_uri`](super::ProviderMetadata::jwks_uri).
    ///
    /// # Errors
    /// If the document is not a key set.
    pub fn decode(document: &[u8]) -> Result<Self, DocumentError> {
        read(document)
    }
}

decode_object! { JwkSet, "",
    "keys" => list(keys),
}

/// A public key (RFC 7517). Numbers are in base64url; missing members are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jwk {
    /// Key type: `RSA`, `EC`, `OKP`.
    pub kty: String,
    /// Use: `sig` or `enc`.
    pub usage: String,
    /// Algorithm that the key is restricted to.
    pub alg: String,
    /// Key id, by which the header of a token selects the key.
    pub kid: String,
    /// Name of the curve.
    pub crv: String,
    /// RSA modulus, big-endian (RFC 7518).
    pub n: String,
    /// RSA public exponent, big-endian.
    pub e: String,
    /// X coordinate of an EC key, or the public key of an OKP key (RFC 8037).
    pub x: String,
    /// Y coordinate of an EC key. OKP keys have none.
    pub y: String,
}

decode_object! { Jwk, "keys.",
    "kty" => string(kty),
    "use" => string(usage),
    "alg" => string(alg),
    "kid" => string(kid),
    "crv" => string(crv),
    "n" => string(n),
    "e" => string(e),
    "x" => string(x),
    "y" => string(y),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> Secret {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Secret::new(format!("{}.{}.{}", part(header), part(claims), part("hunter2")))
    }

    #[test]
    fn parses_a_token() {
        let token = token(
            r#"{"alg":"RS256","kid":"a"}"#,
            r#"{"iss":"https://id","sub":"1","aud":["kube","b"],"exp":17.5,"nonce":"n","email":true,"preferred_username":"ada"}"#,
        );
        let jwt = Jwt::parse(&token).unwrap();
        assert_eq!((jwt.header.alg.as_str(), jwt.header.kid.as_str(), jwt.header.critical), ("RS256", "a", false));
        assert_eq!((jwt.claims.aud.as_slice(), jwt.claims.exp), (["kube".into(), "b".into()].as_slice(), Some(17)));
        assert_eq!(jwt.claims.account(), "ada");
        assert_eq!(jwt.signature.as_slice(), b"hunter2");
        assert!(token.expose().as_bytes().starts_with(jwt.signed.as_bytes()));
        assert_eq!(format!("{:?}", jwt.signed), "[redacted]");
    }

    #[test]
    fn rejects_other_texts() {
        for text in ["", "a", "a.b", "e30.e30", "e30.e30.e30.e30", "e30.%.e30", "W10.e30.e30"] {
            assert!(Jwt::parse(&Secret::new(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn key_set_accepts_unknown_key_types() {
        let set =
            JwkSet::decode(br#"{"keys":[{"kty":"new","zz":[1]},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}"#).unwrap();
        assert_eq!(set.keys.len(), 2);
        assert_eq!(set.keys[1].crv, "Ed25519");
        assert!(JwkSet::decode(b"<html>").is_err());
    }
}
