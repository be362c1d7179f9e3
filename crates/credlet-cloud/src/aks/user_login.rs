//! Login of a user, in a browser or with a device code: `credlet-oidc`, configured for Entra ID.

use std::sync::Arc;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::oidc::{DISCOVERY_PATH, ProviderMetadata};
use credlet_exec::Platform;
use credlet_http::{ServerAddr, is_loopback};
use credlet_plugin::Failure;

use super::args::AksArgs;
use super::settings::{AksSettings, LoginMethod};
use crate::azure::{EntraClient, scope, validate_tenant};
use crate::oauth::{self, TokenError, rejected};
use credlet_exec::store::{TokenCache, cache_key};
use credlet_http::fetch::{FetchRequest, HttpFetcher};
use credlet_oidc::{GrantType, LoginRequest, OidcError, OidcOptions, UserOutput};

/// Returns a token of the stored login, or of a new one.
pub(super) async fn token(
    args: &AksArgs,
    settings: &AksSettings,
    info: &ExecInfo,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
) -> Result<ExecCredentialStatus, Failure> {
    let options = options(args, settings, platform).await.map_err(oauth::into_failure)?;
    let engine = credlet_oidc::OidcSettings::new(&options, &*platform.env).map_err(|error| failure(&error))?;
    let request = LoginRequest::from_exec_info(info, &*platform.env);
    credlet_oidc::token(&engine, &request, platform, output).await.map_err(|error| failure(&error))
}

async fn options(args: &AksArgs, settings: &AksSettings, platform: &Platform) -> Result<OidcOptions, TokenError> {
    let authority = EntraClient::new(platform).with_authority(&settings.authority).authority().to_owned();
    let tenant = tenant_id(&authority, &settings.tenant()?, platform).await?;
    let redirect_url = args.redirect_url.clone().filter(|url| !url.is_empty());
    let hint = args.login_hint.as_deref().filter(|hint| !hint.is_empty());
    Ok(OidcOptions {
        issuer_url: Some(format!("{authority}/{tenant}/v2.0")),
        client_id: Some(settings.public_client_id()),
        extra_scopes: vec![scope(&settings.server_id), "profile".into(), "offline_access".into()],
        use_access_token: true,
        // Without it `credlet-oidc` would request `prompt=consent`, which only an administrator may grant here.
        auth_request_extra_params: [
            Some("prompt=select_account".to_owned()),
            hint.map(|hint| format!("login_hint={hint}")),
        ]
        .into_iter()
        .flatten()
        .collect(),
        grant_type: if settings.method == LoginMethod::Interactive {
            GrantType::Authcode
        } else {
            GrantType::DeviceCode
        },
        // A device code login means that there is no browser on this machine.
        skip_open_browser: settings.method == LoginMethod::DeviceCode,
        listen_address: listen(redirect_url.as_deref())?.into_iter().collect(),
        redirect_url,
        authentication_timeout_sec: 180,
        token_cache_dir: args.cache_dir.clone(),
        ..OidcOptions::default()
    })
}

/// Returns the address to listen on. Entra ID accepts any port of `http://localhost`, so a random one is used, unless a redirect URL
/// is registered. `None` for a redirect URL on loopback, which determines the address.
fn listen(redirect_url: Option<&str>) -> Result<Option<String>, TokenError> {
    let Some(url) = redirect_url else { return Ok(Some("127.0.0.1:0".to_owned())) };
    let server = ServerAddr::parse(url);
    let server =
        server.map_err(|_| TokenError::invalid_setting("--redirect-url", "not a URL such as http://localhost:8080"))?;
    let on_this_machine = !server.is_https() && is_loopback(server.host());
    Ok((!on_this_machine).then(|| format!("127.0.0.1:{}", server.port())))
}

/// Returns the id of a tenant, because tokens name it by its id. A domain is looked up once and cached.
async fn tenant_id(authority: &str, tenant: &str, platform: &Platform) -> Result<String, TokenError> {
    let tenant = validate_tenant(tenant)?;
    let is_id = |text: &str| text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_id(tenant) {
        return Ok(tenant.to_ascii_lowercase());
    }
    let cache = TokenCache::in_cache_dir(&*platform.env, "azure");
    let name = cache_key(["tenant", authority, tenant]);
    let known = cache.as_ref().and_then(|cache| String::from_utf8(cache.read(&name)?.to_vec()).ok());
    if let Some(id) = known.filter(|id| is_id(id)) {
        return Ok(id);
    }
    let what = format!("tenant `{tenant}`");
    let failed = |source| TokenError::Request { what: what.clone(), source };
    let response = HttpFetcher::new(platform.clock.clone(), platform.env.clone())
        .fetch(FetchRequest::get(format!("{authority}/{tenant}/v2.0{DISCOVERY_PATH}")))
        .await;
    let response = response.map_err(failed)?;
    if !response.status.is_success() {
        return Err(rejected(&response, &what, |code| {
            matches!(code, "400" | "404").then_some("tenant not found: check --tenant-id and --environment")
        }));
    }
    let issuer = ProviderMetadata::decode(response.body())
        .map_err(|_| failed(response.invalid_response("it is not a discovery document")))?;
    let id = issuer.issuer.strip_prefix(authority).and_then(|rest| rest.strip_prefix('/')?.strip_suffix("/v2.0"));
    let id = id.filter(|id| is_id(id)).ok_or_else(|| {
        TokenError::invalid_setting(what.clone(), "refers to more than one tenant")
            .with_hint("pass one tenant with --tenant-id, by id or domain")
    })?;
    if let Some(cache) = &cache {
        cache.write(&name, id.as_bytes());
    }
    Ok(id.to_owned())
}

/// Converts an error of `credlet-oidc`, with hints that name the flags of this plugin.
fn failure(error: &OidcError) -> Failure {
    let hint = match error {
        OidcError::Listen { .. } => {
            Some("stop the program that uses the port, name another one with --redirect-url, or use --login devicecode")
        }
        OidcError::ClientRejected { .. } => {
            Some("correct --client-id and --tenant-id, or request whether this client may do it")
        }
        OidcError::NotSupported { .. } => Some("use another --login"),
        OidcError::LoginCooldown { .. } | OidcError::SharedFailure { .. } => Some("run the same command in a terminal"),
        OidcError::LoginTimedOut { .. } => Some("run it again and follow the browser, or use --login devicecode"),
        OidcError::Denied { .. } => {
            Some("log in again; if a policy of the tenant refuses codes, use --login interactive")
        }
        OidcError::IssuerMismatch { .. } => Some("correct --tenant-id and --authority-host"),
        other => other.hint(),
    };
    hint.into_iter().fold(Failure::new(error.to_chained_string()), Failure::hint)
}
