//! How long a credential is served from the cache.

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

use super::CacheOptions;

/// Lifetime of a presigned EKS token from its `X-Amz-Date`, whatever `X-Amz-Expires` says.
const PRESIGNED_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Times of creation, refresh and end of service of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryLifetime {
    /// When the plugin was run.
    pub(super) created: Timestamp,
    /// From this time on a hit starts a background refresh.
    pub(super) refresh_at: Timestamp,
    /// From this time on the entry is not served. It is a margin before the credential's expiry.
    pub(super) serve_until: Timestamp,
}

impl EntryLifetime {
    /// Computes the times for a credential that expires at `end`, if that is known. Returns `None` if it expires too soon to
    /// be cached.
    pub(super) fn new(now: Timestamp, end: Option<Timestamp>, options: &CacheOptions) -> Option<Self> {
        let serve_until = match end {
            Some(end) => {
                let lifetime = Duration::try_from(end.duration_since(now)).ok()?;
                let margin = (lifetime / 10).min(Duration::from_secs(60)).max(Duration::from_secs(10));
                before(end, margin)
            }
            None => after(now, options.default_ttl),
        };
        let serve_until = serve_until.min(after(now, options.max_age));
        let duration =
            Duration::try_from(serve_until.duration_since(now)).ok().filter(|duration| !duration.is_zero())?;
        // Without a known expiry the entry is not refreshed ahead of time.
        let refresh_at = if end.is_some() { before(serve_until, duration / 5) } else { serve_until };
        Some(Self { created: now, refresh_at, serve_until })
    }
}

fn before(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

fn after(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// Returns when a credential expires: the earliest of `expirationTimestamp`, the JWT's `exp`, the presigned request's date and
/// the certificate's `notAfter`.
pub(super) fn expiry(status: &ExecCredentialStatus) -> Option<Timestamp> {
    let known = [stated_expiry(status), oidc::jwt_expiry(&status.token), presigned(&status.token), certificate(status)];
    known.into_iter().flatten().min()
}

/// The plugin's `expirationTimestamp`. Go's zero time, in the year 1, means that it is unset.
pub(super) fn stated_expiry(status: &ExecCredentialStatus) -> Option<Timestamp> {
    status.expiration_timestamp.filter(|at| at.to_zoned(jiff::tz::TimeZone::UTC).year() > 1)
}

/// The expiry of an EKS token, which is a presigned STS request with its date.
fn presigned(token: &Secret) -> Option<Timestamp> {
    let request = token.expose().strip_prefix("k8s-aws-v1.")?;
    let request = Zeroizing::new(URL_SAFE_NO_PAD.decode(request.trim_end_matches('=')).ok()?);
    let request = std::str::from_utf8(&request).ok()?;
    let date = request.split(['?', '&']).find_map(|pair| pair.strip_prefix("X-Amz-Date="))?;
    let date = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date).ok()?;
    Some(after(jiff::tz::Offset::UTC.to_timestamp(date).ok()?, PRESIGNED_LIFETIME))
}

fn certificate(status: &ExecCredentialStatus) -> Option<Timestamp> {
    let leaf = CertificateDer::from_pem_slice(status.client_certificate_data.as_bytes()).ok()?;
    let (_, leaf) = X509Certificate::from_der(&leaf).ok()?;
    Timestamp::from_second(leaf.validity().not_after.timestamp()).ok()
}

/// Whether a token is valid for one request only: a proof-of-possession token (`typ` `pop`) has a nonce.
pub(super) fn is_single_use(token: &Secret) -> bool {
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
        let lifetime = EntryLifetime::new(now, Some(end), &CacheOptions::new("p", [""; 0]))?;
        Some((lifetime.refresh_at.duration_since(now).as_secs(), lifetime.serve_until.duration_since(now).as_secs()))
    }

    #[test]
    fn entry_is_served_until_shortly_before_expiry() {
        assert_eq!(lives(840), Some((624, 780)));
        assert_eq!(lives(300), Some((216, 270)));
        assert_eq!(lives(20), Some((8, 10)));
        // Limited by `max_age`.
        assert_eq!(lives(36_000), Some((2_880, 3_600)));
        assert_eq!(lives(10), None);
        assert_eq!(lives(0), None);
        assert_eq!(lives(-5), None);
    }

    #[test]
    fn default_ttl_applies_without_expiry() {
        let now = at("2030-01-01T00:00:00Z");
        let lifetime = EntryLifetime::new(now, None, &CacheOptions::new("p", [""; 0])).unwrap();
        assert_eq!(
            (lifetime.refresh_at, lifetime.serve_until),
            (at("2030-01-01T00:00:10Z"), at("2030-01-01T00:00:10Z"))
        );
        let none = CacheOptions { default_ttl: Duration::ZERO, ..CacheOptions::new("p", [""; 0]) };
        assert_eq!(EntryLifetime::new(now, None, &none), None);
    }

    #[test]
    fn earliest_expiry_counts() {
        let jwt = |payload: &str| {
            format!("{}.{}.sig", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(payload))
        };
        let token = ExecCredentialStatus::token(jwt(r#"{"exp":1893456000}"#));
        assert_eq!(expiry(&token), Some(at("2030-01-01T00:00:00Z")));
        assert_eq!(
            expiry(&token.clone().with_expiration(at("2031-01-01T00:00:00Z"))),
            Some(at("2030-01-01T00:00:00Z"))
        );
        assert_eq!(expiry(&token.with_expiration(at("2029-01-01T00:00:00Z"))), Some(at("2029-01-01T00:00:00Z")));
        let eks = URL_SAFE_NO_PAD.encode("https://sts/?Action=x&X-Amz-Date=20300101T000000Z&X-Amz-Expires=60");
        let eks = ExecCredentialStatus::token(format!("k8s-aws-v1.{eks}"));
        assert_eq!(expiry(&eks), Some(at("2030-01-01T00:15:00Z")));
        assert_eq!(expiry(&ExecCredentialStatus::token("opaque")), None);
        assert_eq!(expiry(&ExecCredentialStatus::token("opaque").with_expiration(at("0001-01-01T00:00:00Z"))), None);
    }

    #[test]
    fn certificate_expiry_is_not_after() {
        let ca = credlet_testkit::ca::TestCa::new();
        let leaf = ca.client("ada").issue();
        let status = ExecCredentialStatus::certificate(leaf.cert_pem(), leaf.key_pem());
        assert!(expiry(&status).is_some());
    }

    #[test]
    fn proof_of_possession_is_single_use() {
        let jwt = |header: &str, payload: &str| {
            Secret::new(format!("{}.{}.sig", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload)))
        };
        assert!(is_single_use(&jwt(r#"{"typ":"pop"}"#, "{}")));
        assert!(is_single_use(&jwt("{}", r#"{"at":"x","ts":1,"u":"y","cnf":{},"nonce":"n"}"#)));
        assert!(!is_single_use(&jwt(r#"{"typ":"JWT"}"#, r#"{"exp":1,"nonce":"n"}"#)));
        assert!(!is_single_use(&Secret::new("opaque")));
    }
}
