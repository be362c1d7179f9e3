use credlet_api::Secret;
use jiff::Timestamp;

/// What requests to AWS are signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// Which key it is. No secret by AWS's rules, but people mix the two up.
    pub access_key_id: Secret,
    /// The key.
    pub secret_access_key: Secret,
    /// What belongs to a key that was lent for a while.
    pub session_token: Option<Secret>,
    /// When it is no longer good. `None`: nobody knows, or never.
    pub expires: Option<Timestamp>,
}

impl Credentials {
    /// Good until they are refused.
    pub fn new(id: impl Into<Secret>, secret: impl Into<Secret>, token: Option<Secret>) -> Self {
        let session_token = token.filter(|token| !token.is_empty());
        Self { access_key_id: id.into(), secret_access_key: secret.into(), session_token, expires: None }
    }

    /// The same, good until `at` only.
    #[must_use]
    pub fn expiring(self, at: Option<Timestamp>) -> Self {
        Self { expires: at, ..self }
    }

    /// All that must not be shown.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.secret_access_key].into_iter().chain(&self.session_token)
    }
}
