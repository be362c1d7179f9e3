//! The identity of the machine we run on: a virtual machine's, an App Service's, one that Arc manages.

use std::path::Path;
use std::time::Duration;

use credlet_api::Secret;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use super::Entra;
use crate::harness::var;
use crate::oauth::{self, AccessToken, Error, granted};
use crate::web::{Answer, Ask, Limits, Plain, WebError, form};

const METADATA: HeaderName = HeaderName::from_static("metadata");
const IDENTITY_HEADER: HeaderName = HeaderName::from_static("x-identity-header");
const WHAT: &str = "a token of this machine's identity";

/// Away from Azure nobody answers there, and nobody should wait for nothing.
const LIMITS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(20));

/// Where Arc's agent keeps what only its group can read.
pub(super) const ARC_KEYS: &str = "/var/opt/azcmagent/tokens";

/// Which of the machine's identities. All empty: the one that it has of its own.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Managed {
    /// By the client's id.
    pub client_id: Option<String>,
    /// By the id of the Azure resource.
    pub resource_id: Option<String>,
}

impl Managed {
    /// By the client's id, or the resource's.
    pub fn new(client_id: Option<String>, resource_id: Option<String>) -> Self {
        Self { client_id, resource_id }
    }
}

impl Entra {
    pub(super) async fn managed(&self, managed: &Managed, resource: &str) -> Result<AccessToken, Error> {
        // Here it is a resource, and not a scope.
        let resource = resource.strip_suffix("/.default").unwrap_or(resource);
        let env = &*self.world.env;
        let asked_at = self.world.clock.now();
        let endpoint = var(env, "IDENTITY_ENDPOINT");
        let answer = match (endpoint, var(env, "IDENTITY_HEADER"), var(env, "IMDS_ENDPOINT")) {
            (Some(url), Some(header), _) => {
                let url = asked(&url, "2019-08-01", resource, managed, "mi_res_id");
                let ask = Ask::get(url).secret_header(IDENTITY_HEADER, &Secret::new(header)).map_err(failed)?;
                self.local(ask, Plain::Anywhere).await?
            }
            (Some(url), None, Some(_)) => self.arc(&url, managed, resource).await?,
            _ => {
                let chosen = var(env, "AZURE_POD_IDENTITY_AUTHORITY_HOST");
                let plain = if chosen.is_some() { Plain::Anywhere } else { Plain::Local };
                let host = chosen.as_deref().unwrap_or("http://169.254.169.254").trim_end_matches('/');
                let url = format!("{host}/metadata/identity/oauth2/token");
                let url = asked(&url, "2018-02-01", resource, managed, "msi_res_id");
                let ask = Ask::get(url).header(METADATA, HeaderValue::from_static("true"));
                self.local(ask, plain).await.map_err(|error| if chosen.is_none() { absent(error) } else { error })?
            }
        };
        granted(&answer, WHAT, asked_at, |code| match code {
            "identity_not_found" | "invalid_request" | "400" => {
                Some("this machine may have no such identity: see --client-id and --identity-resource-id")
            }
            other => super::hint(other),
        })
    }

    /// Arc's agent answers whoever can read a file of its own.
    async fn arc(&self, url: &str, managed: &Managed, resource: &str) -> Result<Answer, Error> {
        if managed.client_id.is_some() || managed.resource_id.is_some() {
            return Err(Error::config("a machine that Arc manages", "has no identity but its own"));
        }
        let url = asked(url, "2020-06-01", resource, managed, "");
        let ask = || Ask::get(url.clone()).header(METADATA, HeaderValue::from_static("true"));
        let challenge = self.local(ask(), Plain::Local).await?;
        if challenge.status != StatusCode::UNAUTHORIZED {
            return Ok(challenge);
        }
        let header = challenge.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let path = header.and_then(|header| header.split_once("Basic realm=")).map(|(_, path)| Path::new(path.trim()));
        // Nobody may have us read and send other files.
        let is_key =
            |path: &&Path| path.parent() == Some(&*self.arc_keys) && path.extension().is_some_and(|end| end == "key");
        let path = path.filter(is_key).ok_or_else(|| failed(challenge.nonsense("that names no key of Arc's agent")))?;
        let key = oauth::token_file(path, "the key of Arc's agent")?;
        let basic = Secret::new(format!("Basic {}", key.expose()));
        self.local(ask().secret_header(AUTHORIZATION, &basic).map_err(failed)?, Plain::Local).await
    }

    async fn local(&self, ask: Ask, plain: Plain) -> Result<Answer, Error> {
        let limits = Limits { connect: LIMITS.0, whole: LIMITS.1, ..Limits::default() };
        self.web.fetch(ask.plain(plain).limits(limits)).await.map_err(failed)
    }
}

fn asked(url: &str, version: &str, resource: &str, managed: &Managed, by_resource: &str) -> String {
    let mut fields = vec![("api-version", version), ("resource", resource)];
    if let Some(id) = &managed.client_id {
        fields.push(("client_id", id));
    } else if let Some(id) = &managed.resource_id {
        fields.push((by_resource, id));
    }
    format!("{url}?{}", *form(&fields))
}

fn failed(source: WebError) -> Error {
    Error::Web { what: WHAT.into(), source }
}

fn absent(error: Error) -> Error {
    match error {
        Error::Web { source: WebError::Connection { .. } | WebError::TimedOut { .. }, .. } => Error::NoCredentials {
            cloud: "Azure",
            tried: vec!["nobody answers where a machine of Azure's has its metadata service".into()],
            hint: "use another --login away from Azure",
        },
        error => error,
    }
}
