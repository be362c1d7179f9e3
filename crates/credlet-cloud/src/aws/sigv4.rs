//! AWS Signature Version 4, on aws-lc-rs.
//!
//! Implemented here because it is short: the crate `aws-sigv4` would add 16 crates and 260 kB.

use std::fmt::Write as _;

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;
use jiff::tz::Offset;
use zeroize::Zeroizing;

use super::AwsCredentials;
use credlet_http::fetch::percent_encode;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Region, service and time that a signature is valid for.
#[derive(Clone, Copy, Debug)]
pub struct SigningScope<'a> {
    /// For example `eu-west-3`.
    pub region: &'a str,
    /// For example `sts`.
    pub service: &'a str,
    /// Time of the signature.
    pub at: Timestamp,
}

/// The signed parts of a request.
#[derive(Clone, Debug)]
pub struct SignableRequest<'a> {
    /// HTTP method in upper case.
    pub method: &'a str,
    /// Path in its canonical, percent-encoded form.
    pub path: &'a str,
    /// Names and values before percent-encoding, in any order.
    pub query: &'a [(&'a str, &'a str)],
    /// Signed headers with lower-case names; must include `host`.
    pub headers: &'a [(&'a str, &'a str)],
    /// The whole body.
    pub body: &'a [u8],
}

impl SigningScope<'_> {
    /// Placeholder for the digest of an unsigned body.
    pub const UNSIGNED_PAYLOAD: &'static str = "UNSIGNED-PAYLOAD";

    /// Returns the query of a presigned URL: the request's own parameters, those of the signature, and the signature, in awscli's
    /// order. `expires` is the validity in seconds.
    pub fn presign(
        &self,
        request: &SignableRequest<'_>,
        credentials: &AwsCredentials,
        expires: u32,
    ) -> Zeroizing<String> {
        let (date, expires) = (self.date(), expires.to_string());
        let credential = format!("{}/{}", credentials.access_key_id.expose(), self.name(&date));
        let signed_headers = names(request.headers);
        let mut query = request.query.to_vec();
        query.extend([
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &*credential),
            ("X-Amz-Date", &*date),
            ("X-Amz-Expires", &*expires),
            ("X-Amz-SignedHeaders", &*signed_headers),
        ]);
        if let Some(token) = &credentials.session_token {
            query.push(("X-Amz-Security-Token", token.expose()));
        }
        let all = SignableRequest { query: &query, ..request.clone() };
        let signature = self.signature(&all, &digest_of(&all), credentials, &date);
        query.push(("X-Amz-Signature", &*signature));
        credlet_http::fetch::encode_form(&query)
    }

    /// Returns the value of the `Authorization` header. The request's headers must include `x-amz-date` ([`date`](Self::date)) and, if
    /// the credentials have a session token, `x-amz-security-token`.
    pub fn authorization(&self, request: &SignableRequest<'_>, credentials: &AwsCredentials) -> Zeroizing<String> {
        self.authorization_with(request, &digest_of(request), credentials)
    }

    /// Like [`authorization`](Self::authorization), with `payload` instead of the digest of `body`: a SHA-256 in hexadecimal, or
    /// [`UNSIGNED_PAYLOAD`](Self::UNSIGNED_PAYLOAD).
    pub fn authorization_with(
        &self,
        request: &SignableRequest<'_>,
        payload: &str,
        credentials: &AwsCredentials,
    ) -> Zeroizing<String> {
        let date = self.date();
        let signature = self.signature(request, payload, credentials, &date);
        Zeroizing::new(format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={}, Signature={signature}",
            credentials.access_key_id.expose(),
            self.name(&date),
            names(request.headers),
        ))
    }

    /// Returns the value of the `x-amz-date` header, such as `20261115T191749Z`.
    pub fn date(&self) -> String {
        let at = Offset::UTC.to_datetime(self.at);
        let (year, month, day) = (at.year(), at.month(), at.day());
        format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", at.hour(), at.minute(), at.second())
    }

    /// The credential scope, such as `20261115/eu-west-3/sts/aws4_request`.
    fn name(&self, date: &str) -> String {
        format!("{}/{}/{}/aws4_request", &date[..8], self.region, self.service)
    }

    fn signature(
        &self,
        request: &SignableRequest<'_>,
        payload: &str,
        credentials: &AwsCredentials,
        date: &str,
    ) -> String {
        let canonical = canonical(request, payload);
        let to_sign = format!(
            "{ALGORITHM}\n{date}\n{}\n{}",
            self.name(date),
            credlet_api::hex(sha256(canonical.as_bytes()).as_ref())
        );
        let secret = Zeroizing::new(format!("AWS4{}", credentials.secret_access_key.expose()));
        let key = [&date[..8], self.region, self.service, "aws4_request"]
            .into_iter()
            .fold(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), |key, part| {
                hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
            });
        credlet_api::hex(hmac::sign(&key, to_sign.as_bytes()).as_ref())
    }
}

/// The canonical request.
fn canonical(request: &SignableRequest<'_>, payload: &str) -> Zeroizing<String> {
    let mut query: Vec<_> =
        request.query.iter().map(|(name, value)| (percent_encode(name), percent_encode(value))).collect();
    query.sort_by(|(a, b), (c, d)| (&**a, &**b).cmp(&(&**c, &**d)));
    let mut text = Zeroizing::new(format!("{}\n{}\n", request.method, request.path));
    for (at, (name, value)) in query.iter().enumerate() {
        let separator = if at == 0 { "" } else { "&" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}={}", **name, **value);
    }
    text.push('\n');
    for (name, value) in sorted(request.headers) {
        let value: Vec<_> = value.split_ascii_whitespace().collect();
        let _ = writeln!(text, "{name}:{}", value.join(" "));
    }
    let _ = write!(text, "\n{}\n{payload}", names(request.headers));
    text
}

fn sorted<'a>(headers: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut headers = headers.to_vec();
    headers.sort_unstable();
    headers
}

fn names(headers: &[(&str, &str)]) -> String {
    sorted(headers).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(";")
}

fn digest_of(request: &SignableRequest<'_>) -> String {
    credlet_api::hex(sha256(request.body).as_ref())
}

fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the AWS documentation.
    #[test]
    fn matches_documentation_example() {
        let credentials = AwsCredentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None);
        let scope = SigningScope { region: "us-east-1", service: "iam", at: "2015-08-30T12:36:00Z".parse().unwrap() };
        let request = SignableRequest {
            method: "GET",
            path: "/",
            query: &[("Version", "2010-05-08"), ("Action", "ListUsers")],
            headers: &[
                ("x-amz-date", "20150830T123600Z"),
                ("host", "iam.amazonaws.com"),
                ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
            ],
            body: b"",
        };
        assert_eq!(
            &**scope.authorization(&request, &credentials),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        );
    }
}
