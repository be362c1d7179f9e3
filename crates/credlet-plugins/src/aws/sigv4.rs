//! AWS's signature version 4, on the HMAC of the library that rustls stands on.
//!
//! It is ours because it is short: the crate `aws-sigv4` would bring 16 crates that nothing else here needs, and 260 kB
//! of program.

use std::fmt::Write as _;

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;
use jiff::tz::Offset;
use zeroize::Zeroizing;

use super::Credentials;
use crate::web::escaped;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// For whom and when a signature is good.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// `eu-west-3`
    pub region: &'a str,
    /// `sts`
    pub service: &'a str,
    /// The moment of the signature.
    pub at: Timestamp,
}

/// A request to be signed.
#[derive(Clone, Debug)]
pub struct Signed<'a> {
    /// `GET`
    pub method: &'a str,
    /// As it is sent, escaped already.
    pub path: &'a str,
    /// Names and values before escaping, in any order.
    pub query: &'a [(&'a str, &'a str)],
    /// The headers that are signed, with lower-case names; `host` must be one.
    pub headers: &'a [(&'a str, &'a str)],
    /// All of it.
    pub body: &'a [u8],
}

impl Scope<'_> {
    /// What stands for the digest of a body that is not signed.
    pub const UNSIGNED_PAYLOAD: &'static str = "UNSIGNED-PAYLOAD";

    /// The query that makes a URL of this request good for everybody who holds it: the request's own parameters, those
    /// of the signature, and the signature, in the order in which awscli writes them.
    pub fn presign(&self, request: &Signed<'_>, credentials: &Credentials, expires: u32) -> Zeroizing<String> {
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
        let all = Signed { query: &query, ..request.clone() };
        let signature = self.signature(&all, &digest_of(&all), credentials, &date);
        query.push(("X-Amz-Signature", &*signature));
        crate::web::form(&query)
    }

    /// The value of the header `Authorization`. The headers `x-amz-date` ([`date`](Self::date)) and, if the credentials
    /// have a session token, `x-amz-security-token` must be among the request's.
    pub fn authorization(&self, request: &Signed<'_>, credentials: &Credentials) -> Zeroizing<String> {
        self.authorization_with(request, &digest_of(request), credentials)
    }

    /// The same with the digest of a body that is not at hand, in hexadecimal, or with
    /// [`UNSIGNED_PAYLOAD`](Self::UNSIGNED_PAYLOAD) in its place. The request's own `body` is not looked at.
    pub fn authorization_with(
        &self,
        request: &Signed<'_>,
        payload: &str,
        credentials: &Credentials,
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

    /// `20261115T191749Z`
    pub fn date(&self) -> String {
        let at = Offset::UTC.to_datetime(self.at);
        let (year, month, day) = (at.year(), at.month(), at.day());
        format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", at.hour(), at.minute(), at.second())
    }

    /// `20261115/eu-west-3/sts/aws4_request`
    fn name(&self, date: &str) -> String {
        format!("{}/{}/{}/aws4_request", &date[..8], self.region, self.service)
    }

    fn signature(&self, request: &Signed<'_>, payload: &str, credentials: &Credentials, date: &str) -> String {
        let canonical = canonical(request, payload);
        let to_sign =
            format!("{ALGORITHM}\n{date}\n{}\n{}", self.name(date), hex(sha256(canonical.as_bytes()).as_ref()));
        let secret = Zeroizing::new(format!("AWS4{}", credentials.secret_access_key.expose()));
        let key = [&date[..8], self.region, self.service, "aws4_request"]
            .into_iter()
            .fold(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), |key, part| {
                hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
            });
        hex(hmac::sign(&key, to_sign.as_bytes()).as_ref())
    }
}

/// The one form of a request that both sides sign.
fn canonical(request: &Signed<'_>, payload: &str) -> Zeroizing<String> {
    let mut query: Vec<_> = request.query.iter().map(|(name, value)| (escaped(name), escaped(value))).collect();
    query.sort_by(|(a, b), (c, d)| (&**a, &**b).cmp(&(&**c, &**d)));
    let mut text = Zeroizing::new(format!("{}\n{}\n", request.method, request.path));
    for (at, (name, value)) in query.iter().enumerate() {
        let separator = if at == 0 { "" } else { "&" };
        // Writing to a string cannot fail, here and below.
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

fn digest_of(request: &Signed<'_>) -> String {
    hex(sha256(request.body).as_ref())
}

fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's own documentation of the algorithm.
    #[test]
    fn a_request_is_signed_as_the_documentation_signs_it() {
        let credentials = Credentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None);
        let scope = Scope { region: "us-east-1", service: "iam", at: "2015-08-30T12:36:00Z".parse().unwrap() };
        let request = Signed {
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
