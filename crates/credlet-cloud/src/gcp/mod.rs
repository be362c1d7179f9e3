//! Access tokens of Google Cloud, without gcloud.
//!
//! A [`GoogleCredentialSource`] comes from the application default credentials
//! ([`application_default`](GoogleCredentialSource::application_default)) or from a login of gcloud ([`gcloud::GcloudLogin`]).
//! [`GoogleClient::token`] returns an [`AccessToken`] for it: by an assertion of a service account key, a refresh token, a token
//! exchange, the metadata server, or impersonation of a service account.
//!
//! Tokens that require a remote request are cached in a private file. The credentials are part of the key (the private key, the
//! refresh token, or the identity token, which is fetched first), so that a change of account or a logout takes effect at once. An
//! access token does not outlive the identity token that it was exchanged for.

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod gcloud;
mod grants;
mod metadata;
mod source;
mod sqlite;

use std::future::Future;
use std::pin::Pin;

use credlet_exec::Platform;

pub use self::grants::TokenExchange;
pub use self::source::GoogleCredentialSource;
pub use crate::oauth::AccessToken;
use crate::oauth::{AccessTokenCache, IdentityToken, TokenError};
use crate::plugin_runner::env_var;
use credlet_exec::store;
use credlet_http::fetch::{EndpointPolicy, HttpFetcher};

/// Scope of all Google Cloud APIs.
pub const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Scope of the account's e-mail address, by which GKE identifies the user.
pub const USERINFO_EMAIL: &str = "https://www.googleapis.com/auth/userinfo.email";

/// Domains that refresh tokens, and access tokens for impersonation, may be sent to.
const GOOGLE_DOMAINS: [&str; 2] = ["googleapis.com", "accounts.google.com"];

/// A client of Google's token endpoints, IAM and the metadata server.
#[derive(Clone, Debug)]
pub struct GoogleClient {
    platform: Platform,
    fetcher: HttpFetcher,
    cache: Option<AccessTokenCache>,
    /// Default token endpoint.
    token_url: String,
    /// Base URL of the IAM Service Account Credentials API, without a trailing slash.
    iam_url: String,
}

impl GoogleClient {
    /// Creates a client for the endpoints in gcloud's environment variables, else those of Google.
    pub fn new(platform: &Platform) -> Self {
        let address = |name: &str, usual: &str| env_var(&*platform.env, name).unwrap_or_else(|| usual.to_owned());
        Self {
            fetcher: HttpFetcher::new(platform.clock.clone(), platform.env.clone()),
            cache: Some(AccessTokenCache::new(platform, "gcp")),
            token_url: address("CLOUDSDK_AUTH_TOKEN_HOST", "https://oauth2.googleapis.com/token"),
            iam_url: address("CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS", "https://iamcredentials.googleapis.com")
                .trim_end_matches('/')
                .to_owned(),
            platform: platform.clone(),
        }
    }

    /// Disables the token cache on disk.
    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: None, ..self }
    }

    /// The policy for sending a bearer secret to `url`. A URL in the same file as the secret is the owner's choice. A URL from
    /// an environment variable must be Google's, because a kubeconfig can set variables (`exec.env`).
    fn bearer_policy(&self, url: &str) -> EndpointPolicy {
        let by_variable = url == self.token_url || url.starts_with(&self.iam_url);
        if by_variable { EndpointPolicy::default().only(GOOGLE_DOMAINS) } else { EndpointPolicy::default() }
    }

    /// Returns an access token for these scopes, from the cache if possible. Needs a tokio runtime with time and io enabled.
    ///
    /// # Errors
    /// When the credentials cannot be used, or the request is rejected or fails.
    pub async fn token(&self, source: &GoogleCredentialSource, scopes: &[&str]) -> Result<AccessToken, TokenError> {
        // Fetched once, so that the cache key covers the token that is exchanged.
        let subject = match source.external() {
            Some(external) => Some(self.subject_token(external).await?),
            None => None,
        };
        let fetch = self.fetch(source, subject.as_ref(), scopes);
        match (&self.cache, self.cache_key(source, subject.as_ref())) {
            (Some(cache), Some(key)) => cache.token(&store::cache_key([key.as_str(), &scopes.join(" ")]), fetch).await,
            _ => fetch.await,
        }
    }

    fn fetch<'a>(
        &'a self,
        source: &'a GoogleCredentialSource,
        subject: Option<&'a IdentityToken>,
        scopes: &'a [&'a str],
    ) -> Pin<Box<dyn Future<Output = Result<AccessToken, TokenError>> + Send + 'a>> {
        Box::pin(async move {
            match source {
                GoogleCredentialSource::Metadata { account } => self.metadata_token(account, scopes).await,
                GoogleCredentialSource::ServiceAccountKey(account) => self.service_account_token(account, scopes).await,
                GoogleCredentialSource::AuthorizedUser(user) => self.refresh_user_token(user).await,
                GoogleCredentialSource::ExternalAccount(external) => {
                    self.external_account_token(external, subject, scopes).await
                }
                GoogleCredentialSource::Impersonated { url, delegates, from } => {
                    let token = self.fetch(from, subject, &[CLOUD_PLATFORM]).await?;
                    let end = subject.and_then(IdentityToken::expires);
                    Ok(self.impersonate(url, delegates, None, &token, scopes).await?.limit_expiry(end))
                }
            }
        })
    }

    /// Returns `from`, or the impersonation of a service account with it. `chain` has the delegates and, last, the service account to
    /// impersonate, separated by commas.
    pub fn with_impersonation(&self, from: GoogleCredentialSource, chain: Option<&str>) -> GoogleCredentialSource {
        match self.impersonation(chain.unwrap_or_default()) {
            Some((url, delegates)) => GoogleCredentialSource::Impersonated { url, delegates, from: Box::new(from) },
            None => from,
        }
    }

    /// Returns the URL and the delegates of an impersonation chain.
    fn impersonation(&self, chain: &str) -> Option<(String, Vec<String>)> {
        let names: Vec<_> = chain.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let (account, delegates) = names.split_last()?;
        let delegates = delegates.iter().map(|name| format!("projects/-/serviceAccounts/{name}"));
        Some((self.impersonation_url(account), delegates.collect()))
    }

    /// Returns the `generateAccessToken` URL of a service account.
    pub fn impersonation_url(&self, account: &str) -> String {
        let (base, account) = (&self.iam_url, credlet_http::fetch::percent_encode(account));
        format!("{base}/v1/projects/-/serviceAccounts/{}:generateAccessToken", *account)
    }
}
