use credlet_api::Secret;
use jiff::Timestamp;

/// An access key, with a session token if it is temporary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsCredentials {
    /// The key id. AWS does not treat it as a secret, but users confuse it with the key.
    pub access_key_id: Secret,
    /// The signing key.
    pub secret_access_key: Secret,
    /// Session token of temporary credentials.
    pub session_token: Option<Secret>,
    /// Expiry. `None`: unknown, or permanent.
    pub expires: Option<Timestamp>,
}

impl AwsCredentials {
    /// Creates credentials without an expiry. An empty `token` counts as none.
    pub fn new(id: impl Into<Secret>, secret: impl Into<Secret>, token: Option<Secret>) -> Self {
        let session_token = token.filter(|token| !token.is_empty());
        Self { access_key_id: id.into(), secret_access_key: secret.into(), session_token, expires: None }
    }

    /// Sets the expiry.
    #[must_use]
    pub fn expiring(self, at: Option<Timestamp>) -> Self {
        Self { expires: at, ..self }
    }

    /// Limits the expiry to that of the credentials or token that these were obtained with.
    #[must_use]
    pub(super) fn limit_expiry(self, end: Option<Timestamp>) -> Self {
        Self { expires: self.expires.into_iter().chain(end).min(), ..self }
    }

    /// The values to redact in messages.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.secret_access_key].into_iter().chain(&self.session_token)
    }
}
