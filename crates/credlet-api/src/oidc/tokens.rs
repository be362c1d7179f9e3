use serde::de::MapAccess;

use super::{read, seconds};
use crate::wire::document::{Member, Object};
use crate::{Fault, Secret};

/// A token endpoint's answer. What is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Says who the person is.
    pub id_token: Secret,
    /// Says what the client may do.
    pub access_token: Secret,
    /// Gets the next ones.
    pub refresh_token: Secret,
    /// For how many seconds the access token is good.
    pub expires_in: Option<i64>,
}

impl Tokens {
    /// Reads the answer.
    ///
    /// # Errors
    /// When it is not a JSON object. The issuer's operator must act.
    pub fn decode(answer: &[u8]) -> Result<Self, Fault> {
        read(answer)
    }
}

impl Object for Tokens {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "id_token" => value.secret("id_token", &mut self.id_token),
            "access_token" => value.secret("access_token", &mut self.access_token),
            "refresh_token" => value.secret("refresh_token", &mut self.refresh_token),
            "expires_in" => seconds(value, "expires_in", &mut self.expires_in),
            _ => value.skip(),
        }
    }
}

/// RFC 8628: what a device without a browser is to show to its person. What is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceAuthorization {
    /// What the device asks for the tokens with.
    pub device_code: Secret,
    /// What the person types.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    /// The same with the code in it, for those who can click.
    pub verification_uri_complete: String,
    /// For how many seconds the codes are good.
    pub expires_in: Option<i64>,
    /// How many seconds to wait between two questions.
    pub interval: Option<i64>,
}

impl DeviceAuthorization {
    /// Reads the answer.
    ///
    /// # Errors
    /// When it is not a JSON object. The issuer's operator must act.
    pub fn decode(answer: &[u8]) -> Result<Self, Fault> {
        read(answer)
    }
}

impl Object for DeviceAuthorization {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "device_code" => value.secret("device_code", &mut self.device_code),
            "user_code" => value.string("user_code", &mut self.user_code),
            // Google's name for it is older than the standard's.
            "verification_uri" | "verification_url" => value.string("verification_uri", &mut self.verification_uri),
            "verification_uri_complete" => {
                value.string("verification_uri_complete", &mut self.verification_uri_complete)
            }
            "expires_in" => seconds(value, "expires_in", &mut self.expires_in),
            "interval" => seconds(value, "interval", &mut self.interval),
            _ => value.skip(),
        }
    }
}
