//! Image credential provider for Amazon ECR, a replacement of `ecr-credential-provider`.
//!
//! `host` determines region and domain of the registry. The AWS credentials are those of the role in an annotation of the pod's service
//! account, else those of the node. `GetAuthorizationToken` of the registry's region returns user name and password.

mod host;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use credlet_api::Secret;
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_exec::Platform;
use credlet_plugin::{self as plugin, Failure};
use jiff::Timestamp;
use serde::Deserialize;
use zeroize::Zeroizing;

use self::host::EcrRegistry;
use super::cache_duration::cache_duration;
use super::mirror::{self, MirrorList};
use super::provider;
use crate::aws::{AwsCredentials, AwsError, AwsOptions, AwsRole, CredentialChain};
use crate::oauth::IdentityToken;
use crate::plugin_runner::{block_on, env_var};
use credlet_http::fetch::FetchResponse;

/// Environment variable with the default role, as in `ecr-credential-provider`.
const ROLE: &str = "AWS_ECR_ROLE_ARN";

/// Session name of `ecr-credential-provider`, so that CloudTrail entries do not change.
const SESSION_NAME: &str = "ecr-credential-provider";

/// Provide credentials for images in Amazon ECR, private and public.
#[derive(Debug, Parser)]
#[command(name = "credlet-ecr", version)]
struct EcrArgs {
    /// Mirror of an Amazon registry that accepts its password, for example a pull-through cache; may be repeated
    #[arg(long, value_name = "SOURCE=REGISTRY", value_parser = MirrorList::parse)]
    registry_mirror: Vec<MirrorList>,
    /// Service account annotation with the role to pull with
    #[arg(long, value_name = "KEY", default_value = "eks.amazonaws.com/ecr-role-arn")]
    role_annotation: String,
    /// `get-credentials`, accepted for compatibility
    #[arg(hide = true)]
    command: Vec<OsString>,
}

/// Runs the provider. `args` begin with the program name.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    provider::run(args, io, |args: &EcrArgs, request| provide(args, platform, request))
}

fn provide(
    args: &EcrArgs,
    platform: &Platform,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let name = provider::registry_host(request)?;
    let Some(registry) = EcrRegistry::parse(mirror::upstream_of(&args.registry_mirror, name).unwrap_or(name)) else {
        return Ok(provider::empty_response(CacheKeyType::Registry));
    };
    let token = block_on(token(args, platform, request, registry))?.map_err(failure)?;
    let auth =
        token.auth().ok_or_else(|| Failure::new("invalid authorization token of ECR: not USER:PASSWORD in base64"))?;
    Ok(CredentialProviderResponse {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: Some(cache_duration(token.ends(), platform.clock.now())),
        auth: BTreeMap::from([(name.to_owned(), auth)]),
    })
}

async fn token(
    args: &EcrArgs,
    platform: &Platform,
    request: &CredentialProviderRequest,
    registry: EcrRegistry<'_>,
) -> Result<AuthorizationData, AwsError> {
    let role = role(args, platform, request);
    let region = match (registry, &role) {
        (EcrRegistry::Private { region, .. }, _) => Some(region.to_owned()),
        (EcrRegistry::Public, None) => Some("us-east-1".to_owned()),
        // STS of another region than the node's may be unreachable.
        (EcrRegistry::Public, Some(_)) => None,
    };
    // The kubelet caches the response, so nothing is stored on the node's disk.
    let chain =
        CredentialChain::load(AwsOptions { region, ..AwsOptions::default() }, platform.clone())?.without_cache();
    let credentials = match role {
        Some((role, token)) => {
            let wrong = |reason: &str| AwsError::InvalidConfig {
                setting: "service account token".into(),
                reason: format!("is invalid: {reason}"),
            };
            let token = IdentityToken::parse(token.expose()).map_err(wrong)?;
            chain.assume_with_web_identity(&role, &token).await?
        }
        None => chain.credentials().await?,
    };
    match registry {
        EcrRegistry::Private { region, domain } => private(&chain, region, domain, &credentials).await,
        EcrRegistry::Public => public(&chain, &credentials).await,
    }
}

/// The role of the pod's service account and its token. `None`: the node pulls with its own credentials.
///
/// An annotation takes precedence over the environment variable even if it is empty, so that an account can opt out.
fn role<'a>(
    args: &EcrArgs,
    platform: &Platform,
    request: &'a CredentialProviderRequest,
) -> Option<(AwsRole, &'a Secret)> {
    let token = request.service_account_token.as_ref()?;
    let arn = match request.service_account_annotations.get(&args.role_annotation) {
        Some(arn) => arn.clone(),
        None => env_var(&*platform.env, ROLE)?,
    };
    let mut role = Some(arn).filter(|arn| !arn.is_empty()).map(AwsRole::new)?;
    role.session_name = Some(SESSION_NAME.to_owned());
    Some((role, token))
}

async fn private(
    chain: &CredentialChain,
    region: &str,
    domain: &str,
    credentials: &AwsCredentials,
) -> Result<AuthorizationData, AwsError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct GetAuthorizationTokenResponse {
        authorization_data: Vec<AuthorizationData>,
    }
    const CALL: (&str, &str) = ("ecr", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken");
    let what = format!("password of the registries in {region}");
    let response = chain.call(&what, &chain.ecr(region, domain), CALL, credentials).await?;
    read(&response, &what, |given: GetAuthorizationTokenResponse| given.authorization_data.into_iter().next())
}

async fn public(chain: &CredentialChain, credentials: &AwsCredentials) -> Result<AuthorizationData, AwsError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct GetAuthorizationTokenResponse {
        authorization_data: AuthorizationData,
    }
    const CALL: (&str, &str) = ("ecr-public", "SpencerFrontendService.GetAuthorizationToken");
    let what = "password of the public registry";
    let response = chain.call(what, &chain.ecr_public(), CALL, credentials).await?;
    read(&response, what, |given: GetAuthorizationTokenResponse| Some(given.authorization_data))
}

fn read<G: serde::de::DeserializeOwned>(
    response: &FetchResponse,
    what: &str,
    token: impl FnOnce(G) -> Option<AuthorizationData>,
) -> Result<AuthorizationData, AwsError> {
    let given =
        response.json().and_then(|given| token(given).ok_or_else(|| response.invalid_response("it has no token")));
    given.map_err(|source| AwsError::Request { what: what.to_owned(), source })
}

/// The token in a response of `GetAuthorizationToken`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthorizationData {
    authorization_token: Secret,
    /// Unix time with fractional seconds.
    expires_at: Option<f64>,
}

impl AuthorizationData {
    /// Decodes user name and password: `AWS:hunter2` in base64.
    fn auth(&self) -> Option<AuthConfig> {
        let text = STANDARD.decode(self.authorization_token.expose()).map(Zeroizing::new).ok()?;
        let (username, password) = std::str::from_utf8(&text).ok()?.split_once(':')?;
        let password = Some(Secret::new(password)).filter(|password| !password.is_empty())?;
        Some(AuthConfig { username: username.to_owned(), password })
    }

    fn ends(&self) -> Option<Timestamp> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "saturates outside of the range of timestamps, which is then rejected"
        )]
        self.expires_at.and_then(|seconds| Timestamp::from_second(seconds as i64).ok())
    }
}

fn failure(error: AwsError) -> Failure {
    let hints = error.hints();
    hints.into_iter().fold(Failure::from(error), Failure::hint)
}
