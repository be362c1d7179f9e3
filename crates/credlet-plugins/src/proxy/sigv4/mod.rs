//! Requests signed with AWS's signature version 4, for API servers and gateways that know people by it.
//!
//! **The path:** [`Sigv4Signer::new`] is told where credentials are → a [`Chain`] finds them, and they are kept fresh in a
//! [`Flight`] → [`sign`](Signer::sign) puts date, digest and signature on each request; `canonical` is the form that
//! both sides agree on.
//!
//! The signature covers the method, the path, the query, the host, the content type, everything that says on whose behalf
//! the request is (`Impersonate-*`), and the digest of the body. A signed header that somebody on the way changed, or an
//! `Impersonate-User` that somebody on the way added to those, makes it worthless.

mod canonical;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use credlet_api::exec::Response;
use credlet_client::conn::Credential;
use credlet_core::{Clock, Entry, Fetched, Flight, Patience, Source, Why, World};
use credlet_proxy::sign::{BodyDigest, BodyRule, SignError, Signer, Signing};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use crate::aws::{self, AwsError, Chain, Credentials, Scope, Signed, hex};

/// The largest body that is read to be hashed. API requests have 3 MiB at most; more only goes through an API server to
/// somebody else.
pub const LARGEST_BODY: usize = 8 << 20;

/// AWS takes signatures that are younger than this, and clocks that differ by less.
const SKEW: i64 = 5 * 60;

/// After this long, keys that do not say when they end are looked for again. Tools that log people in write keys of some
/// hours into `~/.aws/credentials`, and AWS has no `401` by which we would learn that those of before are over.
const LOOK: Duration = Duration::from_secs(60);

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const DIGEST: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// What a request is signed for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// `eu-west-3`
    pub region: String,
    /// `eks`, `execute-api`
    pub service: String,
    /// Whether a body that is too large to be hashed goes out unsigned. Otherwise its request is refused (413).
    pub unsigned_large_bodies: bool,
}

impl Options {
    /// With every body signed.
    pub fn new(region: impl Into<String>, service: impl Into<String>) -> Self {
        Self { region: region.into(), service: service.into(), unsigned_large_bodies: false }
    }
}

/// Signs each request.
pub struct Sigv4Signer {
    options: Options,
    credentials: Flight<FromChain>,
    clock: Arc<dyn Clock>,
    /// How many seconds the server's clock is ahead of ours, once that has been said.
    skew: AtomicI64,
    signatures: AtomicU64,
}

impl Sigv4Signer {
    /// With the credentials that a [`Chain`] finds with these options. Nothing is read or fetched yet.
    pub fn new(options: Options, credentials: aws::Options, world: &World) -> Self {
        let source = FromChain { options: credentials, world: world.clone() };
        let credentials = Flight::new(source, world.clock.clone(), Patience::default());
        Self {
            options,
            credentials,
            clock: world.clock.clone(),
            skew: AtomicI64::new(0),
            signatures: AtomicU64::new(0),
        }
    }

    async fn current(&self) -> Result<Arc<Entry<Credentials>>, SignError> {
        self.credentials.get().await.map_err(|error| refusal(&error))
    }
}

