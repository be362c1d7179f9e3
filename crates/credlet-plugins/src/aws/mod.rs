//! Credentials for AWS: where awscli and the SDKs look for them, in awscli's order.
//!
//! **The path:** [`Chain::load`] reads variables and the two files and decides which source it will be; nobody is asked →
//! keys are [at hand](Chain::at_hand) at once; everything else is [fetched](Chain::credentials): a role from STS, a
//! login from SSO, a container's or a machine's from its metadata service, a program's from the program → [`Scope`]
//! signs with them.
//!
//! **Three names to know:** [`Chain`], [`Credentials`], [`Scope`].
//!
//! ```
//! use credlet_core::{FixedEnv, World};
//! use credlet_plugins::aws::{Chain, Options};
//! use std::sync::Arc;
//!
//! let env = FixedEnv::new([("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hunter2"), ("HOME", "/nowhere")]);
//! let chain = Chain::load(Options::default(), World { env: Arc::new(env), ..World::system() })?;
//! assert_eq!(chain.at_hand()?.unwrap().access_key_id.expose(), "AKIDEXAMPLE");
//! # Ok::<(), credlet_plugins::aws::AwsError>(())
//! ```
//!
//! Credentials that were lent (roles, SSO) are kept in a file of the person's own until five minutes before their end, so
//! that a code is typed once and not for each command. The key to the file includes whom they were lent to: after a
//! change of user, or a logout, nobody gets the old ones.

mod call;
mod credentials;
mod endpoint;
mod error;
mod lent;
mod metadata;
mod process;
mod profiles;
mod settings;
mod sigv4;
mod source;
mod sso;
mod sts;
mod time;
mod xml;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_client::conn::Roots;
use credlet_core::World;

pub use self::credentials::Credentials;
pub use self::endpoint::Endpoint;
pub use self::error::AwsError;
use self::lent::Lent;
pub use self::settings::Options;
use self::settings::Settings;
#[cfg(feature = "proxy")]
pub(crate) use self::sigv4::hex;
pub use self::sigv4::{Scope, Signed};
pub use self::source::Role;
use self::source::Source;
use crate::web::Web;

/// Somebody who can be asked for a code.
pub trait Person: fmt::Debug + Send + Sync {
    /// Shows the question and reads a line. It may block: there is nothing else to do meanwhile.
    ///
    /// # Errors
    /// When nobody answers.
    fn ask(&self, question: &str) -> io::Result<Secret>;
}

/// The credentials of one configuration.
#[derive(Debug)]
pub struct Chain {
    settings: Settings,
    source: Source,
    world: World,
    web: Web,
    person: Option<Arc<dyn Person>>,
    lent: Option<Lent>,
}

impl Chain {
    /// Decides where credentials come from. Nothing is run and nobody is asked.
    ///
    /// # Errors
    /// When the configuration cannot be.
    pub fn load(options: Options, world: World) -> Result<Self, AwsError> {
        let settings = Settings::load(options, &*world.env)?;
        let source = source::choose(&settings, &*world.env)?;
        let mut web = Web::new(&world);
        if let Some(path) = &settings.ca_bundle {
            web = web.with_roots(Roots::Pem(profiles::file(path)?.as_bytes().to_vec()));
        }
        let lent = Lent::of(&*world.env);
        Ok(Self { settings, source, world, web, person: None, lent })
    }

    /// With somebody who can be asked for the code of a device.
    #[must_use]
    pub fn with_person(self, person: Option<Arc<dyn Person>>) -> Self {
        Self { person, ..self }
    }

    /// Without keeping what is lent.
    #[must_use]
    pub fn forgetful(self) -> Self {
        Self { lent: None, ..self }
    }

    /// From now on assumes a role with what it has had so far.
    pub fn assume_next(&mut self, role: Role) {
        let from = std::mem::replace(&mut self.source, Source::Instance { tried: Vec::new() });
        self.source = Source::Role { role, from: Box::new(from) };
    }

    /// The region, if anything names one.
    pub fn region(&self) -> Option<&str> {
        self.settings.region.as_deref()
    }

    /// Where STS is, for this region and these settings.
    pub fn sts(&self) -> Endpoint {
        self.settings.sts()
    }

    /// Where the registry API is that gives out the passwords of private registries in this region under this domain.
    pub(crate) fn ecr(&self, region: &str, domain: &str) -> Endpoint {
        self.settings.ecr(region, domain)
    }

    /// The same for the public registry, of which there is one.
    pub(crate) fn ecr_public(&self) -> Endpoint {
        self.settings.ecr_public()
    }

