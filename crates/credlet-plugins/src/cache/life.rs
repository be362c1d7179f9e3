//! How long a credential is kept.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::exec::ExecCredentialStatus;
use credlet_api::{Secret, oidc};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::Zeroizing;

use super::Options;

/// A presigned request is good for this long from its date, whatever else stands in it.
const PRESIGNED: Duration = Duration::from_secs(15 * 60);

/// From when to when an entry serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// When the plugin was asked.
    pub(super) created: Timestamp,
    /// From here on it is renewed behind the caller's back.
    pub(super) ahead: Timestamp,
    /// From here on it is not served any more: a little before its end, since a request takes its time.
    pub(super) until: Timestamp,
}

impl Life {
    /// `end` is when the credential must no longer be used, if that is known. `None`: it is not worth keeping.
    pub(super) fn new(now: Timestamp, end: Option<Timestamp>, options: &Options) -> Option<Self> {
        let until = match end {
            Some(end) => {
                let lifetime = Duration::try_from(end.duration_since(now)).ok()?;
                let margin = (lifetime / 10).min(Duration::from_secs(60)).max(Duration::from_secs(10));
                before(end, margin)
            }
            None => after(now, options.default_ttl),
        };
        let until = until.min(after(now, options.max_age));
        let kept = Duration::try_from(until.duration_since(now)).ok().filter(|kept| !kept.is_zero())?;
        // Of a credential without an end nobody knows when to renew it.
        let ahead = if end.is_some() { before(until, kept / 5) } else { until };
        Some(Self { created: now, ahead, until })
    }
}

