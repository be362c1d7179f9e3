//! What is kept of a login between two runs.

use credlet_api::Secret;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A token that does not say how long it is good is used again this long: the API server itself remembers tokens so
/// long.
const UNKNOWN_LIFE: i64 = 10;

/// One login. What is missing is empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct Record {
    pub(super) issuer: String,
    pub(super) client_id: String,
    /// By the name a person knows.
    pub(super) account: String,
    /// By the issuer's name.
    pub(super) subject: String,
    /// What the API server gets.
    pub(super) token: Secret,
    /// In seconds since 1970, as are all times here.
    pub(super) issued: i64,
    pub(super) expires: Option<i64>,
    /// Gets the next token.
    pub(super) refresh_token: Secret,
    /// The last attempt to log in, if it did not succeed.
    pub(super) attempt: Option<Attempt>,
}

/// A login that did not succeed, or not yet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Attempt {
    /// How many in a row.
    pub(super) failures: u32,
    /// No other browser window is opened before.
    pub(super) until: i64,
    /// In our own words.
    pub(super) why: String,
}

impl Attempt {
    /// The next one: another window may be opened after 1, 2, 4 … and at most 30 minutes.
    pub(super) fn after(last: Option<&Self>, why: String, now: Timestamp) -> Self {
        let failures = last.map_or(0, |last| last.failures).saturating_add(1);
        let minutes = 1_i64.checked_shl(failures - 1).filter(|minutes| (1..30).contains(minutes)).unwrap_or(30);
        Self { failures, until: now.as_second() + 60 * minutes, why }
    }
}

impl Record {
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        // The reader's own words would quote a token.
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn encode(&self) -> Zeroizing<String> {
        #[derive(Serialize)]
        struct Wire<'a> {
            issuer: &'a str,
            client_id: &'a str,
            account: &'a str,
            subject: &'a str,
            token: &'a str,
            issued: i64,
            expires: Option<i64>,
            refresh_token: &'a str,
            attempt: Option<&'a Attempt>,
        }
        let wire = Wire {
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
        // Texts and numbers always become JSON.
        Zeroizing::new(serde_json::to_string(&wire).unwrap_or_default())
    }

    /// Whether the token serves without being renewed: some of its life is kept back, for the request that it is for
    /// must still arrive. At least 10 s, at most 60 s, a tenth in between.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        // Issued in the future: the clock was set back, and nobody knows by how much.
        if self.token.is_empty() || self.issued > now + 60 {
            return false;
        }
        match self.expires {
            Some(expires) => now < expires - ((expires - self.issued) / 10).clamp(10, 60),
            None => now < self.issued + UNKNOWN_LIFE,
        }
    }

    /// Whether the token is good for a moment longer.
    pub(super) fn is_alive(&self, now: Timestamp) -> bool {
        !self.token.is_empty() && self.expires.is_some_and(|expires| now.as_second() < expires)
    }

    pub(super) fn expiry(&self) -> Option<Timestamp> {
        self.expires.and_then(|expires| Timestamp::from_second(expires).ok())
    }

    /// Until when no other browser window is opened.
    pub(super) fn closed_until(&self, now: Timestamp) -> Option<(Timestamp, &str)> {
        let attempt = self.attempt.as_ref()?;
        let until = Timestamp::from_second(attempt.until).ok()?;
        // Longer than the longest wait: the clock was set back since.
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
    fn a_record_is_read_as_it_was_written() {
        let record = Record {
            issuer: "https://id".into(),
            token: "hunter2".into(),
            refresh_token: "a\"b".into(),
            expires: Some(7),
            attempt: Some(Attempt { failures: 1, until: 5, why: "x".into() }),
            ..Record::default()
        };
        assert_eq!(Record::decode(record.encode().as_bytes()), Some(record.clone()));
        assert!(!format!("{record:?}").contains("hunter2"));
        assert_eq!(Record::decode(b"{\"token\":5}"), None);
        assert_eq!(Record::decode(b""), None);
    }

    #[test]
    fn a_token_is_renewed_a_little_before_its_end() {
        let token = |expires| Record { token: "t".into(), issued: 1000, expires, ..Record::default() };
        let fresh_until = |expires| (1000..9000).rev().find(|now| token(expires).is_fresh(at(*now)));
        assert_eq!(fresh_until(Some(1000 + 3600)), Some(1000 + 3600 - 61));
        assert_eq!(fresh_until(Some(1000 + 300)), Some(1000 + 300 - 31));
        assert_eq!(fresh_until(Some(1000 + 60)), Some(1000 + 60 - 11));
        assert_eq!(fresh_until(Some(1000 + 5)), None);
        assert_eq!(fresh_until(None), Some(1009));
        assert!(!token(Some(9000)).is_fresh(at(900)), "the clock was set back");
    }

    #[test]
    fn each_failed_login_doubles_the_wait() {
        let mut last = None;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let next = Attempt::after(last.as_ref(), String::new(), at(0));
            waits.push(next.until / 60);
            last = Some(next);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        let many = Attempt { failures: u32::MAX, ..Attempt::default() };
        assert_eq!(Attempt::after(Some(&many), String::new(), at(0)).until, 1800);
    }
}
