//! ID tokens of CI jobs, by the protocol of GitHub Actions.

use credlet_api::Secret;
use credlet_exec::Env;
use credlet_http::ServerAddr;
use http::header::AUTHORIZATION;
use serde::Deserialize;

use super::{IdentityToken, TokenError, rejected};
use crate::plugin_runner::env_var;
use credlet_http::fetch::{EndpointPolicy, FetchRequest, HttpFetcher, percent_encode};

const URL_VAR: &str = "ACTIONS_ID_TOKEN_REQUEST_URL";
const TOKEN_VAR: &str = "ACTIONS_ID_TOKEN_REQUEST_TOKEN";
const WHAT: &str = "ID token of the CI job";

/// Domains of GitHub's token service: github.com and GitHub Enterprise Cloud with data residency.
const GITHUB_DOMAINS: [&str; 2] = ["actions.githubusercontent.com", "ghe.com"];

/// Whether this process is a CI job that may request an ID token from GitHub Actions or a compatible system.
pub fn ci_id_token_available(env: &dyn Env) -> bool {
    env_var(env, URL_VAR).is_some() && env_var(env, TOKEN_VAR).is_some()
}

/// Requests an ID token for this audience. `None`: the default audience of the CI system. The job's request token, which is
/// sufficient to obtain ID tokens of this job, is sent only to GitHub, to the server in `GITHUB_SERVER_URL` and to loopback. Needs
/// a tokio runtime with time and io enabled.
///
/// # Errors
/// When the job may not request ID tokens, or the response has no JWT.
pub async fn request_ci_id_token(
    audience: Option<&str>,
    fetcher: &HttpFetcher,
    env: &dyn Env,
) -> Result<IdentityToken, TokenError> {
    #[derive(Deserialize)]
    struct IdTokenResponse {
        value: Secret,
    }
    let missing = |name: &str| TokenError::MissingSetting {
        what: format!("environment variable {name}"),
        hint: "on GitHub the job needs `permissions: {id-token: write}`, and the step must not clear its environment",
    };
    let url = env_var(env, URL_VAR).ok_or_else(|| missing(URL_VAR))?;
    let bearer = env_var(env, TOKEN_VAR).ok_or_else(|| missing(TOKEN_VAR))?;
    let url = match audience {
        Some(audience) => {
            format!("{url}{}audience={}", if url.contains('?') { '&' } else { '?' }, *percent_encode(audience))
        }
        None => url,
    };
    let failed = |source| TokenError::Request { what: WHAT.into(), source };
    let request = FetchRequest::get(url)
        .policy(policy(env))
        .secret_header(AUTHORIZATION, &Secret::new(format!("bearer {bearer}")))
        .map_err(failed)?;
    let response = fetcher.fetch(request).await.map_err(failed)?;
    if !response.status.is_success() {
        return Err(rejected(&response, WHAT, |_| Some("the job needs `permissions: {id-token: write}`")));
    }
    let issued: IdTokenResponse = response.json().map_err(failed)?;
    let fault = match issued.value.is_empty() {
        true => "it has an empty token",
        false => "it has no JSON web token",
    };
    IdentityToken::parse(issued.value.expose()).map_err(|_| failed(response.invalid_response(fault)))
}

fn policy(env: &dyn Env) -> EndpointPolicy {
    let server = env_var(env, "GITHUB_SERVER_URL").and_then(|url| ServerAddr::parse(&url).ok());
    let server = server.map(|server| server.host().to_owned()).filter(|host| host != "github.com");
    EndpointPolicy::default().only(GITHUB_DOMAINS.map(str::to_owned).into_iter().chain(server))
}
