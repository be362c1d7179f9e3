//! Credentials for Amazon's registries, in place of `ecr-credential-provider`.
//!
//! **The path:** the kubelet's request → `host` tells from the registry's name which one it is → credentials of AWS: those
//! of the role that the pod's service account names, or else the node's own → `GetAuthorizationToken` of the API in that
//! region → its token is a user's name and a password.

mod host;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use credlet_api::Secret;
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_api::plugin::{self, Failure};
use credlet_core::World;
use jiff::Timestamp;
use serde::Deserialize;
use zeroize::Zeroizing;

use self::host::Registry;
use super::life::remembered;
use super::mirror::{self, Mirrors};
use super::provider;
use crate::aws::{AwsError, Chain, Credentials, Options, Role};
use crate::harness::{var, wait};
use crate::web::Answer;

/// Where the published provider looks for a role if no annotation names one.
const ROLE: &str = "AWS_ECR_ROLE_ARN";

/// What the published provider calls a session, so that the account's log reads as before.
const SESSION_NAME: &str = "ecr-credential-provider";

/// Credentials for images in Amazon's registries (ECR), private and public.
#[derive(Debug, Parser)]
#[command(name = "credlet-ecr", version)]
struct Args {
    /// A registry that stands in for one of Amazon's, a pull-through cache for example, and whose password it takes; may
    /// be given several times
    #[arg(long, value_name = "SOURCE=REGISTRY", value_parser = Mirrors::parse)]
    registry_mirror: Vec<Mirrors>,
    /// The annotation of a service account that names the role to pull with
    #[arg(long, value_name = "KEY", default_value = "eks.amazonaws.com/ecr-role-arn")]
    role_annotation: String,
    /// Old configurations say `get-credentials`
    #[arg(hide = true)]
    words: Vec<OsString>,
}

/// The whole of the provider. `args` begin with the program's name.
pub fn run(args: Vec<OsString>, world: &World, io: plugin::World<'_>) -> ExitCode {
    provider::run(args, io, |args: &Args, request| answer(args, world, request))
}

fn answer(
    args: &Args,
    world: &World,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let name = provider::registry(request)?;
    let Some(registry) = Registry::of(mirror::behind(&args.registry_mirror, name).unwrap_or(name)) else {
        return Ok(provider::nothing(CacheKeyType::Registry));
    };
    let token = wait(token(args, world, request, registry))?.map_err(failure)?;
    let auth = token.auth().ok_or_else(|| Failure::new("the token of ECR is not a user's name and a password"))?;
    Ok(CredentialProviderResponse {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: Some(remembered(token.ends(), world.clock.now())),
        auth: BTreeMap::from([(name.to_owned(), auth)]),
    })
}

async fn token(
    args: &Args,
    world: &World,
    request: &CredentialProviderRequest,
    registry: Registry<'_>,
) -> Result<Token, AwsError> {
    let role = role(args, world, request);
    let region = match (registry, &role) {
        (Registry::Private { region, .. }, _) => Some(region.to_owned()),
        (Registry::Public, None) => Some("us-east-1".to_owned()),
        // There may be no way from here to another region than the machine's own.
        (Registry::Public, Some(_)) => None,
    };
    // The kubelet remembers the answer; the node's disk need not.
    let chain = Chain::load(Options { region, ..Options::default() }, world.clone())?.forgetful();
    let credentials = match role {
        Some((role, token)) => chain.assume_with_web_identity(&role, token).await?,
        None => chain.credentials().await?,
    };
    match registry {
        Registry::Private { region, domain } => private(&chain, region, domain, &credentials).await,
        Registry::Public => public(&chain, &credentials).await,
    }
}

/// The role that the pod's service account pulls with. `None`: the node pulls with its own.
///
/// An annotation goes before the variable even if it is empty: so one account can be left out.
fn role<'a>(args: &Args, world: &World, request: &'a CredentialProviderRequest) -> Option<(Role, &'a Secret)> {
    let token = request.service_account_token.as_ref()?;
    let arn = match request.service_account_annotations.get(&args.role_annotation) {
        Some(arn) => arn.clone(),
        None => var(&*world.env, ROLE)?,
    };
    let mut role = Some(arn).filter(|arn| !arn.is_empty()).map(Role::new)?;
    role.session_name = Some(SESSION_NAME.to_owned());
    Some((role, token))
}

async fn private(chain: &Chain, region: &str, domain: &str, credentials: &Credentials) -> Result<Token, AwsError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Given {
        authorization_data: Vec<Token>,
    }
    const CALL: (&str, &str) = ("ecr", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken");
    let what = format!("the password of the registries in {region}");
    let answer = chain.call(&what, &chain.ecr(region, domain), CALL, credentials).await?;
    read(&answer, &what, |given: Given| given.authorization_data.into_iter().next())
}

async fn public(chain: &Chain, credentials: &Credentials) -> Result<Token, AwsError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Given {
        authorization_data: Token,
    }
    const CALL: (&str, &str) = ("ecr-public", "SpencerFrontendService.GetAuthorizationToken");
    let what = "the password of the public registry";
    let answer = chain.call(what, &chain.ecr_public(), CALL, credentials).await?;
    read(&answer, what, |given: Given| Some(given.authorization_data))
}

fn read<G: serde::de::DeserializeOwned>(
    answer: &Answer,
    what: &str,
    token: impl FnOnce(G) -> Option<Token>,
) -> Result<Token, AwsError> {
    let given = answer.json().and_then(|given| token(given).ok_or_else(|| answer.nonsense("that has no token in it")));
    given.map_err(|source| AwsError::Web { what: what.to_owned(), source })
}

/// What the API gives.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    authorization_token: Secret,
    /// Seconds since 1970, and parts of one.
    expires_at: Option<f64>,
}

impl Token {
    /// `AWS:hunter2` in base64.
    fn auth(&self) -> Option<AuthConfig> {
        let text = STANDARD.decode(self.authorization_token.expose()).map(Zeroizing::new).ok()?;
        let (username, password) = std::str::from_utf8(&text).ok()?.split_once(':')?;
        let password = Some(Secret::new(password)).filter(|password| !password.is_empty())?;
        Some(AuthConfig { username: username.to_owned(), password })
    }

    fn ends(&self) -> Option<Timestamp> {
        #[expect(clippy::cast_possible_truncation, reason = "it is cut off where no time is left, which is no time")]
        self.expires_at.and_then(|seconds| Timestamp::from_second(seconds as i64).ok())
    }
}

fn failure(error: AwsError) -> Failure {
    let hints = error.hints();
    hints.into_iter().fold(Failure::from(error), Failure::hint)
}
