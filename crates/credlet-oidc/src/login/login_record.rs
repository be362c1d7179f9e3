//! The stored form of a login.

use credlet_api::Secret;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Seconds for which a token without an expiry is reused: as long as the API server caches a successful authentication.
const DEFAULT_LIFETIME: i64 = 10;

/// One login. Missing values are empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct LoginRecord {
    pub(super) issuer: String,
    pub(super) client_id: String,
    /// Name of the user for display.
    pub(super) account: String,
    /// `sub` claim of the ID token.
    pub(super) subject: String,
    /// The token for the API server.
    pub(super) token: Secret,
    /// When the token was requested, in Unix seconds like all times here.
    pub(super) issued: i64,
    pub(super) expires: Option<i64>,
    pub(super) refresh_token: Secret,
    /// The last login, if it failed or was not completed.
    pub(super) attempt: Option<FailedLogin>,
}

/// A login that failed or is not completed yet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct FailedLogin {
    /// Number of consecutive failures.
    pub(super) failures: u32,
    /// End of the cooldown.
    pub(super) until: i64,
    /// The error of the login.
    pub(super) why: String,
}

impl FailedLogin {
    /// The failure after `last`. The cooldown is 1, 2, 4 … and at most 30 minutes.
    pub(super) fn after(last: Option<&Self>, why: String, now: Timestamp) -> Self {
        let failures = last.map_or(0, |last| last.failures).saturating_add(1);
        let minutes = 1_i64.checked_shl(failures - 1).filter(|minutes| (1..30).contains(minutes)).unwrap_or(30);
        Self { failures, until: now.as_second() + 60 * minutes, why }
    }
}

impl LoginRecord {
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        // The error of serde_json is dropped, because it may quote a token.
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn encode(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        struct EncodedRecord<'a> {
            issuer: &'a str,
            client_id: &'a str,
            account: &'a str,
            subject: &'a str,
            token: &'a str,
            issued: i64,
            expires: Option<i64>,
            refresh_token: &'a str,
            attempt: Option<&'a FailedLogin>,
        }
        let encoded = EncodedRecord {
            issuer: &self.issuer,
            client_id: &self.client_id,
            account: &self.account,
            subject: &self.subject,
            token: self.token.expose(),
            issued: self.issued,
            expires: self.expires,
            refresh_token: self.refresh_token.expose(),
            attempt: self.attempt.as_ref(),
        };
        // Strings and numbers can always be serialized.
        Zeroizing::new(serde_json::to_string(&encoded).unwrap_or_default())
    }

    /// Whether the token can be used without a refresh: until a margin of a tenth of its lifetime, between 10 s and 60 s,
    /// before its expiry.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        // Issued in the future: the clock was set back by an unknown time.
        if self.token.is_empty() || self.issued > now + 60 {
            return false;
        }
        match self.expires {
            Some(expires) => now < expires - ((expires - self.issued) / 10).clamp(10, 60),
            None => now < self.issued + DEFAULT_LIFETIME,
        }
    }

    /// Whether the token has not expired yet.
    pub(super) fn is_unexpired(&self, now: Timestamp) -> bool {
        !self.token.is_empty() && self.expires.is_some_and(|expires| now.as_second() < expires)
    }

    pub(super) fn expiry(&self) -> Option<Timestamp> {
        self.expires.and_then(|expires| Timestamp::from_second(expires).ok())
    }

    /// Returns the end of the cooldown and the error of the last login, if the cooldown has not passed.
    pub(super) fn login_cooldown(&self, now: Timestamp) -> Option<(Timestamp, &str)> {
        let attempt = self.attempt.as_ref()?;
        let until = Timestamp::from_second(attempt.until).ok()?;
        // Longer than the maximum: the clock was set back.
        let sane = until.duration_since(now) <= SignedDuration::from_mins(30);
        (now < until && sane).then_some((until, attempt.why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn record_is_encoded_and_decoded() {
        let record = LoginRecord {
            issuer: "https://id".into(),
            token: "hunter2".into(),
            refresh_token: "a\"b".into(),
            expires: Some(7),
            attempt: Some(FailedLogin { failures: 1, until: 5, why: "x".into() }),
            ..LoginRecord::default()
        };
        assert_eq!(LoginRecord::decode(record.encode().as_bytes()), Some(record.clone()));
        assert!(!format!("{record:?}").contains("hunter2"));
        assert_eq!(LoginRecord::decode(b"{\"token\":5}"), None);
        assert_eq!(LoginRecord::decode(b""), None);
    }

    #[test]
    fn token_is_fresh_until_shortly_before_expiry() {
        let token = |expires| LoginRecord { token: "t".into(), issued: 1000, expires, ..LoginRecord::default() };
        let fresh_until = |expires| (1000..9000).rev().find(|now| token(expires).is_fresh(at(*now)));
        assert_eq!(fresh_until(Some(1000 + 3600)), Some(1000 + 3600 - 61));
        assert_eq!(fresh_until(Some(1000 + 300)), Some(1000 + 300 - 31));
        assert_eq!(fresh_until(Some(1000 + 60)), Some(1000 + 60 - 11));
        assert_eq!(fresh_until(Some(1000 + 5)), None);
        assert_eq!(fresh_until(None), Some(1009));
        assert!(!token(Some(9000)).is_fresh(at(900)), "the clock was set back");
    }

    #[test]
    fn cooldown_doubles_with_each_failure() {
        let mut last = None;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let next = FailedLogin::after(last.as_ref(), String::new(), at(0));
            waits.push(next.until / 60);
            last = Some(next);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        let many = FailedLogin { failures: u32::MAX, ..FailedLogin::default() };
        assert_eq!(FailedLogin::after(Some(&many), String::new(), at(0)).until, 1800);
    }
}
