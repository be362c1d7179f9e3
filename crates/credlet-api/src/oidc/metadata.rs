use serde::de::MapAccess;

use super::{read, string_or_list};
use crate::DocumentError;
use crate::wire::document::{DecodeObject, MemberValue};

/// The provider metadata of OpenID Connect Discovery, at [`DISCOVERY_PATH`](super::DISCOVERY_PATH). Missing members are
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderMetadata {
    /// Issuer identifier, which is its URL.
    pub issuer: String,
    /// URL at which the user logs in.
    pub authorization_endpoint: String,
    /// URL of the token endpoint.
    pub token_endpoint: String,
    /// URL of the public keys.
    pub jwks_uri: String,
    /// URL of the device authorization endpoint (RFC 8628).
    pub device_authorization_endpoint: String,
    /// URL of the revocation endpoint (RFC 7009).
    pub revocation_endpoint: String,
    /// Supported methods of client authentication. Empty: not specified.
    pub token_endpoint_auth_methods_supported: Vec<String>,
    /// Whether authorization responses contain the parameter `iss` (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
}

impl ProviderMetadata {
    /// Decodes the document.
    ///
    /// # Errors
    /// If the document is not a JSON object, or a member has the wrong type.
    pub fn decode(document: &[u8]) -> Result<Self, DocumentError> {
        read(document)
    }
}

impl DecodeObject for ProviderMetadata {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
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
                self.token_endpoint_auth_methods_supported = string_or_list(methods.as_ref());
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
