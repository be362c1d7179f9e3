use super::read;
use crate::wire::document::decode_object;
use crate::{DocumentError, Secret};

/// The response of a token endpoint (RFC 6749). Missing members are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenResponse {
    /// ID token, which plain OAuth servers omit.
    pub id_token: Secret,
    /// Access token, opaque to the client.
    pub access_token: Secret,
    /// Refresh token. Empty in the response to a refresh: the previous one stays valid.
    pub refresh_token: Secret,
    /// Lifetime of the access token in seconds.
    pub expires_in: Option<i64>,
}

impl TokenResponse {
    /// Decodes the body of the response.
    ///
    /// # Errors
    /// If the body is not a JSON object, or a member has the wrong type.
    pub fn decode(body: &[u8]) -> Result<Self, DocumentError> {
        read(body)
    }
}

decode_object! { TokenResponse, "",
    "id_token" => secret(id_token),
    "access_token" => secret(access_token),
    "refresh_token" => secret(refresh_token),
    "expires_in" => seconds(expires_in),
}

/// The device authorization response (RFC 8628). Missing members are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceAuthorization {
    /// Code for polling the token endpoint.
    pub device_code: Secret,
    /// Code that the user enters.
    pub user_code: String,
    /// URL at which the user enters the code.
    pub verification_uri: String,
    /// The same URL including the code.
    pub verification_uri_complete: String,
    /// Lifetime of the codes in seconds.
    pub expires_in: Option<i64>,
    /// Minimum polling interval in seconds.
    pub interval: Option<i64>,
}

impl DeviceAuthorization {
    /// Decodes the body of the response.
    ///
    /// # Errors
    /// If the body is not a JSON object, or a member has the wrong type.
    pub fn decode(body: &[u8]) -> Result<Self, DocumentError> {
        read(body)
    }
}

decode_object! { DeviceAuthorization, "",
    "device_code" => secret(device_code),
    "user_code" => string(user_code),
    // Google uses the name of a draft of the standard.
    "verification_uri" | "verification_url" => string(verification_uri),
    "verification_uri_complete" => string(verification_uri_complete),
    "expires_in" => seconds(expires_in),
    "interval" => seconds(interval),
}
