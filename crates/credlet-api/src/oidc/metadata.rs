use super::read;
use crate::DocumentError;
use crate::wire::document::decode_object;

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

decode_object! { ProviderMetadata, "",
    "issuer" => string(issuer),
    "authorization_endpoint" => string(authorization_endpoint),
    "token_endpoint" => string(token_endpoint),
    "jwks_uri" => string(jwks_uri),
    "device_authorization_endpoint" => string(device_authorization_endpoint),
    "revocation_endpoint" => string(revocation_endpoint),
    "token_endpoint_auth_methods_supported" => string_or_list(token_endpoint_auth_methods_supported),
    "authorization_response_iss_parameter_supported" => boolean(authorization_response_iss_parameter_supported),
}
