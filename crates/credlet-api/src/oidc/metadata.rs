use serde::de::MapAccess;

use super::{read, texts};
use crate::Fault;
use crate::wire::document::{Member, Object};

/// How an issuer describes itself at [`DISCOVERY_PATH`](super::DISCOVERY_PATH). What it does not have is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Its name, which is its address.
    pub issuer: String,
    /// Where a person logs in.
    pub authorization_endpoint: String,
    /// Where tokens are to be had.
    pub token_endpoint: String,
    /// Where its public keys are.
    pub jwks_uri: String,
    /// RFC 8628: where a device without a browser asks for a code.
    pub device_authorization_endpoint: String,
    /// RFC 7009: where a token is given back.
    pub revocation_endpoint: String,
    /// How clients may introduce themselves. Empty: it does not say.
    pub token_endpoint_auth_methods_supported: Vec<String>,
    /// RFC 9207: whether it signs its redirects with its name.
    pub authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// Reads the document.
    ///
    /// # Errors
    /// When it is not such a document. The issuer's operator must act.
    pub fn decode(document: &[u8]) -> Result<Self, Fault> {
        read(document)
    }
}

impl Object for Metadata {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "issuer" => value.string("issuer", &mut self.issuer),
            "authorization_endpoint" => value.string("authorization_endpoint", &mut self.authorization_endpoint),
            "token_endpoint" => value.string("token_endpoint", &mut self.token_endpoint),
            "jwks_uri" => value.string("jwks_uri", &mut self.jwks_uri),
            "device_authorization_endpoint" => {
                value.string("device_authorization_endpoint", &mut self.device_authorization_endpoint)
            }
            "revocation_endpoint" => value.string("revocation_endpoint", &mut self.revocation_endpoint),
            "token_endpoint_auth_methods_supported" => {
                let mut methods = None;
                value.any("token_endpoint_auth_methods_supported", &mut methods)?;
                self.token_endpoint_auth_methods_supported = texts(methods.as_ref());
                Ok(())
            }
            "authorization_response_iss_parameter_supported" => value.boolean(
                "authorization_response_iss_parameter_supported",
                &mut self.authorization_response_iss_parameter_supported,
            ),
            _ => value.skip(),
        }
    }
}
