//! The machine's own account: the metadata server of Compute Engine, GKE and Cloud Run.

use std::time::Duration;

use credlet_core::Env;
use http::{HeaderName, HeaderValue};

use super::{AccessToken, Google};
use crate::harness::var;
use crate::oauth::{Error, granted, refused};
use crate::web::{Answer, Ask, Limits, Plain, WebError, escaped};

const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
const WHAT: &str = "a token of this machine's account";

/// Away from Google nobody answers there, and nobody should wait for nothing.
const CONNECT: Duration = Duration::from_secs(1);
const WHOLE: Duration = Duration::from_secs(10);

/// Whether the server may be asked at all: `NO_GCE_CHECK`, as Google's libraries have it, says no.
pub(super) fn may_be_asked(env: &dyn Env) -> bool {
    !var(env, "NO_GCE_CHECK").is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

impl Google {
    /// A token of an account that this machine has; `default` is its usual one. No scopes: those that the machine was
    /// given.
    ///
    /// # Errors
    /// When this is no machine of Google's, or has no such account.
    pub async fn metadata_token(&self, account: &str, scopes: &[&str]) -> Result<AccessToken, Error> {
        let mut path = format!("instance/service-accounts/{}/token", *escaped(account));
        if !scopes.is_empty() {
            path = format!("{path}?scopes={}", *escaped(&scopes.join(",")));
        }
        let asked_at = self.world.clock.now();
        let answer = self.metadata(&path, WHAT).await?;
        granted(&answer, WHAT, asked_at, hint)
    }

    /// A value of the metadata server: `project/project-id`, `instance/service-accounts/default/email`.
    ///
    /// # Errors
    /// When this is no machine of Google's, or does not have it.
    pub async fn metadata_value(&self, path: &str) -> Result<String, Error> {
        let what = format!("`{path}` of this machine");
        let answer = self.metadata(path, &what).await?;
        if !answer.status.is_success() {
            return Err(refused(&answer, &what, hint));
        }
        answer.text().map(|text| text.trim().to_owned()).map_err(|source| Error::Web { what, source })
    }

    async fn metadata(&self, path: &str, what: &str) -> Result<Answer, Error> {
        let env = &*self.world.env;
        if !may_be_asked(env) {
            return Err(absent("NO_GCE_CHECK is set".to_owned()));
        }
        let chosen = var(env, "GCE_METADATA_HOST");
        // The address of metadata.google.internal, which needs no look-up.
        let host = chosen.as_deref().unwrap_or("169.254.169.254");
        let plain = if chosen.is_some() { Plain::Anywhere } else { Plain::Local };
        let limits = Limits { connect: CONNECT, whole: WHOLE, ..Limits::default() };
        let ask = Ask::get(format!("http://{host}/computeMetadata/v1/{path}")).plain(plain).limits(limits);
        let answer = self.web.fetch(ask.header(FLAVOR, HeaderValue::from_static("Google"))).await;
        answer.map_err(|source| match source {
            WebError::Connection { .. } | WebError::TimedOut { .. } if chosen.is_none() => {
                absent("this is no machine of Google Cloud's".to_owned())
            }
            source => Error::Web { what: what.to_owned(), source },
        })
    }
}

fn absent(reason: String) -> Error {
    Error::NoCredentials {
        cloud: "Google Cloud",
        tried: vec![reason],
        hint: "log in with `gcloud auth login`, or name a key file in GOOGLE_APPLICATION_CREDENTIALS",
    }
}

fn hint(code: &str) -> Option<&'static str> {
    match code {
        "404" => Some("this machine has no such service account"),
        "403" => Some("this machine's account may not have these scopes"),
        _ => None,
    }
}
