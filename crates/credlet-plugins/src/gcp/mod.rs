//! Access tokens of Google Cloud, without gcloud and its Python.
//!
//! **The path:** where are the credentials? [`Source::application_default`] reads the file that Google's libraries read;
//! [`gcloud::Login`] reads what `gcloud auth login` has left → [`Google::token`] makes an access token of them: a key
//! signs an assertion, a refresh token or a foreign token is exchanged, the machine's metadata server is asked, another
//! account is impersonated.
//!
//! **Three names to know:** [`Google`], [`Source`], [`AccessToken`].
//!
//! Tokens that come from far away are kept in a file of the person's own, under a name that is made of the credentials
//! themselves: whoever switches to another account has another name, and gets nobody else's token.

pub mod gcloud;
mod grants;
mod metadata;
mod source;
mod sqlite;

use std::future::Future;
use std::pin::Pin;

use credlet_core::World;

pub use self::grants::Exchange;
pub use self::source::Source;
use crate::harness::var;
pub use crate::oauth::AccessToken;
use crate::oauth::{Error, Kept};
use crate::store;
use crate::web::Web;

/// All of Google Cloud's APIs, within what the account may do.
pub const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The account's name, by which a cluster knows it.
pub const USERINFO_EMAIL: &str = "https://www.googleapis.com/auth/userinfo.email";

/// Asks Google.
#[derive(Clone, Debug)]
pub struct Google {
    world: World,
    web: Web,
    kept: Option<Kept>,
    /// Where refresh tokens are taken.
    token_url: String,
    /// Where accounts are impersonated.
    iam_url: String,
}

impl Google {
    /// At the addresses of gcloud's own variables, or at Google's.
    pub fn new(world: &World) -> Self {
        let address = |name: &str, usual: &str| var(&*world.env, name).unwrap_or_else(|| usual.to_owned());
        Self {
            web: Web::new(world),
            kept: Some(Kept::new(world, "gcp")),
            token_url: address("CLOUDSDK_AUTH_TOKEN_HOST", "https://oauth2.googleapis.com/token"),
            iam_url: address(
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS",
                "https://iamcredentials.googleapis.com/",
            ),
            world: world.clone(),
        }
    }

    /// Without keeping tokens for the next run.
    #[must_use]
    pub fn forgetful(self) -> Self {
        Self { kept: None, ..self }
    }

    /// An access token for these scopes. It needs a tokio runtime with time and io.
    ///
    /// # Errors
    /// When there is none.
    pub async fn token(&self, source: &Source, scopes: &[&str]) -> Result<AccessToken, Error> {
        match (&self.kept, self.key(source)?) {
            (Some(kept), Some(key)) => {
                let key = store::key([key.as_str(), &scopes.join(" ")]);
                kept.token(&key, self.fetch(source, scopes)).await
            }
            _ => self.fetch(source, scopes).await,
        }
    }

    fn fetch<'a>(
        &'a self,
        source: &'a Source,
        scopes: &'a [&'a str],
    ) -> Pin<Box<dyn Future<Output = Result<AccessToken, Error>> + Send + 'a>> {
        Box::pin(async move {
            match source {
                Source::Metadata { account } => self.metadata_token(account, scopes).await,
                Source::ServiceAccount(account) => self.by_key(account, scopes).await,
                Source::User(user) => self.by_refresh_token(user).await,
                Source::External(external) => self.by_foreign_token(external, scopes).await,
                Source::Impersonated { url, delegates, from } => {
                    let token = self.fetch(from, &[CLOUD_PLATFORM]).await?;
                    self.impersonate(url, delegates, None, &token, scopes).await
                }
            }
        })
    }

    /// The source, or another service account with its rights. `chain` are accounts separated by commas: the last one
    /// is the one to become, the others are on the way.
    pub fn impersonating(&self, from: Source, chain: Option<&str>) -> Source {
        match self.impersonation(chain.unwrap_or_default()) {
            Some((url, delegates)) => Source::Impersonated { url, delegates, from: Box::new(from) },
            None => from,
        }
    }

    /// Where such a chain leads, and by way of whom.
    fn impersonation(&self, chain: &str) -> Option<(String, Vec<String>)> {
        let names: Vec<_> = chain.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let (account, delegates) = names.split_last()?;
        let delegates = delegates.iter().map(|name| format!("projects/-/serviceAccounts/{name}"));
        Some((self.impersonation_url(account), delegates.collect()))
    }

    /// The address at which a token of this service account is to be had by those who may act as it.
    pub fn impersonation_url(&self, account: &str) -> String {
        let (base, account) = (self.iam_url.trim_end_matches('/'), crate::web::escaped(account));
        format!("{base}/v1/projects/-/serviceAccounts/{}:generateAccessToken", *account)
    }
}
