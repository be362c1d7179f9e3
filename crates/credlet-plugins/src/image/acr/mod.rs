//! Credentials for Azure's registries, in place of `acr-credential-provider`.
//!
//! **The path:** the kubelet's request → `host` tells from the registry's name whether it is Azure's → an identity: the
//! one that the pod's service account names, or else the node's own in `azure.json` → Entra ID gives it an access token →
//! `exchange`: the registry takes that and gives its password. Only a service principal with a secret is a user by itself.

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
use credlet_api::plugin::{self, Failure};
use credlet_core::World;

use self::bindings::Bindings;
use self::cloud::Cloud;
use self::host::Registry;
use super::life::remembered;
use super::mirror::{self, Mirrors};
use super::provider;
use crate::azure::{ClientCertificate, Entra, Identity, Managed, Proof};
use crate::harness::wait;
use crate::oauth::{Error, failure};

/// Registries take this user's password for a refresh token.
const USER: &str = "00000000-0000-0000-0000-000000000000";

/// What the access token is for.
const SCOPE: &str = "https://containerregistry.azure.net/.default";

/// Tried last, without a name: an image that everybody may pull does not become unpullable by credentials that were not
/// good.
const ANYBODY: &str = "*.azurecr.*";

const CLIENT_ID: &str = "kubernetes.azure.com/acr-client-id";
const TENANT_ID: &str = "kubernetes.azure.com/acr-tenant-id";

/// How long a service principal's secret is remembered, which does not say when it ends: as the published provider does.
const SECRET: Duration = Duration::from_secs(3600);

/// Credentials for images in Azure's registries (ACR).
#[derive(Debug, Parser)]
#[command(name = "credlet-acr", version)]
struct Args {
    /// The node's configuration for Azure, usually /etc/kubernetes/azure.json
    config: PathBuf,
    /// A registry that stands in for one of Azure's and whose password it takes; SOURCE:REGISTRY too, and several with
    /// commas
    #[arg(long, short, value_name = "SOURCE=REGISTRY", value_parser = Mirrors::parse)]
    registry_mirror: Vec<Mirrors>,
    /// Another address at which a registry gives out its passwords; may be given several times
    #[arg(long, value_name = "REGISTRY=URL", value_parser = Endpoint::parse)]
    endpoint: Vec<Endpoint>,
    #[command(flatten)]
    bindings: Bindings,
}

/// A person has written down where the registry is to be asked.
#[derive(Clone, Debug)]
struct Endpoint {
    registry: String,
    url: String,
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (registry, url) = text.split_once('=').ok_or("an endpoint is written REGISTRY=URL")?;
        Ok(Self { registry: registry.to_owned(), url: url.trim_end_matches('/').to_owned() })
    }
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
    let name = provider::registry(request)?;
    let mirrored = mirror::behind(&args.registry_mirror, name);
    let config = cloud::config(&args.config).map_err(failure)?;
    let found = wait(credential(args, world, request, mirrored.unwrap_or(name), mirrored.is_some(), &config))?;
    let Some((auth, cache_duration)) = found.map_err(failure)? else {
        return Ok(provider::nothing(CacheKeyType::Registry));
    };
    let keys = mirrored.into_iter().chain([name]).map(|key| (key.to_owned(), auth.clone()));
    Ok(CredentialProviderResponse {
        cache_key_type: CacheKeyType::Registry,
        cache_duration: Some(cache_duration),
        auth: keys.chain([(ANYBODY.to_owned(), AuthConfig::default())]).collect::<BTreeMap<_, _>>(),
    })
}

