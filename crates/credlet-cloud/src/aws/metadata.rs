//! Credentials of the environment: container endpoint (ECS, EKS) and EC2 instance metadata service (IMDSv2).

use std::time::Duration;

use credlet_api::Secret;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Deserialize;

use super::resolve::ContainerEndpoint;
use super::{AwsCredentials, AwsError, CredentialChain, profiles, time};
use crate::plugin_runner::env_var;
use credlet_http::fetch::{EndpointPolicy, FetchError, FetchLimits, FetchRequest, FetchResponse};

const TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
const TOKEN_TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");

/// Timeout of all IMDS requests together. Short, because outside of EC2 no host responds.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout of the container endpoint, which is explicitly configured.
const CONTAINER_TIMEOUT: Duration = Duration::from_secs(5);

impl CredentialChain {
    pub(super) async fn container(&self, container: &ContainerEndpoint) -> Result<AwsCredentials, AwsError> {
        let what = "container credentials";
        let failed = |source| AwsError::Request { what: what.into(), source };
        // Like the SDKs, allow http for loopback and the link-local addresses of ECS and EKS only.
        let request = FetchRequest::get(&*container.url).policy(EndpointPolicy::metadata());
        let mut request = request.limits(FetchLimits::with_timeout(CONTAINER_TIMEOUT));
        let token = match &container.token_file {
            Some(path) => {
                Some(profiles::read_identity_token(path, "the container's authorization token")?.secret().clone())
            }
            None => container.token.clone(),
        };
        if let Some(token) = token {
            request = request.secret_header(header::AUTHORIZATION, &token).map_err(failed)?;
        }
        let response = self.fetcher.fetch(request).await.map_err(failed)?;
        if response.status != StatusCode::OK {
            return Err(rejected(&response, what));
        }
        parse_credentials(&response).map_err(failed).and_then(|credentials| self.ensure_valid(what, credentials))
    }

    pub(super) async fn instance(&self, tried: &[String]) -> Result<AwsCredentials, AwsError> {
        let none = |reason: String| AwsError::NoCredentials { tried: [tried, &[reason]].concat() };
        let env = &*self.platform.env;
        if env_var(env, "AWS_EC2_METADATA_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Err(none("AWS_EC2_METADATA_DISABLED is set".into()));
        }
        let is_override = env_var(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let mode = env_var(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").unwrap_or_default();
        let usual = if mode.eq_ignore_ascii_case("ipv6") { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let base = is_override.unwrap_or_else(|| usual.to_owned());
        let service = InstanceMetadata { chain: self, base: base.trim_end_matches('/') };
        let answered = tokio::select! {
            biased;
            answered = service.credentials() => answered,
            () = self.platform.clock.sleep(INSTANCE_TIMEOUT) => return Err(none("not running on EC2".into())),
        };
        match answered {
            Ok(credentials) => self.ensure_valid("this EC2 instance", credentials),
            Err(AwsError::Request { source: FetchError::Connection { .. } | FetchError::TimedOut { .. }, .. }) => {
                Err(none("not running on EC2".into()))
            }
            Err(AwsError::Rejected { code, .. }) if code == "404" => Err(none("this EC2 instance has no role".into())),
            Err(error) => Err(error),
        }
    }
}

/// A client of IMDSv2, which requires a session token for each request to prevent SSRF.
struct InstanceMetadata<'a> {
    chain: &'a CredentialChain,
    base: &'a str,
}

impl InstanceMetadata<'_> {
    async fn credentials(&self) -> Result<AwsCredentials, AwsError> {
        const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
        let request = FetchRequest::put(format!("{}/latest/api/token", self.base))
            .header(TOKEN_TTL, HeaderValue::from_static("60"));
        let response = self.fetch(request).await?;
        let token = Secret::new(response.text().map_err(failed)?.trim());
        let roles = self.get(ROLES, &token).await?;
        let role = roles.text().map_err(failed)?.lines().next().unwrap_or_default().trim().to_owned();
        if role.is_empty() {
            return Err(rejected_with_code(&roles, WHAT, "404"));
        }
        let response = self.get(&format!("{ROLES}{}", *credlet_http::fetch::percent_encode(&role)), &token).await?;
        parse_credentials(&response).map_err(failed)
    }

    async fn get(&self, path: &str, token: &Secret) -> Result<FetchResponse, AwsError> {
        let request = FetchRequest::get(format!("{}{path}", self.base)).secret_header(TOKEN, token).map_err(failed)?;
        self.fetch(request).await
    }

    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, AwsError> {
        let request = request.policy(EndpointPolicy::link_local()).limits(FetchLimits::with_timeout(INSTANCE_TIMEOUT));
        let response = self.chain.fetcher.fetch(request).await.map_err(failed)?;
        if response.status == StatusCode::OK { Ok(response) } else { Err(rejected(&response, WHAT)) }
    }
}

const WHAT: &str = "credentials of this EC2 instance";

fn failed(source: FetchError) -> AwsError {
    AwsError::Request { what: WHAT.into(), source }
}

fn rejected(response: &FetchResponse, what: &str) -> AwsError {
    rejected_with_code(response, what, response.status.as_str())
}

fn rejected_with_code(response: &FetchResponse, what: &str, code: &str) -> AwsError {
    AwsError::Rejected { host: response.host.clone(), what: what.to_owned(), code: code.to_owned(), message: None }
}

/// Parses the response of either service.
fn parse_credentials(response: &FetchResponse) -> Result<AwsCredentials, FetchError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct MetadataCredentials {
        access_key_id: Secret,
        secret_access_key: Secret,
        token: Option<Secret>,
        expiration: Option<String>,
    }
    let found: MetadataCredentials = response.json()?;
    let expires = match found.expiration {
        Some(text) => {
            Some(time::parse(&text).ok_or_else(|| response.invalid_response("it has an invalid Expiration"))?)
        }
        None => None,
    };
    Ok(AwsCredentials::new(found.access_key_id, found.secret_access_key, found.token).expiring(expires))
}
