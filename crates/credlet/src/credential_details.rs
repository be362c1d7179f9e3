//! Contents of a credential for display: JWT claims and certificate fields. Nothing is verified; the server does that.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde::Serialize;
use serde_json::{Map, Value};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::credential::RequestCredential;
use crate::duration::format_duration;

/// Claims of a JWT and fields of a client certificate.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CredentialDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claims: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<CertificateSummary>,
}

/// Fields of an X.509 certificate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CertificateSummary {
    pub(crate) subject: String,
    pub(crate) issuer: String,
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl CredentialDetails {
    pub(crate) fn of(credential: &RequestCredential) -> Self {
        Self {
            claims: credential.token().and_then(claims),
            certificate: credential
                .certificate
                .as_ref()
                .and_then(|pair| CertificateSummary::from_pem(pair.chain_pem.as_bytes())),
        }
    }

    /// Returns names and values for text output.
    pub(crate) fn rows(&self, now: Timestamp) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        for (name, value) in self.claims.iter().flatten() {
            rows.push((name.clone(), claim(name, value, now)));
        }
        if let Some(certificate) = &self.certificate {
            rows.push(("subject".to_owned(), certificate.subject.clone()));
            rows.push(("issuer".to_owned(), certificate.issuer.clone()));
            rows.push(("valid from".to_owned(), format_time(certificate.not_before, now)));
            rows.push(("valid until".to_owned(), format_time(certificate.not_after, now)));
        }
        rows
    }
}

impl CertificateSummary {
    /// Parses the first certificate of a PEM text.
    pub(crate) fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem).ok()?;
        let (_, certificate) = X509Certificate::from_der(&der).ok()?;
        let time = |at: x509_parser::time::ASN1Time| Timestamp::from_second(at.timestamp()).ok();
        Some(Self {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            not_before: time(certificate.validity().not_before)?,
            not_after: time(certificate.validity().not_after)?,
        })
    }
}

/// The payload of a JWT. The signature, without which the token is useless, is not returned.
fn claims(token: &Secret) -> Option<Map<String, Value>> {
    let mut parts = token.expose().split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&payload).ok()
}

fn claim(name: &str, value: &Value, now: Timestamp) -> String {
    let time = value.as_f64().filter(|_| ["exp", "iat", "nbf", "auth_time"].contains(&name));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`Timestamp::from_second` rejects values that are out of range"
    )]
    let time = time.and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
    match (time, value) {
        (Some(time), _) => format_time(time, now),
        (None, Value::String(text)) => text.clone(),
        (None, Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        (None, other) => other.to_string(),
    }
}

/// Formats a time to the second, followed by its distance from `now`.
pub(crate) fn format_time(at: Timestamp, now: Timestamp) -> String {
    let shown = Timestamp::from_second(at.as_second()).unwrap_or(at);
    let ahead = at.duration_since(now);
    match Duration::try_from(ahead) {
        Ok(ahead) => format!("{shown} (in {})", format_duration(ahead)),
        Err(_) => format!("{shown} ({} ago)", format_duration(ahead.unsigned_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(payload: &str) -> Secret {
        let [header, payload] = [r#"{"alg":"none"}"#, payload].map(|part| URL_SAFE_NO_PAD.encode(part));
        Secret::new(format!("{header}.{payload}.c2ln"))
    }

    #[test]
    fn shows_claims_with_readable_times() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let claims = claims(&jwt(r#"{"sub":"ada","aud":["a","b"],"exp":1800000900,"n":{"x":1}}"#)).unwrap();
        let credential_details = CredentialDetails { claims: Some(claims), certificate: None };
        let rows = credential_details.rows(now);
        let row = |name: &str| rows.iter().find(|(row, _)| row == name).unwrap().1.as_str();
        assert_eq!(row("sub"), "ada");
        assert_eq!(row("aud"), "a, b");
        assert_eq!(row("exp"), "2027-01-15T08:15:00Z (in 15 min)");
        assert_eq!(row("n"), r#"{"x":1}"#);
    }

    #[test]
    fn opaque_tokens_have_no_claims() {
        for token in ["", "opaque", "a.b", "a.b.c", "a.b.c.d", "e30.WzFd.x"] {
            assert_eq!(claims(&Secret::new(token)), None, "{token}");
        }
    }

    #[test]
    fn shows_unrepresentable_times_as_numbers() {
        let far_too_late = Value::from(1e300);
        assert_eq!(claim("exp", &far_too_late, Timestamp::UNIX_EPOCH), far_too_late.to_string());
    }

    #[test]
    fn shows_past_times_as_ago() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(format_time(at(1000), at(1300)), "1970-01-01T00:16:40Z (5 min ago)");
    }
}
