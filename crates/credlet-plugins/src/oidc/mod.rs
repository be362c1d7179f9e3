//! OpenID Connect: a person logs in at an issuer once, and every cluster that trusts it gets a token.
//!
//! **The path of a run:** a token that is kept and fresh → answered, without a lock and without the network. Else our
//! turn at the login's lock → is there one now? → the issuer describes itself → a refresh token gets the next one (the
//! new refresh token is kept before anything else happens) → or a person logs in, by a browser here, a code typed
//! elsewhere, or not at all (client credentials) → the ID token is verified → kept → answered.
//!
//! **Three names to know:** [`Options`] are kubelogin's flags, [`Settings`] are those checked, [`token`] is the plugin.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_core::World;
//! use credlet_plugins::oidc::{self, Asked, Options, Quiet, Settings};
//!
//! # async fn example() -> Result<(), oidc::Error> {
//! let world = World::system();
//! let options = Options {
//!     issuer_url: Some("https://id.example".into()),
//!     client_id: Some("kubernetes".into()),
//!     ..Options::default()
//! };
//! let settings = Settings::new(&options, &*world.env)?;
//! let status = oidc::token(&settings, &Asked::default(), &world, &(Arc::new(Quiet) as _)).await?;
//! # Ok(()) }
//! ```

mod authcode;
mod browser;
mod command;
mod context;
mod device;
mod error;
mod issuer;
mod keep;
mod key;
mod loopback;
mod options;
mod page;
mod query;
mod random;
mod record;
mod session;
mod sessions;
mod settings;
mod verify;

use std::sync::Arc;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_core::{Env, World};

pub use self::command::run;
pub use self::error::{Endpoint, Error, failure};
use self::issuer::Issuer;
use self::keep::Keep;
pub use self::key::directory;
pub use self::options::{GrantType, Options, OtherOptions, PkceMethod, Storage};
use self::session::Run;
pub use self::sessions::{Ended, Session, log_out_all, sessions};
pub use self::settings::Settings;
pub use self::verify::TokenError;

/// Tells a person what is going on. Library code prints nothing.
pub trait Talk: Send + Sync {
    /// One line. It holds no secret.
    fn say(&self, line: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Talk for Quiet {
    fn say(&self, _: &str) {}
}

/// Who asks for a token, and for what.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The API server the token is for, if the client says which. The page after the login names it.
    pub cluster: Option<String>,
    /// Whether there is a person at a terminal, who may be shown a browser window although the last one led to nothing.
    pub person: bool,
}

impl Asked {
    /// As a Kubernetes client asks.
    pub fn by(info: &ExecInfo, env: &dyn Env) -> Self {
        let cluster = info.spec.cluster.as_ref().map(|cluster| cluster.server.clone());
        Self { cluster, person: info.spec.interactive || env.stdin_is_terminal() }
    }
}

/// A token for the API server. Its expiry is never later than its own.
///
/// # Errors
/// Says who must act.
pub async fn token(
    settings: &Settings,
    asked: &Asked,
    world: &World,
    talk: &Arc<dyn Talk>,
) -> Result<ExecCredentialStatus, Error> {
    let keep = Keep::open(settings, &**talk);
    Run { settings, asked, world, talk, keep }.token().await
}

/// Lets a person log in now, whatever is kept and whatever went wrong before.
///
/// # Errors
/// Says who must act.
pub async fn log_in(settings: &Settings, asked: &Asked, world: &World, talk: &Arc<dyn Talk>) -> Result<Session, Error> {
    let keep = Keep::open(settings, &**talk);
    let run = Run { settings, asked, world, talk, keep };
    let _turn = run.keep.turn(settings.timeout, Arc::clone(talk)).await?;
    let mut record = run.keep.read().unwrap_or_default();
    let issuer = Issuer::discover(settings, world).await?;
    run.log_in(&issuer, &mut record).await?;
    Ok(Session::of(&record, world.clock.now()))
}

/// Ends a login: its refresh token is given back to the issuer (RFC 7009), and nothing of it is kept.
///
/// # Errors
/// When there is none. That the issuer does not take the token back is no error: it is told in what comes back.
pub async fn log_out(settings: &Settings, world: &World, talk: &Arc<dyn Talk>) -> Result<Ended, Error> {
    let keep = Keep::open(settings, &**talk);
    let _turn = keep.turn(settings.timeout, Arc::clone(talk)).await?;
    let record = keep.read().ok_or(Error::NotLoggedIn)?;
    let revoked = sessions::revoke(settings, &record, world).await;
    keep.remove();
    Ok(Ended { session: Session::of(&record, world.clock.now()), revoked })
}