impl Signer for Sigv4Signer {
    /// No header and no certificate; but a serial that changes with the credentials.
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async move { Ok(Credential::new(self.current().await?.generation(), None, None)) })
    }

    fn body(&self, _: &Parts) -> BodyRule {
        let max = LARGEST_BODY;
        if self.options.unsigned_large_bodies { BodyRule::HashUpTo { max } } else { BodyRule::Hash { max } }
    }

    fn sign<'a>(&'a self, head: &'a mut Parts, body: BodyDigest) -> Signing<'a, ()> {
        Box::pin(async move {
            let credentials = self.current().await?;
            put_signature(head, body, &self.options, credentials.value(), self.clock.now())?;
            self.signatures.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    fn refused(&self, serial: u64) -> Signing<'_, bool> {
        Box::pin(async move {
            let current = self.current().await?;
            if current.generation() != serial {
                return Ok(true);
            }
            let response = Response { code: 401, ..Response::default() };
            let other = self.credentials.replace(&current, response).await.map_err(|error| refusal(&error))?;
            Ok(other.is_some())
        })
    }

    fn signatures(&self) -> u64 {
        self.signatures.load(Ordering::Relaxed)
    }

    /// The server says what time it is. Said once for each size of the difference, to the minute: it is the person's
    /// clock that must be set.
    fn answered(&self, headers: &http::HeaderMap) {
        let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
        let Some(theirs) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else { return };
        let ahead = theirs.as_second() - self.clock.now().as_second();
        let said = self.skew.swap(ahead, Ordering::Relaxed);
        if ahead.abs() >= SKEW && (said.abs() < SKEW || said / 60 != ahead / 60) {
            let minutes = ahead / 60;
            tracing::warn!(
                minutes,
                "the server's clock is ahead of ours by this much, too much for its signatures: set the clock"
            );
        }
    }
}

impl fmt::Debug for Sigv4Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sigv4Signer").field("options", &self.options).finish_non_exhaustive()
    }
}

fn put_signature(
    head: &mut Parts,
    body: BodyDigest,
    options: &Options,
    credentials: &Credentials,
    now: Timestamp,
) -> Result<(), SignError> {
    // What the client sent of these would be signed, or believed, in place of ours.
    for name in [header::AUTHORIZATION, DATE, DIGEST, TOKEN] {
        head.headers.remove(name);
    }
    let scope = Scope { region: &options.region, service: &options.service, at: now };
    let payload = match body {
        BodyDigest::Sha256(digest) => hex(&digest),
        BodyDigest::Unknown => Scope::UNSIGNED_PAYLOAD.to_owned(),
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
    let request = Signed { method: head.method.as_str(), path: &path, query: &query, headers: &headers, body: &[] };
    let authorization = scope.authorization_with(&request, &payload, credentials);
    head.headers.insert(header::AUTHORIZATION, value(&authorization, true)?);
    Ok(())
}

fn value(text: &str, sensitive: bool) -> Result<HeaderValue, SignError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| SignError::Misconfigured { message: "the AWS credentials do not fit into a header".to_owned() })?;
    value.set_sensitive(sensitive);
    Ok(value)
}

/// The chain, as something that is asked once for everybody. Files and variables are read each time: they may say something
/// else by now.
#[derive(Debug)]
struct FromChain {
    options: aws::Options,
    world: World,
}

impl Source for FromChain {
    type Value = Credentials;
    type Error = AwsError;

    async fn fetch(&self, _: &Why) -> Result<Fetched<Credentials>, AwsError> {
        let chain = Chain::load(self.options.clone(), self.world.clone())?;
        if let Some(value) = chain.at_hand()? {
            let expires = value.expires.or_else(|| self.world.clock.now().checked_add(LOOK).ok());
            return Ok(Fetched { value, expires });
        }
        let value = chain.credentials().await?;
        let expires = value.expires;
        Ok(Fetched { value, expires })
    }

    fn abandoned(&self) -> AwsError {
        AwsError::Config { place: "the search for AWS credentials".to_owned(), reason: "was broken off".to_owned() }
    }
}

/// By who must act. Hints go with it: nobody else shows them to whoever reads the proxy's answer.
fn refusal(error: &AwsError) -> SignError {
    let message = [error.to_string()].into_iter().chain(error.hints()).collect::<Vec<_>>().join("; ");
    match error {
        AwsError::LogIn { .. } | AwsError::NobodyToAsk { .. } | AwsError::Expired { .. } => {
            SignError::Person { message }
        }
        AwsError::NoProfile { .. } | AwsError::Config { .. } | AwsError::File { .. } | AwsError::AwscliOnly { .. } => {
            SignError::Misconfigured { message }
        }
        _ => SignError::Unavailable { message },
    }
}

#[cfg(test)]
mod tests;