fn before(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

fn after(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// When a credential ends: by what the plugin says and by what it says of itself, whichever is first.
pub(super) fn end(status: &ExecCredentialStatus) -> Option<Timestamp> {
    let known = [given(status), oidc::expiry(&status.token), presigned(&status.token), certificate(status)];
    known.into_iter().flatten().min()
}

/// What the plugin says. The year 1 is Go's way to write that nobody said anything.
pub(super) fn given(status: &ExecCredentialStatus) -> Option<Timestamp> {
    status.expiration_timestamp.filter(|at| at.to_zoned(jiff::tz::TimeZone::UTC).year() > 1)
}

/// EKS: the token is a signed request, and its date is in it.
fn presigned(token: &Secret) -> Option<Timestamp> {
    let request = token.expose().strip_prefix("k8s-aws-v1.")?;
    let request = Zeroizing::new(URL_SAFE_NO_PAD.decode(request.trim_end_matches('=')).ok()?);
    let request = std::str::from_utf8(&request).ok()?;
    let date = request.split(['?', '&']).find_map(|pair| pair.strip_prefix("X-Amz-Date="))?;
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok()?;
    Some(after(jiff::tz::Offset::UTC.to_timestamp(date).ok()?, PRESIGNED))
}

fn certificate(status: &ExecCredentialStatus) -> Option<Timestamp> {
    let leaf = CertificateDer::from_pem_slice(status.client_certificate_data.as_bytes()).ok()?;
    let (_, leaf) = X509Certificate::from_der(&leaf).ok()?;
    Timestamp::from_second(leaf.validity().not_after.timestamp()).ok()
}

/// Whether a token is good for one request only: a proof of possession has a number of its own each time.
pub(super) fn is_for_one_request(token: &Secret) -> bool {
    #[derive(Deserialize)]
    struct Header {
        #[serde(default)]
        typ: String,
    }

    #[derive(Deserialize)]
    struct Proof {
        at: Option<IgnoredAny>,
        cnf: Option<IgnoredAny>,
        nonce: Option<IgnoredAny>,
    }

    let mut parts = token.expose().split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok().map(Zeroizing::new));
    let (Some(Some(header)), Some(Some(payload))) = (parts.next(), parts.next()) else { return false };
    let typed = serde_json::from_slice::<Header>(&header).is_ok_and(|header| header.typ.eq_ignore_ascii_case("pop"));
    let proof = serde_json::from_slice::<Proof>(&payload);
    typed || proof.is_ok_and(|proof| proof.at.is_some() && proof.cnf.is_some() && proof.nonce.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn lives(seconds: i64) -> Option<(i64, i64)> {
        let now = at("2030-01-01T00:00:00Z");
        let end = now + jiff::SignedDuration::from_secs(seconds);
        let life = Life::new(now, Some(end), &Options::around("p", [""; 0]))?;
        Some((life.ahead.duration_since(now).as_secs(), life.until.duration_since(now).as_secs()))
    }

    #[test]
    fn a_credential_is_served_until_a_little_before_its_end() {
        assert_eq!(lives(840), Some((624, 780)));
        assert_eq!(lives(300), Some((216, 270)));
        assert_eq!(lives(20), Some((8, 10)));
        // At most an hour, however long it lives.
        assert_eq!(lives(36_000), Some((2_880, 3_600)));
        assert_eq!(lives(10), None);
        assert_eq!(lives(0), None);
        assert_eq!(lives(-5), None);
    }

    #[test]
    fn without_an_end_it_is_kept_for_ten_seconds() {
        let now = at("2030-01-01T00:00:00Z");
        let life = Life::new(now, None, &Options::around("p", [""; 0])).unwrap();
        assert_eq!((life.ahead, life.until), (at("2030-01-01T00:00:10Z"), at("2030-01-01T00:00:10Z")));
        let none = Options { default_ttl: Duration::ZERO, ..Options::around("p", [""; 0]) };
        assert_eq!(Life::new(now, None, &none), None);
    }

    #[test]
    fn the_first_of_all_ends_counts() {
        let jwt = |payload: &str| {
            format!("{}.{}.sig", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(payload))
        };
        let token = ExecCredentialStatus::token(jwt(r#"{"exp":1893456000}"#));
        assert_eq!(end(&token), Some(at("2030-01-01T00:00:00Z")));
        assert_eq!(end(&token.clone().expiring(at("2031-01-01T00:00:00Z"))), Some(at("2030-01-01T00:00:00Z")));
        assert_eq!(end(&token.expiring(at("2029-01-01T00:00:00Z"))), Some(at("2029-01-01T00:00:00Z")));
        let eks = URL_SAFE_NO_PAD.encode("https://sts/?Action=x&X-Amz-Date=20300101T000000Z&X-Amz-Expires=60");
        let eks = ExecCredentialStatus::token(format!("k8s-aws-v1.{eks}"));
        assert_eq!(end(&eks), Some(at("2030-01-01T00:15:00Z")));
        assert_eq!(end(&ExecCredentialStatus::token("opaque")), None);
        assert_eq!(end(&ExecCredentialStatus::token("opaque").expiring(at("0001-01-01T00:00:00Z"))), None);
    }

    #[test]
    fn a_certificate_ends_by_its_own_word() {
        let ca = credlet_testkit::ca::Ca::new();
        let leaf = ca.client("ada").issue();
        let status = ExecCredentialStatus::certificate(leaf.cert_pem(), leaf.key_pem());
        assert!(end(&status).is_some());
    }

    #[test]
    fn a_proof_of_possession_is_known() {
        let jwt = |header: &str, payload: &str| {
            Secret::new(format!("{}.{}.sig", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload)))
        };
        assert!(is_for_one_request(&jwt(r#"{"typ":"pop"}"#, "{}")));
        assert!(is_for_one_request(&jwt("{}", r#"{"at":"x","ts":1,"u":"y","cnf":{},"nonce":"n"}"#)));
        assert!(!is_for_one_request(&jwt(r#"{"typ":"JWT"}"#, r#"{"exp":1,"nonce":"n"}"#)));
        assert!(!is_for_one_request(&Secret::new("opaque")));
    }
}
