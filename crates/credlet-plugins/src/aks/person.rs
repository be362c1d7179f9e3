//! A person who logs in, in a browser or with a code: the engine of the plugin `oidc`, set up for Entra ID.

use std::sync::Arc;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::oidc::{DISCOVERY_PATH, Metadata};
use credlet_api::plugin::Failure;
use credlet_client::conn::Server;
use credlet_core::World;

use super::args::Args;
use super::settings::{Method, Settings};
use crate::azure::{Entra, scope, tenant_in_path};
use crate::oauth::{self, Error, refused};
use crate::oidc::{self, Asked, GrantType, Options, Talk};
use crate::store::{Shelf, key};
use crate::web::{Ask, Web};

/// A token of the person who is logged in, or logs in now.
pub(super) async fn token(
    args: &Args,
    settings: &Settings,
    info: &ExecInfo,
    world: &World,
    talk: &Arc<dyn Talk>,
) -> Result<ExecCredentialStatus, Failure> {
    let options = options(args, settings, world).await.map_err(oauth::failure)?;
    let engine = oidc::Settings::new(&options, &*world.env).map_err(|error| failure(&error))?;
    let asked = Asked::by(info, &*world.env);
    oidc::token(&engine, &asked, world, talk).await.map_err(|error| failure(&error))
}

async fn options(args: &Args, settings: &Settings, world: &World) -> Result<Options, Error> {
    let authority = Entra::new(world).at(&settings.authority).authority().to_owned();
    let tenant = tenant_id(&authority, &settings.tenant()?, world).await?;
    let redirect_url = args.redirect_url.clone().filter(|url| !url.is_empty());
    let hint = args.login_hint.as_deref().filter(|hint| !hint.is_empty());
    Ok(Options {
        issuer_url: Some(format!("{authority}/{tenant}/v2.0")),
        client_id: Some(settings.public_client_id()),
        extra_scopes: vec![scope(&settings.server_id), "profile".into(), "offline_access".into()],
        use_access_token: true,
        // Without it the engine would have a consent asked for each time, which only an administrator may give here.
        auth_request_extra_params: [
            Some("prompt=select_account".to_owned()),
            hint.map(|hint| format!("login_hint={hint}")),
        ]
        .into_iter()
        .flatten()
        .collect(),
        grant_type: if settings.method == Method::Interactive { GrantType::Authcode } else { GrantType::DeviceCode },
        // Whoever wants a code has no browser here.
        skip_open_browser: settings.method == Method::DeviceCode,
        listen_address: vec![listen(redirect_url.as_deref())?],
        redirect_url,
        authentication_timeout_sec: 180,
        token_cache_dir: args.cache_dir.clone(),
        ..Options::default()
    })
}

/// Entra takes any port of this machine's, unless another place was registered.
fn listen(redirect_url: Option<&str>) -> Result<String, Error> {
    let Some(url) = redirect_url else { return Ok("127.0.0.1:0".to_owned()) };
    let server = Server::parse(url);
    let server = server.map_err(|_| Error::config("--redirect-url", "is not an address like http://localhost:8080"))?;
    Ok(format!("127.0.0.1:{}", server.port()))
}

/// The tenant by its id: a tenant's tokens name it so, by whatever name it was asked. What a domain means is asked for
/// once.
async fn tenant_id(authority: &str, tenant: &str, world: &World) -> Result<String, Error> {
    let tenant = tenant_in_path(tenant)?;
    let is_id = |text: &str| text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_id(tenant) {
        return Ok(tenant.to_ascii_lowercase());
    }
    let shelf = Shelf::of(&*world.env, "azure");
    let name = key(["tenant", authority, tenant]);
    let known = shelf.as_ref().and_then(|shelf| String::from_utf8(shelf.read(&name)?.to_vec()).ok());
    if let Some(id) = known.filter(|id| is_id(id)) {
        return Ok(id);
    }
    let what = format!("the tenant `{tenant}`");
    let failed = |source| Error::Web { what: what.clone(), source };
    let answer = Web::new(world).fetch(Ask::get(format!("{authority}/{tenant}/v2.0{DISCOVERY_PATH}"))).await;
    let answer = answer.map_err(failed)?;
    if !answer.status.is_success() {
        return Err(refused(&answer, &what, |code| {
            matches!(code, "400" | "404").then_some("there is no such tenant: see --tenant-id and --environment")
        }));
    }
    let issuer =
        Metadata::decode(answer.body()).map_err(|_| failed(answer.nonsense("that is no discovery document")))?;
    let id = issuer.issuer.strip_prefix(authority).and_then(|rest| rest.strip_prefix('/')?.strip_suffix("/v2.0"));
    let id = id.filter(|id| is_id(id)).ok_or_else(|| {
        Error::config(what.clone(), "stands for many tenants").advise("name one with --tenant-id, by its id or domain")
    })?;
    if let Some(shelf) = &shelf {
        shelf.write(&name, id.as_bytes());
    }
    Ok(id.to_owned())
}

/// The engine's errors, with advice in the words of these flags.
fn failure(error: &oidc::Error) -> Failure {
    use oidc::Error as E;
    let hint = match error {
        E::Listen { .. } => Some("name a free port with --redirect-url, or use --login devicecode"),
        E::Client { .. } => Some("correct --client-id and --tenant-id, or ask whether this client may do it"),
        E::Unsupported { .. } => Some("use another --login"),
        E::Patience { .. } | E::Shared { .. } => Some("run the same command in a terminal"),
        E::Unanswered { .. } => Some("run it again and follow the browser, or use --login devicecode"),
        E::Denied { .. } => Some("log in again; if a policy of the tenant refuses codes, use --login interactive"),
        E::Issuer { .. } => Some("correct --tenant-id and --authority-host"),
        other => other.hint(),
    };
    hint.into_iter().fold(Failure::new(error.story()), Failure::hint)
}
