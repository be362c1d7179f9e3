//! Image credential provider for Azure Container Registry, a replacement of `acr-credential-provider`.
//!
//! `host` recognizes registries of Azure. The identity is the one that the pod's service account names, else that of the node in
//! `azure.json`. `exchange` trades its Entra ID access token for a password of the registry. A service principal with a secret
//! authenticates directly.

mod bindings;
mod cloud;
mod exchange;
mod host;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use credlet_api::image::{
    AuthConfig, AzureConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse,
};
use credlet_exec::Platform;
use credlet_plugin::{self as plugin, Failure};

use self::bindings::IdentityBindings;
use self::cloud::AzureCloud;
use self::host::AcrRegistry;
use super::cache_duration::cache_duration;
use super::mirror::{self, MirrorList};
use super::provider;
use crate::azure::{AzureIdentity, ClientCertificate, ClientCredential, EntraClient, ManagedIdentity};
use crate::oauth::{IdentityToken, TokenError, into_failure};
use crate::plugin_runner::block_on;

/// User name for refresh tokens at Azure registries.
const USER: &str = "00000000-0000-0000-0000-000000000000";

/// Scope of the access token.
const SCOPE: &str = "https://containerregistry.azure.net/.default";

/// Pattern with empty credentials, which the kubelet tries last, so that public images can be pulled with invalid credentials.
const ANONYMOUS_PATTERN: &str = "*.azurecr.*";

const CLIENT_ID: &str = "kubernetes.azure.com/acr-client-id";
const TENANT_ID: &str = "kubernetes.azure.com/acr-tenant-id";

/// Cache duration of a service principal's secret, whose expiry is unknown, as in `acr-credential-provider`.
const SECRET_CACHE_DURATION: Duration = Duration::from_secs(3600);

/// Provide credentials for images in Azure Container Registry.
#[derive(Debug, Parser)]
#[command(name = "credlet-acr", version)]
struct AcrArgs {
    /// Azure configuration of the node, usually /etc/kubernetes/azure.json
    config: PathBuf,
    /// Mirror of an Azure registry that accepts its password; also SOURCE:REGISTRY, or several separated by commas
    #[arg(long, short, value_name = "SOURCE=REGISTRY", value_parser = MirrorList::parse)]
    registry_mirror: Vec<MirrorList>,
    /// URL for the token exchange of a registry, instead of its own host; may be repeated
    #[arg(long, value_name = "REGISTRY=URL", value_parser = RegistryEndpoint::parse)]
    endpoint: Vec<RegistryEndpoint>,
    #[command(flatten)]
    bindings: IdentityBindings,
}

/// A configured URL for the token exchange of a registry.
#[derive(Clone, Debug)]
struct RegistryEndpoint {
    registry: String,
    url: String,
}

impl RegistryEndpoint {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (registry, url) = text.split_once('=').ok_or("invalid endpoint: must be REGISTRY=URL")?;
        Ok(Self { registry: registry.to_owned(), url: url.trim_end_matches('/').to_owned() })
    }
}

/// Runs the provider. `args` begin with the program name.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    provider::run(provider::without_log_flags(args), io, |args: &AcrArgs, request| provide(args, platform, request))
}

fn provide(
    args: &AcrArgs,
    platform: &Platform,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let name = provider::registry_host(request)?;
    let mirrored = mirror::upstream_of(&args.registry_mirror, name);
    let config = cloud::config(&args.config).map_err(into_failure)?;
    let found = block_on(credential(args, platform, request, mirrored.unwrap_or(name), mirrored.is_some(), &config))?;
    let Some((auth, cache_duration)) = found.map_err(into_failure)? else {
        return Ok(provider::empty_response(CacheKeyType::Registry));
    };
    let keys = mirrored.into_iter().chain([name]).map(|key| (key.to_owned(), auth.clone()));
    Ok(CredentialProviderResponse {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: Some(cache_duration),
        auth: keys.chain([(ANONYMOUS_PATTERN.to_owned(), AuthConfig::default())]).collect::<BTreeMap<_, _>>(),
    })
}

