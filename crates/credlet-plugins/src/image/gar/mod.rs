//! Credentials for Google's registries, in place of `auth-provider-gcp`.
//!
//! **The path:** the kubelet's request → is the registry Google's? → an access token: of the node's account, from the
//! metadata server, or of the pod's service account, for which Google exchanges its token → the password of the user
//! `_token`. Or, in the old flows, a `.dockercfg` in the node's metadata.

mod dockercfg;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_api::plugin::{self, Failure};
use credlet_api::visible;
use credlet_core::{Env, World};

use super::life::remembered;
use super::mirror::{self, Mirrors};
use super::provider;
use crate::gcp::{AccessToken, CLOUD_PLATFORM, Exchange, Google};
use crate::harness::{var, wait};
use crate::oauth::{Error, failure};

/// Google's registries take this user's password for an access token.
const USER: &str = "_token";

/// Whose password it is, in every answer: the published provider's list.
const KEYS: [&str; 4] = ["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"];

/// Says that a service account pulls with its own identity.
const ANNOTATION: &str = "iam.gke.io/enable-wi-image-pull";

/// Credentials for images in Google's registries: Artifact Registry and Container Registry.
#[derive(Debug, Parser)]
#[command(name = "credlet-gar", version)]
struct Args {
    /// Where the password comes from
    #[arg(long = "authFlow", alias = "auth-flow", short = 'a', value_enum, default_value = "gcr")]
    auth_flow: Flow,
    /// The cluster's identity provider, to let service accounts pull with their own identity that have the annotation
    /// `iam.gke.io/enable-wi-image-pull: "true"`
    #[arg(long, value_name = "URL", requires = "project_id")]
    identity_provider: Option<String>,
    /// The project of the identity provider
    #[arg(long, value_name = "ID")]
    project_id: Option<String>,
    /// A registry that stands in for one of Google's and whose password it takes; may be given several times
    #[arg(long, value_name = "SOURCE=REGISTRY", value_parser = Mirrors::parse)]
    registry_mirror: Vec<Mirrors>,
    /// Configurations say `get-credentials`
    #[arg(hide = true)]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Flow {
    /// An access token, of the node or of the pod's service account
    Gcr,
    /// The .dockercfg in the node's attribute google-dockercfg
    Dockercfg,
    /// The .dockercfg at the address in the node's attribute google-dockercfg-url
    DockercfgUrl,
}

/// The whole of the provider. `args` begin with the program's name.
pub fn run(args: Vec<OsString>, world: &World, io: plugin::World<'_>) -> ExitCode {
    provider::run(provider::without_log_flags(args), io, |args: &Args, request| answer(args, world, request))
}

fn answer(
    args: &Args,
    world: &World,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let cache_key_type = cache_key_type(&*world.env)?;
    let limit = cache_limit(&*world.env)?;
    let registry = provider::registry(request)?;
    let google = Google::new(world).forgetful();
    if args.auth_flow != Flow::Gcr {
        let by_address = args.auth_flow == Flow::DockercfgUrl;
        let auth = wait(dockercfg::fetch(&google, world, by_address))?.map_err(failure)?;
        // Nothing says when these end.
        return Ok(CredentialProviderResponse { cache_key_type, cache_duration: limit.or(Some(Duration::ZERO)), auth });
    }
    let mirrored = mirror::behind(&args.registry_mirror, registry);
    if !is_googles(mirrored.unwrap_or(registry)) {
        return Ok(provider::nothing(cache_key_type));
    }
    let token = token(args, world, &google, request)?;
    let life = remembered(token.expires, world.clock.now());
    let auth = AuthConfig { username: USER.to_owned(), password: token.token };
    let keys = KEYS.into_iter().chain([registry]);
    Ok(CredentialProviderResponse {
        cache_key_type,
        cache_duration: Some(limit.map_or(life, |limit| limit.min(life))),
        auth: keys.map(|key| (key.to_owned(), auth.clone())).collect::<BTreeMap<_, _>>(),
    })
}

fn token(
    args: &Args,
    world: &World,
    google: &Google,
    request: &CredentialProviderRequest,
) -> Result<AccessToken, Failure> {
    let wants_own = request.service_account_annotations.get(ANNOTATION).is_some_and(|value| value == "true");
    let (Some(provider), Some(project), true) = (&args.identity_provider, &args.project_id, wants_own) else {
        return wait(google.metadata_token("default", &[]))?.map_err(on_a_node).map_err(failure);
    };
    // The node's identity in its place would be more than the account was given.
    let Some(subject_token) = &request.service_account_token else {
        return Err(Failure::new(
            "this service account pulls with its own identity, and the request has no token of it",
        )
        .hint("give the provider `tokenAttributes` in the kubelet's configuration"));
    };
    let chosen = var(&*world.env, "CLOUDSDK_API_ENDPOINT_OVERRIDES_STS");
    let base = chosen.as_deref().unwrap_or("https://sts.googleapis.com/").trim_end_matches('/');
    let exchange = Exchange {
        token_url: &format!("{base}/v1/token"),
        audience: &format!("identitynamespace:{project}.svc.id.goog:{provider}"),
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        subject_token,
    };
    wait(google.exchange(&exchange, &[CLOUD_PLATFORM]))?.map_err(failure)
}

/// With advice for who runs nodes.
fn on_a_node(error: Error) -> Error {
    match error {
        Error::NoCredentials { cloud, tried, .. } => {
            let hint = "this is for nodes in Google Cloud: elsewhere name its metadata server in GCE_METADATA_HOST";
            Error::NoCredentials { cloud, tried, hint }
        }
        error => error,
    }
}

/// Whether it is one of the registries in [`KEYS`], by whole labels.
fn is_googles(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_letter)
    };
    match host.split_once('.') {
        _ if matches!(host, "gcr.io" | "container.cloud.google.com") => true,
        Some((label, "gcr.io" | "pkg.dev")) => is_label(label),
        _ => false,
    }
}

/// How widely an answer may be used again, as the published provider is told.
fn cache_key_type(env: &dyn Env) -> Result<CacheKeyType, Failure> {
    const NAME: &str = "KUBE_SIDECAR_CACHE_TYPE";
    match var(env, NAME).as_deref() {
        None | Some("image") => Ok(CacheKeyType::Image),
        Some("registry") => Ok(CacheKeyType::Registry),
        Some("global") => Ok(CacheKeyType::Global),
        Some(other) => {
            let message = format!("{NAME} is `{}`, and not `image`, `registry` or `global`", visible(other));
            Err(Failure::new(message))
        }
    }
}

/// How long it may be, at most, as the published provider is told.
fn cache_limit(env: &dyn Env) -> Result<Option<Duration>, Failure> {
    const NAME: &str = "KUBE_SIDECAR_CACHE_DURATION";
    let limit = var(env, NAME).map(|text| provider::duration(&text)).transpose();
    limit.map_err(|reason| Failure::new(format!("{NAME} is no duration: {reason}")))
}
