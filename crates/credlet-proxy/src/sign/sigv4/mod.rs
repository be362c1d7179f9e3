//! Signs requests with AWS Signature Version 4, for API servers and gateways that authenticate by it.
//!
//! [`Sigv4Signer`] obtains credentials from a [`CredentialChain`] and keeps them fresh. [`sign`](Signer::sign) adds date, digest and
//! signature to each request; `canonical` computes the canonical request.
//!
//! The signature covers method, path, query, host, content type, all `Impersonate-*` headers and the digest of the body. If a party on the
//! way changes one of them, or adds an `Impersonate-*` header, the signature is invalid.

mod canonical;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::sign::{BodyDigest, BodyDigestRule, SignError, SignFuture, Signer};
use credlet_api::exec::FailedResponse;
use credlet_exec::{CachedValue, Clock, FetchReason, FetchedValue, Platform, RefreshPolicy, RefreshingCache, Source};
use credlet_http::HttpCredential;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use credlet_api::hex;
use credlet_cloud::aws::{self, AwsCredentials, AwsError, CredentialChain, SignableRequest, SigningScope};

/// Maximum size of a body that is hashed, in bytes. API requests have at most 3 MiB; larger bodies only pass through an API server, to
/// pods or aggregated APIs.
pub const MAX_SIGNED_BODY: usize = 8 << 20;

/// Maximum clock difference in seconds that AWS accepts.
const MAX_CLOCK_SKEW: i64 = 5 * 60;