/// Returns the registry's credential and its cache duration. `None`: not a registry of Azure.
async fn credential(
    args: &AcrArgs,
    platform: &Platform,
    request: &CredentialProviderRequest,
    name: &str,
    is_mirror: bool,
    config: &AzureConfig,
) -> Result<Option<(AuthConfig, Duration)>, TokenError> {
    let cloud = AzureCloud::detect(config, platform).await?;
    let Some(registry) = AcrRegistry::parse(name, cloud.suffix.as_deref()) else { return Ok(None) };
    let entra = EntraClient::new(platform).with_authority(&cloud.authority).without_cache();
    // Mirrors are configured for the node, so the node's identity is used.
    let account = if is_mirror { None } else { request.service_account_token.as_ref() };
    let wrong = |reason: &str| TokenError::invalid_setting("service account token", reason);
    let account = account.map(|token| IdentityToken::parse(token.expose()).map_err(wrong)).transpose()?;
    let (token, tenant) = if let Some(account) = account {
        let who = PodIdentity::from_request(request, &args.bindings)?;
        let token = if args.bindings.ib_sni_name.is_some() {
            args.bindings.token(who.client_id, &account, platform).await?
        } else {
            let (tenant, client_id) = (who.tenant.to_owned(), who.client_id.to_owned());
            entra
                .token(
                    &AzureIdentity::Client { tenant, client_id, credential: ClientCredential::Assertion(account) },
                    SCOPE,
                )
                .await?
        };
        (token, who.tenant)
    } else if args.bindings.ib_sni_name.is_some() && !is_mirror {
        // Falling back to the node's identity would give the account more access than intended.
        return Err(TokenError::MissingSetting {
            what: "service account token in the request".to_owned(),
            hint: "set `tokenAttributes` of the provider in the kubelet's configuration",
        });
    } else if config.use_managed_identity_extension {
        let token = entra.token(&AzureIdentity::ManagedIdentity(managed(config)), SCOPE).await;
        (token.map_err(with_node_hint)?, &*config.tenant_id)
    } else if config.aad_client_secret.is_empty() && !config.aad_client_cert_path.is_empty() {
        (entra.token(&certificate_identity(config)?, SCOPE).await?, &*config.tenant_id)
    } else {
        return service_principal(config).map(Some);
    };
    let endpoint = args.endpoint.iter().find(|endpoint| endpoint.registry == registry.host);
    let password = exchange::password(&registry, endpoint, tenant, &token, platform).await?;
    let life = cache_duration(password.expires, platform.clock.now());
    Ok(Some((AuthConfig { username: USER.to_owned(), password: password.token }, life)))
}

/// The identity in the annotations of the pod's service account.
struct PodIdentity<'a> {
    client_id: &'a str,
    tenant: &'a str,
}

impl<'a> PodIdentity<'a> {
    fn from_request(
        request: &'a CredentialProviderRequest,
        bindings: &'a IdentityBindings,
    ) -> Result<Self, TokenError> {
        let named = |key: &str, usual: &'a Option<String>| {
            let annotation = request.service_account_annotations.get(key).filter(|value| !value.is_empty());
            annotation.or(usual.as_ref()).map(String::as_str).ok_or_else(|| TokenError::MissingSetting {
                what: format!("annotation {key} of the service account"),
                hint: "set it to the identity to pull with, and list it in `tokenAttributes` of the provider",
            })
        };
        let client_id = named(CLIENT_ID, &bindings.ib_default_client_id)?;
        Ok(Self { client_id, tenant: named(TENANT_ID, &bindings.ib_default_tenant_id)? })
    }
}

fn managed(config: &AzureConfig) -> ManagedIdentity {
    let id = Some(config.user_assigned_identity_id.clone()).filter(|id| !id.is_empty());
    let is_resource = |id: &String| id.to_ascii_uppercase().contains("/SUBSCRIPTIONS/");
    match id {
        Some(id) if is_resource(&id) => ManagedIdentity::new(None, Some(id)),
        id => ManagedIdentity::new(id, None),
    }
}

/// Replaces the hint by one for node operators.
fn with_node_hint(error: TokenError) -> TokenError {
    const HINT: &str = "check `userAssignedIdentityID` in the node's configuration, and the identities of the machine";
    match error {
        TokenError::NoCredentials { cloud, tried, .. } => TokenError::NoCredentials { cloud, tried, hint: HINT },
        TokenError::Rejected { host, what, status, code, .. } => {
            TokenError::Rejected { host, what, status, code, hint: Some(HINT) }
        }
        error => error,
    }
}

/// A service principal with a certificate. `acr-credential-provider` supports only secrets.
fn certificate_identity(config: &AzureConfig) -> Result<AzureIdentity, TokenError> {
    let (tenant, client_id) = (config.tenant_id.clone(), config.aad_client_id.clone());
    if client_id.is_empty() {
        return Err(no_identity());
    }
    let credential =
        ClientCredential::Certificate(ClientCertificate::from_file(Path::new(&config.aad_client_cert_path))?);
    Ok(AzureIdentity::Client { tenant, client_id, credential })
}

fn no_identity() -> TokenError {
    TokenError::MissingSetting {
        what: "identity of this node in the Azure configuration".to_owned(),
        hint: "set `useManagedIdentityExtension: true`, or `aadClientId` with `aadClientSecret` or `aadClientCertPath`",
    }
}

/// A service principal's secret as the password. `acr-credential-provider` returns it for all registries of Azure, this
/// provider only for the requested one.
fn service_principal(config: &AzureConfig) -> Result<(AuthConfig, Duration), TokenError> {
    if config.aad_client_id.is_empty() || config.aad_client_secret.is_empty() {
        return Err(no_identity());
    }
    let auth = AuthConfig { username: config.aad_client_id.clone(), password: config.aad_client_secret.clone() };
    Ok((auth, SECRET_CACHE_DURATION))
}