    /// The credentials, if they can be had without running a program or asking anybody.
    ///
    /// # Errors
    /// When they have expired.
    pub fn at_hand(&self) -> Result<Option<Credentials>, AwsError> {
        match &self.source {
            Source::Keys(keys) => self.current("the environment", keys.clone()).map(Some),
            _ => Ok(None),
        }
    }

    /// The credentials. It needs a tokio runtime with time and io.
    ///
    /// # Errors
    /// When there are none.
    pub async fn credentials(&self) -> Result<Credentials, AwsError> {
        self.fetch(&self.source).await
    }

    /// The name of the session that the credentials are of: that of an assumed role, as STS tells it. `None`: they are
    /// of no role.
    ///
    /// # Errors
    /// When there are no credentials, or STS does not know them.
    pub async fn session_name(&self) -> Result<Option<String>, AwsError> {
        let credentials = self.credentials().await?;
        let arn = self.caller_arn(&credentials).await?;
        let mut parts = arn.split(':').next_back().unwrap_or_default().split('/');
        Ok(match (parts.next(), parts.next(), parts.next()) {
            (Some("assumed-role"), Some(_), Some(name)) => Some(name.to_owned()),
            _ => None,
        })
    }

    fn fetch<'a>(
        &'a self,
        source: &'a Source,
    ) -> Pin<Box<dyn Future<Output = Result<Credentials, AwsError>> + Send + 'a>> {
        Box::pin(async move {
            match source {
                Source::Keys(keys) => self.current("the environment", keys.clone()),
                Source::Role { role, from } => {
                    let key = self.key(source)?;
                    self.lent(key, async { self.assume(role, &self.fetch(from).await?).await }).await
                }
                Source::WebIdentity { role, token_file } => {
                    let key = self.key(source)?;
                    let token = Secret::new(profiles::file(token_file)?.trim());
                    self.lent(key, self.assume_with_web_identity(role, &token)).await
                }
                Source::Sso(sso) => {
                    let token = self.sso_token(sso).await?;
                    let key = lent::key(["sso", &sso.account_id, &sso.role_name, &sso.region, token.expose()]);
                    self.lent(key, self.sso_credentials(sso, &token)).await
                }
                Source::Process { profile, command } => self.process(profile, command).await,
                Source::Container(container) => self.container(container).await,
                Source::Instance { tried } => self.instance(tried).await,
            }
        })
    }

    /// Those that were lent before, or else new ones. Who comes second waits for the first, who may be typing a code.
    async fn lent(
        &self,
        key: String,
        fetch: impl Future<Output = Result<Credentials, AwsError>> + Send,
    ) -> Result<Credentials, AwsError> {
        let Some(lent) = &self.lent else { return fetch.await };
        let clock = &*self.world.clock;
        if let Some(found) = lent.read(&key, clock.now()) {
            return Ok(found);
        }
        let _turn = lent.turn(&key, clock).await;
        if let Some(found) = lent.read(&key, clock.now()) {
            return Ok(found);
        }
        let credentials = fetch.await?;
        lent.write(&key, &credentials);
        Ok(credentials)
    }

    /// Names what a source lends, by all that decides what it is. Whoever has other keys, another token or another role
    /// has another name.
    fn key(&self, source: &Source) -> Result<String, AwsError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Ok(match source {
            Source::Keys(keys) => {
                let token = keys.session_token.as_ref().map(Secret::expose).unwrap_or_default();
                lent::key(["keys", keys.access_key_id.expose(), keys.secret_access_key.expose(), token])
            }
            Source::Role { role, from } => lent::key([
                "role",
                &role.arn,
                &text(&role.session_name),
                &text(&role.external_id),
                &text(&role.mfa_serial),
                &role.duration_seconds.unwrap_or_default().to_string(),
                &self.sts().url,
                &self.key(from)?,
            ]),
            Source::WebIdentity { role, token_file } => {
                let token = profiles::file(token_file)?;
                lent::key(["web-identity", &role.arn, &text(&role.session_name), &self.sts().url, token.trim()])
            }
            Source::Sso(sso) => {
                let token = self.sso_token_at_hand(sso)?;
                lent::key(["sso", &sso.account_id, &sso.role_name, &sso.region, token.access_token.expose()])
            }
            Source::Process { profile, command } => lent::key(["process", profile, command.expose()]),
            Source::Container(container) => lent::key(["container", &container.url]),
            Source::Instance { .. } => lent::key(["instance"]),
        })
    }

    /// Refuses what has expired.
    fn current(&self, origin: &str, credentials: Credentials) -> Result<Credentials, AwsError> {
        match credentials.expires {
            Some(at) if at <= self.world.clock.now() => Err(AwsError::Expired { origin: origin.to_owned(), at }),
            _ => Ok(credentials),
        }
    }
}
