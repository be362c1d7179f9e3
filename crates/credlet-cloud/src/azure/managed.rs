//! Managed identities of virtual machines, App Service and Azure Arc machines.

use std::path::Path;
use std::time::Duration;

use credlet_api::Secret;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use super::EntraClient;
use crate::oauth::{self, AccessToken, TokenError, parse_token_response};
use crate::plugin_runner::env_var;
use credlet_http::fetch::{EndpointPolicy, FetchError, FetchLimits, FetchRequest, FetchResponse, encode_form};

const METADATA: HeaderName = HeaderName::from_static("metadata");
const IDENTITY_HEADER: HeaderName = HeaderName::from_static("x-identity-header");
const WHAT: &str = "managed identity token";

/// Short, because outside of Azure no host responds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Directory of the Azure Arc agent for challenge keys, readable by the group `himds`.
pub(super) const ARC_KEYS: &str = "/var/opt/azcmagent/tokens";

/// Selects a managed identity. Without ids: the system-assigned identity.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ManagedIdentity {
    /// Client id of a user-assigned identity.
    pub client_id: Option<String>,
    /// Resource id of a user-assigned identity.
    pub resource_id: Option<String>,
}

impl ManagedIdentity {
    /// Selects an identity by client id or resource id; the client id takes precedence.
    pub fn new(client_id: Option<String>, resource_id: Option<String>) -> Self {
        Self { client_id, resource_id }
    }
}

impl EntraClient {
    pub(super) async fn managed(&self, managed: &ManagedIdentity, resource: &str) -> Result<AccessToken, TokenError> {
        // These endpoints expect a resource instead of a scope.
        let resource = resource.strip_suffix("/.default").unwrap_or(resource);
        let env = &*self.platform.env;
        let requested_at = self.platform.clock.now();
        let endpoint = env_var(env, "IDENTITY_ENDPOINT");
        let response = match (endpoint, env_var(env, "IDENTITY_HEADER"), env_var(env, "IMDS_ENDPOINT")) {
            (Some(url), Some(header), _) => {
                let url = identity_url(&url, "2019-08-01", resource, managed, "mi_res_id");
                let request =
                    FetchRequest::get(url).secret_header(IDENTITY_HEADER, &Secret::new(header)).map_err(failed)?;
                // On loopback or a link-local address in App Service, Functions and Container Apps.
                self.local(request, EndpointPolicy::link_local().only::<&str>([])).await?
            }
            (Some(url), None, Some(_)) => self.arc(&url, managed, resource).await?,
            _ => {
                let chosen = env_var(env, "AZURE_POD_IDENTITY_AUTHORITY_HOST");
                let host = chosen.as_deref().unwrap_or("http://169.254.169.254").trim_end_matches('/');
                let url = format!("{host}/metadata/identity/oauth2/token");
                let url = identity_url(&url, "2018-02-01", resource, managed, "msi_res_id");
                let request = FetchRequest::get(url).header(METADATA, HeaderValue::from_static("true"));
                let response = self.local(request, EndpointPolicy::link_local()).await;
                response.map_err(|error| if chosen.is_none() { absent(error) } else { error })?
            }
        };
        parse_token_response(&response, WHAT, requested_at, |code| match code {
            "identity_not_found" | "invalid_request" | "400" => {
                Some("the machine may not have this identity: check --client-id and --identity-resource-id")
            }
            other => super::hint(other),
        })
    }

    /// Requests a token from the Azure Arc agent, which requires the content of a key file that it names in a challenge.
    async fn arc(&self, url: &str, managed: &ManagedIdentity, resource: &str) -> Result<FetchResponse, TokenError> {
        if managed.client_id.is_some() || managed.resource_id.is_some() {
            return Err(TokenError::invalid_setting(
                "managed identity",
                "Azure Arc supports only the system-assigned identity",
            ));
        }
        let url = identity_url(url, "2020-06-01", resource, managed, "");
        let request = || FetchRequest::get(url.clone()).header(METADATA, HeaderValue::from_static("true"));
        // The agent listens on loopback.
        let policy = || EndpointPolicy::default().only::<&str>([]);
        let challenge = self.local(request(), policy()).await?;
        if challenge.status != StatusCode::UNAUTHORIZED {
            return Ok(challenge);
        }
        let header = challenge.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let path = header.and_then(|header| header.split_once("Basic realm=")).map(|(_, path)| Path::new(path.trim()));
        // Only key files of the agent may be read and sent.
        let is_key = |path: &&Path| {
            path.parent() == Some(&*self.arc_key_dir) && path.extension().is_some_and(|end| end == "key")
        };
        let path = path
            .filter(is_key)
            .ok_or_else(|| failed(challenge.invalid_response("it names no key file of the Azure Arc agent")))?;
        let key = oauth::read_token_file(path, "key of the Azure Arc agent")?;
        let basic = Secret::new(format!("Basic {}", key.expose()));
        self.local(request().secret_header(AUTHORIZATION, &basic).map_err(failed)?, policy()).await
    }

    async fn local(&self, request: FetchRequest, policy: EndpointPolicy) -> Result<FetchResponse, TokenError> {
        let limits = FetchLimits { connect: CONNECT_TIMEOUT, total: TIMEOUT, ..FetchLimits::default() };
        self.fetcher.fetch(request.policy(policy).limits(limits)).await.map_err(failed)
    }
}

fn identity_url(url: &str, version: &str, resource: &str, managed: &ManagedIdentity, by_resource: &str) -> String {
    let mut fields = vec![("api-version", version), ("resource", resource)];
    if let Some(id) = &managed.client_id {
        fields.push(("client_id", id));
    } else if let Some(id) = &managed.resource_id {
        fields.push((by_resource, id));
    }
    format!("{url}?{}", *encode_form(&fields))
}

fn failed(source: FetchError) -> TokenError {
    TokenError::Request { what: WHAT.into(), source }
}

fn absent(error: TokenError) -> TokenError {
    match error {
        TokenError::Request { source: FetchError::Connection { .. } | FetchError::TimedOut { .. }, .. } => {
            TokenError::NoCredentials {
                cloud: "Azure",
                tried: vec!["the instance metadata service is unreachable".into()],
                hint: "use another --login outside of Azure",
            }
        }
        error => error,
    }
}
