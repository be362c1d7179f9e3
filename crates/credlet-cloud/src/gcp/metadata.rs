//! The metadata server of Compute Engine, GKE and Cloud Run.

use std::time::Duration;

use credlet_exec::Env;
use http::{HeaderName, HeaderValue};

use super::{AccessToken, GoogleClient};
use crate::oauth::{TokenError, parse_token_response, rejected};
use crate::plugin_runner::env_var;
use credlet_http::fetch::{EndpointPolicy, FetchError, FetchLimits, FetchRequest, FetchResponse, percent_encode};

const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
const WHAT: &str = "token of the instance's service account";

/// Short, because outside of Google Cloud no host responds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the metadata server may be used. `NO_GCE_CHECK=true` disables it, as in Google's libraries.
pub(super) fn is_enabled(env: &dyn Env) -> bool {
    !env_var(env, "NO_GCE_CHECK").is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

impl GoogleClient {
    /// Returns a token of a service account of this instance, usually `default`. Without scopes it has those of the instance.
    ///
    /// # Errors
    /// When the metadata server is unreachable, or the instance does not have this account.
    pub async fn metadata_token(&self, account: &str, scopes: &[&str]) -> Result<AccessToken, TokenError> {
        let mut path = format!("instance/service-accounts/{}/token", *percent_encode(account));
        if !scopes.is_empty() {
            path = format!("{path}?scopes={}", *percent_encode(&scopes.join(",")));
        }
        let requested_at = self.platform.clock.now();
        let response = self.metadata(&path, WHAT).await?;
        parse_token_response(&response, WHAT, requested_at, hint)
    }

    /// Returns a metadata value, such as `project/project-id` or `instance/service-accounts/default/email`.
    ///
    /// # Errors
    /// When the metadata server is unreachable, or does not have this value.
    pub async fn metadata_value(&self, path: &str) -> Result<String, TokenError> {
        let what = format!("metadata value `{path}`");
        let response = self.metadata(path, &what).await?;
        if !response.status.is_success() {
            return Err(rejected(&response, &what, hint));
        }
        response.text().map(|text| text.trim().to_owned()).map_err(|source| TokenError::Request { what, source })
    }

    async fn metadata(&self, path: &str, what: &str) -> Result<FetchResponse, TokenError> {
        let env = &*self.platform.env;
        if !is_enabled(env) {
            return Err(absent("NO_GCE_CHECK is set".to_owned()));
        }
        let chosen = env_var(env, "GCE_METADATA_HOST");
        // The address of metadata.google.internal, to avoid a DNS look-up.
        let host = chosen.as_deref().unwrap_or("169.254.169.254");
        let limits = FetchLimits { connect: CONNECT_TIMEOUT, total: TIMEOUT, ..FetchLimits::default() };
        let request = FetchRequest::get(format!("http://{host}/computeMetadata/v1/{path}"));
        let request = request.policy(EndpointPolicy::link_local()).limits(limits);
        let response = self.fetcher.fetch(request.header(FLAVOR, HeaderValue::from_static("Google"))).await;
        response.map_err(|source| match source {
            FetchError::Connection { .. } | FetchError::TimedOut { .. } if chosen.is_none() => {
                absent("not running on Google Cloud".to_owned())
            }
            source => TokenError::Request { what: what.to_owned(), source },
        })
    }
}

fn absent(reason: String) -> TokenError {
    TokenError::NoCredentials {
        cloud: "Google Cloud",
        tried: vec![reason],
        hint: "log in with `gcloud auth login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file",
    }
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        "404" => Some("the instance does not have this service account"),
        "403" => Some("the instance's service account does not have these scopes"),
        _ => None,
    }
}