/// Interval after which keys without an expiry are loaded again. Login tools write keys that are valid for some hours to
/// `~/.aws/credentials`, and AWS does not respond with 401 when they expire.
const STATIC_KEY_RELOAD_INTERVAL: Duration = Duration::from_secs(60);

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const DIGEST: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Settings of a [`Sigv4Signer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sigv4Options {
    /// Region to sign for, for example `eu-west-3`.
    pub region: String,
    /// Service to sign for, for example `eks` or `execute-api`.
    pub service: String,
    /// Whether a body larger than [`MAX_SIGNED_BODY`] is sent unsigned. Otherwise its request is rejected with 413.
    pub unsigned_large_bodies: bool,
}

impl Sigv4Options {
    /// Creates settings that sign every body.
    pub fn new(region: impl Into<String>, service: impl Into<String>) -> Self {
        Self { region: region.into(), service: service.into(), unsigned_large_bodies: false }
    }
}

/// Signs requests with AWS Signature Version 4.
pub struct Sigv4Signer {
    options: Sigv4Options,
    credentials: RefreshingCache<ChainSource>,
    clock: Arc<dyn Clock>,
    /// Last observed difference between the server's clock and the local one, in seconds.
    skew: AtomicI64,
    signatures: AtomicU64,
}

impl Sigv4Signer {
    /// Creates a signer with the credentials of a [`CredentialChain`], which is loaded with the first request.
    pub fn new(options: Sigv4Options, credentials: aws::AwsOptions, platform: &Platform) -> Self {
        let source = ChainSource { options: credentials, platform: platform.clone() };
        let credentials = RefreshingCache::new(source, platform.clock.clone(), RefreshPolicy::default());
        Self {
            options,
            credentials,
            clock: platform.clock.clone(),
            skew: AtomicI64::new(0),
            signatures: AtomicU64::new(0),
        }
    }

    async fn current(&self) -> Result<Arc<CachedValue<AwsCredentials>>, SignError> {
        self.credentials.get().await.map_err(|error| sign_error(&error))
    }
}

impl Signer for Sigv4Signer {
    /// Has no header and no certificate, only a generation that changes with the credentials.
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async move { Ok(HttpCredential::new(self.current().await?.generation(), None, None)) })
    }

    fn body(&self, _: &Parts) -> BodyDigestRule {
        let max = MAX_SIGNED_BODY;
        if self.options.unsigned_large_bodies { BodyDigestRule::HashUpTo { max } } else { BodyDigestRule::Hash { max } }
    }

    fn sign<'a>(&'a self, head: &'a mut Parts, body: BodyDigest) -> SignFuture<'a, ()> {
        Box::pin(async move {
            let credentials = self.current().await?;
            sign_request(head, body, &self.options, credentials.value(), self.clock.now())?;
            self.signatures.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    fn on_unauthorized(&self, serial: u64) -> SignFuture<'_, bool> {
        Box::pin(async move {
            let current = self.current().await?;
            if current.generation() != serial {
                return Ok(true);
            }
            let response = FailedResponse { code: 401, ..FailedResponse::default() };
            let other = self.credentials.replace(&current, response).await.map_err(|error| sign_error(&error))?;
            Ok(other.is_some())
        })
    }

    fn signature_count(&self) -> u64 {
        self.signatures.load(Ordering::Relaxed)
    }

    /// Compares the local clock with the `Date` header of a response, and logs a warning once per difference in minutes.
    fn on_response(&self, headers: &http::HeaderMap) {
        let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
        let Some(theirs) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else { return };
        let ahead = theirs.as_second() - self.clock.now().as_second();
        let previous = self.skew.swap(ahead, Ordering::Relaxed);
        if ahead.abs() >= MAX_CLOCK_SKEW && (previous.abs() < MAX_CLOCK_SKEW || previous / 60 != ahead / 60) {
            let minutes = ahead / 60;
            tracing::warn!(minutes, "the server's clock is ahead, so that it rejects signatures: set the local clock");
        }
    }
}

impl fmt::Debug for Sigv4Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sigv4Signer").field("options", &self.options).finish_non_exhaustive()
    }
}

fn sign_request(
    head: &mut Parts,
    body: BodyDigest,
    options: &Sigv4Options,
    credentials: &AwsCredentials,
    now: Timestamp,
) -> Result<(), SignError> {
    // Values that the client sent would be signed or used instead.
    for name in [header::AUTHORIZATION, DATE, DIGEST, TOKEN] {
        head.headers.remove(name);
    }
    let scope = SigningScope { region: &options.region, service: &options.service, at: now };
    let payload = match body {
        BodyDigest::Sha256(digest) => hex(digest),
        BodyDigest::Unknown => SigningScope::UNSIGNED_PAYLOAD.to_owned(),
    };
    head.headers.insert(DATE, value(&scope.date(), false)?);
    head.headers.insert(DIGEST, value(&payload, false)?);
    if let Some(token) = &credentials.session_token {
        head.headers.insert(TOKEN, value(token.expose(), true)?);
    }
    let path = canonical::path(head.uri.path(), &options.service);
    let query = canonical::query(head.uri.query().unwrap_or_default());
    let query: Vec<_> = query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let headers = canonical::headers(head)?;
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let request =
        SignableRequest { method: head.method.as_str(), path: &path, query: &query, headers: &headers, body: &[] };
    let authorization = scope.authorization_with(&request, &payload, credentials);
    head.headers.insert(header::AUTHORIZATION, value(&authorization, true)?);
    Ok(())
}

fn value(text: &str, sensitive: bool) -> Result<HeaderValue, SignError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| SignError::Misconfigured {
        message: "invalid AWS credentials: not valid as a header value".to_owned(),
    })?;
    value.set_sensitive(sensitive);
    Ok(value)
}

/// Loads the credential chain for each fetch, because files and environment variables may have changed.
#[derive(Debug)]
struct ChainSource {
    options: aws::AwsOptions,
    platform: Platform,
}

impl Source for ChainSource {
    type Value = AwsCredentials;
    type Error = AwsError;

    async fn fetch(&self, _: &FetchReason) -> Result<FetchedValue<AwsCredentials>, AwsError> {
        let chain = CredentialChain::load(self.options.clone(), self.platform.clone())?;
        if let Some(value) = chain.static_credentials()? {
            let expires =
                value.expires.or_else(|| self.platform.clock.now().checked_add(STATIC_KEY_RELOAD_INTERVAL).ok());
            return Ok(FetchedValue { value, expires });
        }
        let value = chain.credentials().await?;
        let expires = value.expires;
        Ok(FetchedValue { value, expires })
    }

    fn cancelled(&self) -> AwsError {
        AwsError::Cancelled
    }
}

/// Converts an error by the party that has to act. The message includes the hints, because the proxy's response has no other place for
/// them.
fn sign_error(error: &AwsError) -> SignError {
    let message = [error.to_string()].into_iter().chain(error.hints()).collect::<Vec<_>>().join("; ");
    match error {
        AwsError::SsoLoginRequired { .. } | AwsError::MfaUnavailable { .. } | AwsError::Expired { .. } => {
            SignError::UserActionRequired { message }
        }
        AwsError::ProfileNotFound { .. }
        | AwsError::InvalidConfig { .. }
        | AwsError::ReadFile { .. }
        | AwsError::UnsupportedLogin { .. }
        | AwsError::Cancelled => SignError::Misconfigured { message },
        _ => SignError::Unavailable { message },
    }
}

#[cfg(test)]
mod tests;
