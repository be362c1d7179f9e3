//! Image credential provider for Artifact Registry and Container Registry, a replacement of `auth-provider-gcp`.
//!
//! The password of user `_token` is an access token: of the node's service account, from the metadata server, or of the pod's service
//! account, by a token exchange. The legacy flows return a `.dockercfg` of the node's metadata.

mod dockercfg;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use credlet_api::escape_control_chars;
use credlet_api::image::{AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_exec::{Env, Platform};
use credlet_plugin::{self as plugin, Failure};

use super::cache_duration::cache_duration;
use super::mirror::{self, MirrorList};
use super::provider;
use crate::gcp::{AccessToken, CLOUD_PLATFORM, GoogleClient, TokenExchange};
use crate::oauth::{IdentityToken, TokenError, into_failure};
use crate::plugin_runner::{block_on, env_var};

/// User name for access tokens at Google's registries.
const USER: &str = "_token";

/// Registry patterns of every response, as in `auth-provider-gcp`.
const KEYS: [&str; 4] = ["container.cloud.google.com", "gcr.io", "*.gcr.io", "*.pkg.dev"];

/// Annotation of service accounts that pull with their own identity.
const ANNOTATION: &str = "iam.gke.io/enable-wi-image-pull";

/// Provide credentials for images in Artifact Registry and Container Registry.
#[derive(Debug, Parser)]
#[command(name = "credlet-gar", version)]
struct GarArgs {
    /// Source of the password
    #[arg(long = "authFlow", alias = "auth-flow", short = 'a', value_enum, default_value = "gcr")]
    auth_flow: AuthFlow,
    /// Identity provider of the cluster, for service accounts that pull with their own identity (annotation
    /// `iam.gke.io/enable-wi-image-pull: "true"`)
    #[arg(long, value_name = "URL", requires = "project_id")]
    identity_provider: Option<String>,
    /// Project of the identity provider
    #[arg(long, value_name = "ID")]
    project_id: Option<String>,
    /// Mirror of a Google registry that accepts its password; may be repeated
    #[arg(long, value_name = "SOURCE=REGISTRY", value_parser = MirrorList::parse)]
    registry_mirror: Vec<MirrorList>,
    /// `get-credentials`, accepted for compatibility
    #[arg(hide = true)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AuthFlow {
    /// Access token of the node or of the pod's service account
    Gcr,
    /// .dockercfg in the node attribute google-dockercfg
    Dockercfg,
    /// .dockercfg at the URL in the node attribute google-dockercfg-url
    DockercfgUrl,
}

/// Runs the provider. `args` begin with the program name.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    provider::run(provider::without_log_flags(args), io, |args: &GarArgs, request| provide(args, platform, request))
}

fn provide(
    args: &GarArgs,
    platform: &Platform,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let cache_key_type = cache_key_type(&*platform.env)?;
    let limit = cache_limit(&*platform.env)?;
    let registry = provider::registry_host(request)?;
    let google = GoogleClient::new(platform).without_cache();
    if args.auth_flow != AuthFlow::Gcr {
        let by_address = args.auth_flow == AuthFlow::DockercfgUrl;
        let auth = block_on(dockercfg::fetch(&google, platform, by_address))?.map_err(into_failure)?;
        // The expiry of these credentials is unknown.
        return Ok(CredentialProviderResponse { cache_key_type, cache_duration: limit.or(Some(Duration::ZERO)), auth });
    }
    let mirrored = mirror::upstream_of(&args.registry_mirror, registry);
    if !is_google_registry(mirrored.unwrap_or(registry)) {
        return Ok(provider::empty_response(cache_key_type));
    }
    let token = token(args, platform, &google, request)?;
    let life = cache_duration(token.expires, platform.clock.now());
    let auth = AuthConfig { username: USER.to_owned(), password: token.token };
    let keys = KEYS.into_iter().chain([registry]);
    Ok(CredentialProviderResponse {
        cache_key_type,
        cache_duration: Some(limit.map_or(life, |limit| limit.min(life))),
        auth: keys.map(|key| (key.to_owned(), auth.clone())).collect::<BTreeMap<_, _>>(),
    })
}

fn token(
    args: &GarArgs,
    platform: &Platform,
    google: &GoogleClient,
    request: &CredentialProviderRequest,
) -> Result<AccessToken, Failure> {
    let wants_own = request.service_account_annotations.get(ANNOTATION).is_some_and(|value| value == "true");
    let (Some(provider), Some(project), true) = (&args.identity_provider, &args.project_id, wants_own) else {
        return block_on(google.metadata_token("default", &[]))?.map_err(with_node_hint).map_err(into_failure);
    };
    // Falling back to the node's identity would give the account more access than intended.
    let Some(subject_token) = &request.service_account_token else {
        return Err(Failure::new(
            "missing service account token in the request: this account pulls with its own identity",
        )
        .hint("set `tokenAttributes` of the provider in the kubelet's configuration"));
    };
    let subject_token = IdentityToken::parse(subject_token.expose());
    let subject_token =
        subject_token.map_err(|reason| into_failure(TokenError::invalid_setting("service account token", reason)))?;
    let chosen = env_var(&*platform.env, "CLOUDSDK_API_ENDPOINT_OVERRIDES_STS");
    let base = chosen.as_deref().unwrap_or("https://sts.googleapis.com/").trim_end_matches('/');
    let exchange = TokenExchange {
        token_url: &format!("{base}/v1/token"),
        audience: &format!("identitynamespace:{project}.svc.id.goog:{provider}"),
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        subject_token: &subject_token,
    };
    block_on(google.exchange(&exchange, &[CLOUD_PLATFORM]))?.map_err(into_failure)
}

/// Replaces the hint by one for node operators.
fn with_node_hint(error: TokenError) -> TokenError {
    match error {
        TokenError::NoCredentials { cloud, tried, .. } => {
            let hint =
                "this provider requires a node in Google Cloud: elsewhere set GCE_METADATA_HOST to its metadata server";
            TokenError::NoCredentials { cloud, tried, hint }
        }
        error => error,
    }
}

/// Whether it is one of the registries in [`KEYS`], by whole labels.
fn is_google_registry(host: &str) -> bool {
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

/// The cache key type in `KUBE_SIDECAR_CACHE_TYPE`, the variable of `auth-provider-gcp`.
fn cache_key_type(env: &dyn Env) -> Result<CacheKeyType, Failure> {
    const NAME: &str = "KUBE_SIDECAR_CACHE_TYPE";
    match env_var(env, NAME).as_deref() {
        None | Some("image") => Ok(CacheKeyType::Image),
        Some("registry") => Ok(CacheKeyType::Registry),
        Some("global") => Ok(CacheKeyType::Global),
        Some(other) => {
            let message =
                format!("invalid {NAME} `{}`: must be `image`, `registry` or `global`", escape_control_chars(other));
            Err(Failure::new(message))
        }
    }
}

/// The maximum cache duration in `KUBE_SIDECAR_CACHE_DURATION`, the variable of `auth-provider-gcp`.
fn cache_limit(env: &dyn Env) -> Result<Option<Duration>, Failure> {
    const NAME: &str = "KUBE_SIDECAR_CACHE_DURATION";
    let limit = env_var(env, NAME).map(|text| provider::parse_duration_arg(&text)).transpose();
    limit.map_err(|reason| Failure::new(format!("invalid {NAME}: {reason}")))
}
