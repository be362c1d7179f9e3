use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::MapAccess;
use zeroize::Zeroizing;

use super::{read, seconds, texts};
use crate::wire::document::{Member, Object};
use crate::{Fault, Secret};

/// A JSON web token taken apart. Nothing of it is verified.
#[derive(Clone, Debug)]
pub struct Jwt<'a> {
    /// How it is signed.
    pub header: Header,
    /// What it says.
    pub claims: Claims,
    /// The bytes that are signed.
    pub signed: SignedPart<'a>,
    /// The signature.
    pub signature: Zeroizing<Vec<u8>>,
}

/// Most of a token: not to be shown.
#[derive(Clone, Copy)]
pub struct SignedPart<'a>(&'a str);

impl SignedPart<'_> {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl std::fmt::Debug for SignedPart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<'a> Jwt<'a> {
    /// `None`: it is not three parts in base64 of which the first two are JSON objects.
    pub fn parse(token: &'a Secret) -> Option<Self> {
        let (signed, signature) = token.expose().rsplit_once('.')?;
        let (header, payload) = signed.split_once('.').filter(|(_, payload)| !payload.contains('.'))?;
        let part = |text: &str| URL_SAFE_NO_PAD.decode(text).ok().map(Zeroizing::new);
        Some(Self {
            header: read(&part(header)?).ok()?,
            claims: read(&part(payload)?).ok()?,
            signed: SignedPart(signed),
            signature: part(signature)?,
        })
    }
}

/// How a token is signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The algorithm.
    pub alg: String,
    /// The name of the key. Empty: none.
    pub kid: String,
    /// Whether it has extensions that must be understood. We understand none.
    pub critical: bool,
}

impl Object for Header {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
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

/// What a token says. What is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Who issued it.
    pub iss: String,
    /// The person, by a name that only the issuer understands.
    pub sub: String,
    /// For whom it is.
    pub aud: Vec<String>,
    /// Who asked for it.
    pub azp: String,
    /// From when it must not be used, in seconds since 1970.
    pub exp: Option<i64>,
    /// Since when it exists.
    pub iat: Option<i64>,
    /// Before when it must not be used.
    pub nbf: Option<i64>,
    /// What the client had asked to be in it.
    pub nonce: String,
    /// The person, by names that people understand.
    pub email: String,
    /// The same.
    pub preferred_username: String,
}

impl Claims {
    /// The name by which a person knows this account.
    pub fn account(&self) -> &str {
        [&self.email, &self.preferred_username].into_iter().find(|name| !name.is_empty()).unwrap_or(&self.sub)
    }
}

impl Object for Claims {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "iss" => value.string("iss", &mut self.iss),
            "sub" => value.string("sub", &mut self.sub),
            "aud" => {
                let mut aud = None;
                value.any("aud", &mut aud)?;
                self.aud = texts(aud.as_ref());
                Ok(())
            }
            "azp" => value.string("azp", &mut self.azp),
            "exp" => seconds(value, "exp", &mut self.exp),
            "iat" => seconds(value, "iat", &mut self.iat),
            "nbf" => seconds(value, "nbf", &mut self.nbf),
            "nonce" => value.string("nonce", &mut self.nonce),
            // Nobody promises what these look like, and a token is not worse for it.
            "email" => text(value, &mut self.email),
            "preferred_username" => text(value, &mut self.preferred_username),
            _ => value.skip(),
        }
    }
}

fn text<'de, A: MapAccess<'de>>(value: Member<'_, A>, into: &mut String) -> Result<(), A::Error> {
    let mut any = None;
    value.any("claim", &mut any)?;
    any.as_ref().and_then(|any| any.as_str()).unwrap_or_default().clone_into(into);
    Ok(())
}

/// An issuer's public keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwkSet {
    /// All of them, also those of kinds we do not know.
    pub keys: Vec<Jwk>,
}

impl JwkSet {
    /// Reads the document at [`Metadata::jwks_uri`](super::Metadata::jwks_uri).
    ///
    /// # Errors
    /// When it is not such a document. The issuer's operator must act.
    pub fn decode(document: &[u8]) -> Result<Self, Fault> {
        read(document)
    }
}

impl Object for JwkSet {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "keys" => {
                let mut keys = None;
                value.objects("keys", &mut keys)?;
                self.keys = keys.unwrap_or_default();
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

/// A public key (RFC 7517). Its numbers are in base64url; what is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jwk {
    /// The kind: `RSA`, `EC`, `OKP`.
    pub kty: String,
    /// What it is for: `sig` or `enc`.
    pub usage: String,
    /// The only algorithm it is for.
    pub alg: String,
    /// Its name.
    pub kid: String,
    /// The curve.
    pub crv: String,
    /// RSA: the modulus.
    pub n: String,
    /// RSA: the exponent.
    pub e: String,
    /// The point on the curve.
    pub x: String,
    /// The point on the curve.
    pub y: String,
}

impl Object for Jwk {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "kty" => value.string("keys.kty", &mut self.kty),
            "use" => value.string("keys.use", &mut self.usage),
            "alg" => value.string("keys.alg", &mut self.alg),
            "kid" => value.string("keys.kid", &mut self.kid),
            "crv" => value.string("keys.crv", &mut self.crv),
            "n" => value.string("keys.n", &mut self.n),
            "e" => value.string("keys.e", &mut self.e),
            "x" => value.string("keys.x", &mut self.x),
            "y" => value.string("keys.y", &mut self.y),
            _ => value.skip(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> Secret {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Secret::new(format!("{}.{}.{}", part(header), part(claims), part("hunter2")))
    }

    #[test]
    fn a_token_is_taken_apart() {
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
    fn what_is_no_token_is_not_taken_apart() {
        for text in ["", "a", "a.b", "e30.e30", "e30.e30.e30.e30", "e30.%.e30", "W10.e30.e30"] {
            assert!(Jwt::parse(&Secret::new(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn keys_of_unknown_kinds_do_not_spoil_the_others() {
        let set =
            JwkSet::decode(br#"{"keys":[{"kty":"new","zz":[1]},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}"#).unwrap();
        assert_eq!(set.keys.len(), 2);
        assert_eq!(set.keys[1].crv, "Ed25519");
        assert!(JwkSet::decode(b"<html>").is_err());
    }
}
