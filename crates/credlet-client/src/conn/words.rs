//! What the TLS library says, for people.

use std::io;
use std::sync::Arc;

use credlet_api::visible;
use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

use super::Error;

/// Why a handshake failed.
pub(super) fn handshake(host: &Arc<str>, error: &io::Error) -> Error {
    let host = host.clone();
    match tls(error) {
        Some(rustls::Error::InvalidCertificate(why)) => Error::Certificate { host, reason: certificate(why) },
        Some(error) => Error::Handshake { host, reason: failure(error) },
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            Error::Handshake { host, reason: "it closed the connection in the middle of the handshake".into() }
        }
        None => Error::Handshake { host, reason: error.to_string() },
    }
}

/// The TLS library's error inside one of the system's.
pub(super) fn tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Why the peer, or we, gave up.
pub(super) fn failure(error: &rustls::Error) -> String {
    match error {
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => "it wants a client certificate".into(),
        rustls::Error::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => format!("it does not accept our client certificate ({alert:?})"),
        rustls::Error::AlertReceived(alert) => format!("it refused ({alert:?})"),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => "it does not speak TLS".into(),
        other => visible(&other.to_string()),
    }
}

/// Why a server's certificate is not accepted.
fn certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired => "it has expired".into(),
        CertificateError::ExpiredContext { not_after, .. } => format!("it expired at {}", time(*not_after)),
        CertificateError::NotValidYet => "it is not valid yet".into(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("it is not valid before {}", time(*not_before))
        }
        CertificateError::Revoked => "it was revoked".into(),
        CertificateError::UnknownIssuer => "it was not issued by a certificate authority that is trusted here".into(),
        CertificateError::BadSignature => "its signature is wrong".into(),
        CertificateError::BadEncoding => "it cannot be read".into(),
        CertificateError::NotValidForName => "it is for another name".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            match presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ") {
                names if names.is_empty() => format!("it is not for {expected} and names no other host"),
                names => format!("it is for {names} and not for {expected}"),
            }
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not meant for a server".into()
        }
        CertificateError::Other(other) if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) => {
            "it is a certificate authority's own".into()
        }
        other => visible(&other.to_string()),
    }
}

/// The library writes names as `DnsName("api.example")` and `IpAddress(127.0.0.1)`.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    visible(inner.trim_matches('"'))
}

fn time(at: UnixTime) -> String {
    match i64::try_from(at.as_secs()).map(Timestamp::from_second) {
        Ok(Ok(at)) => at.to_string(),
        _ => "a time that does not exist".into(),
    }
}
