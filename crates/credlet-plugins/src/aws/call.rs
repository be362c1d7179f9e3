//! Requests to AWS's services, signed; and those of the kind that speak JSON.

use std::time::Duration;

use credlet_api::Secret;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::sigv4::{Scope, Signed};
use super::{AwsError, Chain, Credentials, Endpoint, sts};
use crate::web::{Answer, Ask, Limits, WebError};

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const JSON: &str = "application/x-amz-json-1.1";

/// How long one attempt may take, and after how long the next one follows. All of them are over before a kubelet, which
/// waits for a minute, gives up.
const ATTEMPT: Limits = Limits { connect: Duration::from_secs(5), whole: Duration::from_secs(15), body: 1 << 20 };
const PAUSES: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

/// What is signed, besides host and time.
pub(super) struct Post<'a> {
    pub(super) service: &'a str,
    /// Names in lower case.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

impl Chain {
    pub(super) fn signed(
        &self,
        ask: Ask,
        endpoint: &Endpoint,
        post: &Post<'_>,
        credentials: &Credentials,
    ) -> Result<Ask, WebError> {
        let scope = Scope { region: &endpoint.region, service: post.service, at: self.world.clock.now() };
        let date = scope.date();
        let mut headers = [post.headers, &[("host", endpoint.host()), ("x-amz-date", &*date)]].concat();
        headers.extend(credentials.session_token.as_ref().map(|token| ("x-amz-security-token", token.expose())));
        let path = endpoint.url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let path = path.map_or_else(|| "/".to_owned(), |(_, path)| format!("/{path}/"));
        let signed = Signed { method: "POST", path: &path, query: &[], headers: &headers, body: post.body };
        let authorization = Secret::new(scope.authorization(&signed, credentials).as_str());
        let ask =
            ask.secret_header(DATE, &Secret::new(&*date))?.secret_header(header::AUTHORIZATION, &authorization)?;
        match &credentials.session_token {
            Some(token) => ask.secret_header(SECURITY_TOKEN, token),
            None => Ok(ask),
        }
    }

    /// Calls an operation that takes no arguments of a service that speaks JSON, again if the service is busy.
    ///
    /// # Errors
    /// When it says no, or nothing.
    pub(crate) async fn call(
        &self,
        what: &str,
        endpoint: &Endpoint,
        (service, target): (&str, &'static str),
        credentials: &Credentials,
    ) -> Result<Answer, AwsError> {
        let failed = |source| AwsError::Web { what: what.to_owned(), source };
        let mut pauses = PAUSES.into_iter();
        loop {
            let ask = Ask::post_json(format!("{}/", endpoint.url), &serde_json::Map::new())
                .plain(endpoint.plain())
                .limits(ATTEMPT)
                .header(header::CONTENT_TYPE, HeaderValue::from_static(JSON))
                .header(TARGET, HeaderValue::from_static(target));
            let post = Post { service, headers: &[("content-type", JSON), ("x-amz-target", target)], body: b"{}" };
            let ask = self.signed(ask, endpoint, &post, credentials).map_err(failed)?;
            let outcome = match self.web.fetch(ask).await {
                Ok(answer) if answer.status == StatusCode::OK => return Ok(answer),
                Ok(answer) => {
                    self.compare_clocks(&answer)?;
                    let busy = answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS;
                    let error = refusal(&answer, what, credentials);
                    (error.is_throttled() || busy, error)
                }
                Err(source) => (matches!(source, WebError::Connection { .. }), failed(source)),
            };
            match (outcome, pauses.next()) {
                ((true, _), Some(pause)) => self.world.clock.sleep(pause).await,
                ((_, error), _) => return Err(error),
            }
        }
    }
}

impl AwsError {
    fn is_throttled(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.starts_with("Throttling") || code == "TooManyRequestsException")
    }
}

fn refusal(answer: &Answer, what: &str, credentials: &Credentials) -> AwsError {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(rename = "__type")]
        kind: String,
        #[serde(default, alias = "Message")]
        message: String,
    }
    let refusal: Refusal = match answer.json() {
        Ok(refusal) => refusal,
        Err(source) => return AwsError::Web { what: what.to_owned(), source },
    };
    // Older services put the name of their own package before the code.
    let code = sts::word(refusal.kind.rsplit('#').next().unwrap_or_default());
    // Those about signatures repeat the whole request and help nobody.
    let message = Some(refusal.message).filter(|_| !code.contains("Signature"));
    let message = message.and_then(|message| sts::told(&message, credentials.secrets()));
    AwsError::Refused { host: answer.host.clone(), what: what.to_owned(), code, message }
}
