//! The credential chain: selection of a source, dispatch to it, and the cache of temporary credentials.
//!
//! [`CredentialChain::fetch`] lists the sources. Each is implemented in a module of its name: `sts` (roles and web identity), `sso`,
//! `process` (`credential_process`), `metadata` (containers and EC2 instances).

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_exec::Platform;
use credlet_http::TrustRoots;
use credlet_http::fetch::HttpFetcher;

use super::cache::{self, AwsCredentialCache};
use super::resolve::{self, AwsCredentialSource};
use super::settings::AwsSettings;
use super::{AwsCredentials, AwsEndpoint, AwsError, AwsOptions, AwsRole, profiles};

/// Reads MFA codes from the user.
pub trait MfaPrompt: fmt::Debug + Send + Sync {
    /// Shows the prompt and reads one line. May block the thread.
    ///
    /// # Errors
    /// When the terminal is missing, or reading from it fails.
    fn read_code(&self, prompt: &str) -> io::Result<Secret>;
}

/// The credential source that one configuration selects.
#[derive(Debug)]
pub struct CredentialChain {
    pub(super) settings: AwsSettings,
    source: AwsCredentialSource,
    pub(super) platform: Platform,
    pub(super) fetcher: HttpFetcher,
    pub(super) mfa_prompt: Option<Arc<dyn MfaPrompt>>,
    cache: Option<AwsCredentialCache>,
}

impl CredentialChain {
    /// Selects the credential source from files and environment variables. Runs no program and sends no request.
    ///
    /// # Errors
    /// When a configuration file cannot be read, or the configuration is invalid.
    pub fn load(options: AwsOptions, platform: Platform) -> Result<Self, AwsError> {
        let settings = AwsSettings::load(options, &*platform.env)?;
        let source = resolve::resolve(&settings, &*platform.env)?;
        let mut fetcher = HttpFetcher::new(platform.clock.clone(), platform.env.clone());
        if let Some(path) = &settings.ca_bundle {
            fetcher = fetcher.with_roots(TrustRoots::Pem(profiles::read_file(path)?.as_bytes().to_vec()));
        }
        let cache = AwsCredentialCache::new(&*platform.env);
        Ok(Self { settings, source, platform, fetcher, mfa_prompt: None, cache })
    }

    /// Sets the prompt for MFA codes. `None` (the default): a role that requires a code fails with
    /// [`AwsError::MfaUnavailable`].
    #[must_use]
    pub fn with_mfa_prompt(self, mfa_prompt: Option<Arc<dyn MfaPrompt>>) -> Self {
        Self { mfa_prompt, ..self }
    }

    /// Disables the cache of temporary credentials on disk.
    #[must_use]
    pub fn without_cache(self) -> Self {
        Self { cache: None, ..self }
    }

    /// Returns the configured region.
    pub fn region(&self) -> Option<&str> {
        self.settings.region.as_deref()
    }

    /// Returns the STS endpoint of the configured region.
    pub fn sts(&self) -> AwsEndpoint {
        self.settings.sts()
    }

    /// The ECR API endpoint for private registries of this region and domain.
    pub(crate) fn ecr(&self, region: &str, domain: &str) -> AwsEndpoint {
        self.settings.ecr(region, domain)
    }

    /// The API endpoint of the public registry.
    pub(crate) fn ecr_public(&self) -> AwsEndpoint {
        self.settings.ecr_public()
    }

