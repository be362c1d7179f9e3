//! Texts for TLS errors.

use std::io;
use std::sync::Arc;

use credlet_api::escape_control_chars;
use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::HttpError;

/// Converts the error of a TLS handshake.
pub(super) fn handshake_error(host: &Arc<str>, error: &io::Error) -> HttpError {
    let host = host.clone();
    match rustls_error(error) {
        Some(rustls::Error::InvalidCertificate(error)) => {
            HttpError::Certificate { host, reason: certificate_reason(error) }
        }
        Some(error) => HttpError::Handshake { host, reason: tls_error_reason(error) },
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            HttpError::Handshake { host, reason: "connection closed during the handshake".into() }
        }
        None => HttpError::Handshake { host, reason: error.to_string() },
    }
}

/// Returns the rustls error inside an I/O error.
pub(super) fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Describes an error or alert.
pub(super) fn tls_error_reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => "client certificate required".into(),
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => format!("client certificate rejected ({alert:?})"),
        rustls::Error::AlertReceived(alert) => format!("rejected with alert {alert:?}"),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => "not a TLS server".into(),
        other => escape_control_chars(&other.to_string()),
    }
}

/// Describes a failed verification of the server certificate.
fn certificate_reason(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "expired".into(),
        CertificateError::ExpiredContext { not_after, .. } => format!("expired at {}", time(*not_after)),
        CertificateError::NotValidYet => "not valid yet".into(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("not valid before {}", time(*not_before))
        }
        CertificateError::Revoked => "revoked".into(),
        CertificateError::UnknownIssuer => "issued by an unknown certificate authority".into(),
        CertificateError::BadSignature => "invalid signature".into(),
        CertificateError::BadEncoding => "invalid encoding".into(),
        CertificateError::NotValidForName => "not valid for this name".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            match presented.iter().map(|name| name_text(name)).collect::<Vec<_>>().join(", ") {
                names if names.is_empty() => format!("not valid for {expected}, no names in it"),
                names => format!("valid for {names}, not for {expected}"),
            }
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "not valid for servers (extended key usage)".into()
        }
        CertificateError::Other(other) if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) => {
            "a certificate authority used as server certificate".into()
        }
        other => escape_control_chars(&other.to_string()),
    }
}

/// The name in rustls's `DnsName("api.example")` or `IpAddress(127.0.0.1)`.
fn name_text(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    escape_control_chars(inner.trim_matches('"'))
}

fn time(at: UnixTime) -> String {
    match i64::try_from(at.as_secs()).map(Timestamp::from_second) {
        Ok(Ok(at)) => at.to_string(),
        _ => "an invalid time".into(),
    }
}