/// The registry's credential, and how long it may be remembered. `None`: the registry is not Azure's.
async fn credential(
    args: &Args,
    world: &World,
    request: &CredentialProviderRequest,
    name: &str,
    is_mirror: bool,
    config: &AzureConfig,
) -> Result<Option<(AuthConfig, Duration)>, Error> {
    let cloud = Cloud::of(config, world).await?;
    let Some(registry) = Registry::of(name, cloud.suffix.as_deref()) else { return Ok(None) };
    let entra = Entra::new(world).at(&cloud.authority).forgetful();
    // A mirror is the node's affair.
    let account = if is_mirror { None } else { request.service_account_token.as_ref() };
    let (token, tenant) = if let Some(account) = account {
        let who = Account::of(request, &args.bindings)?;
        let token = if args.bindings.ib_sni_name.is_some() {
            args.bindings.token(who.client_id, account, world).await?
        } else {
            let (tenant, client_id) = (who.tenant.to_owned(), who.client_id.to_owned());
            entra.token(&Identity::Client { tenant, client_id, proof: Proof::Token(account.clone()) }, SCOPE).await?
        };
        (token, who.tenant)
    } else if args.bindings.ib_sni_name.is_some() && !is_mirror {
        // The node's identity in its place would be more than the account was given.
        return Err(Error::Missing {
            what: "a token of the service account in the request".to_owned(),
            hint: "give the provider `tokenAttributes` in the kubelet's configuration",
        });
    } else if config.use_managed_identity_extension {
        let token = entra.token(&Identity::Managed(managed(config)), SCOPE).await;
        (token.map_err(on_a_node)?, &*config.tenant_id)
    } else if config.aad_client_secret.is_empty() && !config.aad_client_cert_path.is_empty() {
        (entra.token(&certified(config)?, SCOPE).await?, &*config.tenant_id)
    } else {
        return service_principal(config).map(Some);
    };
    let endpoint = args.endpoint.iter().find(|endpoint| endpoint.registry == registry.host);
    let password = exchange::password(&registry, endpoint, tenant, &token, world).await?;
    let life = remembered(password.expires, world.clock.now());
    Ok(Some((AuthConfig { username: USER.to_owned(), password: password.token }, life)))
}

/// The identity that the pod's service account names.
struct Account<'a> {
    client_id: &'a str,
    tenant: &'a str,
}

impl<'a> Account<'a> {
    fn of(request: &'a CredentialProviderRequest, bindings: &'a Bindings) -> Result<Self, Error> {
        let named = |key: &str, usual: &'a Option<String>| {
            let annotation = request.service_account_annotations.get(key).filter(|value| !value.is_empty());
            annotation.or(usual.as_ref()).map(String::as_str).ok_or_else(|| Error::Missing {
                what: format!("the annotation {key} of the service account"),
                hint: "it names the identity to pull with; the kubelet passes it on if `tokenAttributes` lists it",
            })
        };
        let client_id = named(CLIENT_ID, &bindings.ib_default_client_id)?;
        Ok(Self { client_id, tenant: named(TENANT_ID, &bindings.ib_default_tenant_id)? })
    }
}

fn managed(config: &AzureConfig) -> Managed {
    let id = Some(config.user_assigned_identity_id.clone()).filter(|id| !id.is_empty());
    let is_resource = |id: &String| id.to_ascii_uppercase().contains("/SUBSCRIPTIONS/");
    match id {
        Some(id) if is_resource(&id) => Managed::new(None, Some(id)),
        id => Managed::new(id, None),
    }
}

/// With advice for who runs nodes.
fn on_a_node(error: Error) -> Error {
    const HINT: &str =
        "see `userAssignedIdentityID` in the node's configuration, and the identities that the machine has";
    match error {
        Error::NoCredentials { cloud, tried, .. } => Error::NoCredentials { cloud, tried, hint: HINT },
        Error::Refused { host, what, status, code, .. } => {
            Error::Refused { host, what, status, code, hint: Some(HINT) }
        }
        error => error,
    }
}

/// A service principal that has no secret, but signs. The published provider knows only secrets.
fn certified(config: &AzureConfig) -> Result<Identity, Error> {
    let (tenant, client_id) = (config.tenant_id.clone(), config.aad_client_id.clone());
    if client_id.is_empty() {
        return Err(no_identity());
    }
    let proof = Proof::Certificate(ClientCertificate::from_file(Path::new(&config.aad_client_cert_path))?);
    Ok(Identity::Client { tenant, client_id, proof })
}

fn no_identity() -> Error {
    Error::Missing {
        what: "an identity of this node in its configuration for Azure".to_owned(),
        hint: "it has `useManagedIdentityExtension: true`, or `aadClientId` with `aadClientSecret` or `aadClientCertPath`",
    }
}

/// It is a user of registries by itself. The published provider gives it to every registry of Azure's at once.
fn service_principal(config: &AzureConfig) -> Result<(AuthConfig, Duration), Error> {
    if config.aad_client_id.is_empty() || config.aad_client_secret.is_empty() {
        return Err(no_identity());
    }
    let auth = AuthConfig { username: config.aad_client_id.clone(), password: config.aad_client_secret.clone() };
    Ok((auth, SECRET))
}