    /// Returns access keys from the environment or a profile. `None`: the source needs a program or the network.
    ///
    /// # Errors
    /// When the keys have expired.
    pub fn static_credentials(&self) -> Result<Option<AwsCredentials>, AwsError> {
        match &self.source {
            AwsCredentialSource::StaticKeys(keys) => self.ensure_valid("the environment", keys.clone()).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the credentials of the selected source, from the cache if possible. Needs a tokio runtime with time and io
    /// enabled.
    ///
    /// # Errors
    /// When the source has no credentials, or fails.
    pub async fn credentials(&self) -> Result<AwsCredentials, AwsError> {
        self.fetch(&self.source).await
    }

    fn fetch<'a>(
        &'a self,
        source: &'a AwsCredentialSource,
    ) -> Pin<Box<dyn Future<Output = Result<AwsCredentials, AwsError>> + Send + 'a>> {
        Box::pin(async move {
            match source {
                AwsCredentialSource::StaticKeys(keys) => self.ensure_valid("the environment", keys.clone()),
                AwsCredentialSource::AssumeRole { role, from } => {
                    self.assume_role(role, &self.fetch(from).await?).await
                }
                AwsCredentialSource::WebIdentity { role, token_file } => {
                    let token = profiles::read_identity_token(token_file, "the web identity token")?;
                    let session = role.session_name.as_deref().unwrap_or_default();
                    let key = cache::key(["web-identity", &role.arn, session, &self.sts().url, token.expose()]);
                    self.cached(key, self.assume_with_web_identity(role, &token)).await
                }
                AwsCredentialSource::Sso(sso) => {
                    let token = self.sso_token(sso).await?;
                    let (portal, _) = self.settings.sso(&sso.region);
                    let key = cache::key(["sso", &portal.url, &sso.account_id, &sso.role_name, token.expose()]);
                    self.cached(key, self.sso_credentials(sso, &token)).await
                }
                AwsCredentialSource::Process { profile, command } => self.process(profile, command).await,
                AwsCredentialSource::Container(container) => self.container(container).await,
                AwsCredentialSource::Instance { tried } => self.instance(tried).await,
            }
        })
    }

    /// Returns the credentials of a role, assumed with `by`. The cache key covers `by`, and the role's credentials do not outlive
    /// it, so that after a logout or a change of identity no earlier ones are returned. Needs a tokio runtime with time and io
    /// enabled.
    ///
    /// # Errors
    /// When STS denies the role, or an MFA code is required and cannot be read.
    pub async fn assume_role(&self, role: &AwsRole, by: &AwsCredentials) -> Result<AwsCredentials, AwsError> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let session = by.session_token.as_ref().map(Secret::expose).unwrap_or_default();
        let key = cache::key([
            "role",
            &role.arn,
            &text(&role.session_name),
            &text(&role.external_id),
            &text(&role.mfa_serial),
            &role.duration_seconds.unwrap_or_default().to_string(),
            &self.sts().url,
            by.access_key_id.expose(),
            by.secret_access_key.expose(),
            session,
        ]);
        self.cached(key, async { Ok(self.assume(role, by).await?.limit_expiry(by.expires)) }).await
    }

    /// Returns the session name of assumed-role credentials, as reported by STS. `None`: they do not belong to a role.
    ///
    /// # Errors
    /// When STS rejects the credentials.
    pub async fn session_name(&self, credentials: &AwsCredentials) -> Result<Option<String>, AwsError> {
        let arn = self.get_caller_arn(credentials).await?;
        let mut parts = arn.split(':').next_back().unwrap_or_default().split('/');
        Ok(match (parts.next(), parts.next(), parts.next()) {
            (Some("assumed-role"), Some(_), Some(name)) => Some(name.to_owned()),
            _ => None,
        })
    }

    /// Returns the cached credentials of this key, or the result of `fetch`.
    async fn cached(
        &self,
        key: String,
        fetch: impl Future<Output = Result<AwsCredentials, AwsError>> + Send,
    ) -> Result<AwsCredentials, AwsError> {
        match &self.cache {
            Some(cache) => cache.credentials(&key, &*self.platform.clock, fetch).await,
            None => fetch.await,
        }
    }

    /// Returns an error for expired credentials.
    pub(super) fn ensure_valid(&self, origin: &str, credentials: AwsCredentials) -> Result<AwsCredentials, AwsError> {
        match credentials.expires {
            Some(at) if at <= self.platform.clock.now() => Err(AwsError::Expired { origin: origin.to_owned(), at }),
            _ => Ok(credentials),
        }
    }
}
