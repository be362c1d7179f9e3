//! Signed requests, and calls of AWS JSON services with retries.

use std::time::Duration;

use credlet_api::Secret;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::sigv4::{SignableRequest, SigningScope};
use super::{AwsCredentials, AwsEndpoint, AwsError, CredentialChain, sts};
use credlet_http::fetch::{FetchError, FetchLimits, FetchRequest, FetchResponse};

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const JSON: &str = "application/x-amz-json-1.1";

/// Limits of one attempt. With [`RETRY_DELAYS`], all attempts end within the 60 s after which a kubelet gives up.
const ATTEMPT_LIMITS: FetchLimits =
    FetchLimits { connect: Duration::from_secs(5), total: Duration::from_secs(15), max_body: 1 << 20 };
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(2)];

/// The signed parts of a POST request besides host and time.
pub(super) struct PostRequest<'a> {
    pub(super) service: &'a str,
    /// Header names in lower case.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

impl CredentialChain {
    pub(super) fn sign_post(
        &self,
        request: FetchRequest,
        endpoint: &AwsEndpoint,
        post: &PostRequest<'_>,
        credentials: &AwsCredentials,
    ) -> Result<FetchRequest, FetchError> {
        let scope = SigningScope { region: &endpoint.region, service: post.service, at: self.platform.clock.now() };
        let date = scope.date();
        let mut headers = [post.headers, &[("host", endpoint.host()), ("x-amz-date", &*date)]].concat();
        headers.extend(credentials.session_token.as_ref().map(|token| ("x-amz-security-token", token.expose())));
        let path = endpoint.url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let path = path.map_or_else(|| "/".to_owned(), |(_, path)| format!("/{path}/"));
        let signed = SignableRequest { method: "POST", path: &path, query: &[], headers: &headers, body: post.body };
        let authorization = Secret::new(scope.authorization(&signed, credentials).as_str());
        let request =
            request.secret_header(DATE, &Secret::new(&*date))?.secret_header(header::AUTHORIZATION, &authorization)?;
        match &credentials.session_token {
            Some(token) => request.secret_header(SECURITY_TOKEN, token),
            None => Ok(request),
        }
    }

    /// Calls an operation without arguments of an AWS JSON service. Retries connection failures, throttling and server errors.
    /// `what` describes the requested object in errors.
    pub(crate) async fn call(
        &self,
        what: &str,
        endpoint: &AwsEndpoint,
        (service, target): (&str, &'static str),
        credentials: &AwsCredentials,
    ) -> Result<FetchResponse, AwsError> {
        let failed = |source| AwsError::Request { what: what.to_owned(), source };
        let mut retry_delays = RETRY_DELAYS.into_iter();
        loop {
            let request = FetchRequest::post_json(format!("{}/", endpoint.url), &serde_json::Map::new())
                .policy(endpoint.policy())
                .limits(ATTEMPT_LIMITS)
                .header(header::CONTENT_TYPE, HeaderValue::from_static(JSON))
                .header(TARGET, HeaderValue::from_static(target));
            let post =
                PostRequest { service, headers: &[("content-type", JSON), ("x-amz-target", target)], body: b"{}" };
            let request = self.sign_post(request, endpoint, &post, credentials).map_err(failed)?;
            let outcome = match self.fetcher.fetch(request).await {
                Ok(response) if response.status == StatusCode::OK => return Ok(response),
                Ok(response) => {
                    self.check_clock_skew(&response)?;
                    let busy = response.status.is_server_error() || response.status == StatusCode::TOO_MANY_REQUESTS;
                    let error = rejection(&response, what, credentials);
                    (error.is_throttled() || busy, error)
                }
                Err(source) => (matches!(source, FetchError::Connection { .. }), failed(source)),
            };
            match (outcome, retry_delays.next()) {
                ((true, _), Some(pause)) => self.platform.clock.sleep(pause).await,
                ((_, error), _) => return Err(error),
            }
        }
    }
}

impl AwsError {
    fn is_throttled(&self) -> bool {
        matches!(self, Self::Rejected { code, .. } if code.starts_with("Throttling") || code == "TooManyRequestsException")
    }
}

fn rejection(response: &FetchResponse, what: &str, credentials: &AwsCredentials) -> AwsError {
    #[derive(Deserialize)]
    struct ErrorResponse {
        #[serde(rename = "__type")]
        kind: String,
        #[serde(default, alias = "Message")]
        message: String,
    }
    let refusal: ErrorResponse = match response.json() {
        Ok(refusal) => refusal,
        Err(source) => return AwsError::Request { what: what.to_owned(), source },
    };
    // Older services prefix the code with a package name.
    let code = sts::sanitize_code(refusal.kind.rsplit('#').next().unwrap_or_default());
    // Messages about signatures repeat the whole request.
    let message = Some(refusal.message).filter(|_| !code.contains("Signature"));
    let message = message.and_then(|message| sts::sanitize_message(&message, credentials.secrets()));
    AwsError::Rejected { host: response.host.clone(), what: what.to_owned(), code, message }
}
