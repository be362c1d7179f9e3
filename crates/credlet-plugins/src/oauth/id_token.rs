//! The token that a CI system gives to its jobs, to say who they are.

use credlet_api::Secret;
use credlet_core::Env;
use http::header::AUTHORIZATION;
use serde::Deserialize;

use super::{Error, refused};
use crate::harness::var;
use crate::web::{Ask, Web, escaped};

const URL: &str = "ACTIONS_ID_TOKEN_REQUEST_URL";
const TOKEN: &str = "ACTIONS_ID_TOKEN_REQUEST_TOKEN";
const WHAT: &str = "the job's id token";

/// Whether this is a job of GitHub Actions (or of one who does as it does) that may ask for a token.
pub fn is_offered(env: &dyn Env) -> bool {
    var(env, URL).is_some() && var(env, TOKEN).is_some()
}

/// Asks for a token for this audience; `None`: the CI's own. It needs a tokio runtime with time and io.
///
/// # Errors
/// When this job may not have one.
pub async fn id_token(audience: Option<&str>, web: &Web, env: &dyn Env) -> Result<Secret, Error> {
    #[derive(Deserialize)]
    struct Issued {
        value: Secret,
    }
    let missing = |name: &str| Error::Missing {
        what: format!("{name} in the environment"),
        hint: "on GitHub the job needs `permissions: {id-token: write}`, and the step must not clear its environment",
    };
    let url = var(env, URL).ok_or_else(|| missing(URL))?;
    let bearer = var(env, TOKEN).ok_or_else(|| missing(TOKEN))?;
    let url = match audience {
        Some(audience) => format!("{url}{}audience={}", if url.contains('?') { '&' } else { '?' }, *escaped(audience)),
        None => url,
    };
    let failed = |source| Error::Web { what: WHAT.into(), source };
    let ask = Ask::get(url).secret_header(AUTHORIZATION, &Secret::new(format!("bearer {bearer}"))).map_err(failed)?;
    let answer = web.fetch(ask).await.map_err(failed)?;
    if !answer.status.is_success() {
        return Err(refused(&answer, WHAT, |_| Some("the job needs `permissions: {id-token: write}`")));
    }
    let issued: Issued = answer.json().map_err(failed)?;
    if issued.value.is_empty() {
        return Err(failed(answer.nonsense("that has an empty token in it")));
    }
    Ok(issued.value)
}
