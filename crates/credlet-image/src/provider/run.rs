//! One run of a provider: request, process, response.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use credlet_api::image::{CredentialProviderRequest, CredentialProviderResponse};
use credlet_api::{Secret, redact};
use credlet_exec::{
    CommandSpec, CompletedProcess, LookupError, PolicyError, RunError, RunLimits, StdinSource, build_env, find_program,
    last_line, sanitize_output,
};
use zeroize::Zeroizing;

use super::{Provider, ProviderResponse};
use crate::config::CacheType;
use crate::error::ProviderError;
use crate::keyring::DockerKeyring;
use crate::name::ImageName;
use crate::service_account::{ServiceAccountApi, ServiceAccountRef, TokenRequest};

/// Service account for which a provider is run.
#[derive(Debug)]
pub(crate) struct AccountContext {
    pub(crate) account_ref: ServiceAccountRef,
    pub(crate) annotations: BTreeMap<String, String>,
    /// Account part of the cache key.
    pub(crate) key: Vec<u8>,
    pub(crate) token: AccountToken,
}

/// Token of the service account.
#[derive(Debug)]
pub(crate) enum AccountToken {
    /// Already requested, because it is part of the cache key.
    Ready(Secret),
    /// Requested when the provider is run.
    OnDemand(Arc<dyn ServiceAccountApi>, TokenRequest),
}

impl Provider {
    /// Runs the provider.
    pub(super) async fn run(
        &self,
        image: &ImageName,
        account: Option<&AccountContext>,
    ) -> Result<ProviderResponse, ProviderError> {
        let token = match account.map(|account| &account.token) {
            None => None,
            Some(AccountToken::Ready(token)) => Some(token.clone()),
            Some(AccountToken::OnDemand(accounts, request)) => {
                let token = accounts.token(request).await;
                Some(token.map_err(|reason| self.account_error("failed to request a service account token", reason))?)
            }
        };
        let request = self.request(image, account, token.clone());
        let clock = &self.context.platform.clock;
        let started = clock.monotonic();
        let finished = self.execute(&request).await;
        let took = clock.monotonic().saturating_sub(started);
        let failed = !matches!(&finished, Ok(finished) if finished.exit.is_success());
        self.counters.executed(took, failed);

        let finished = finished.map_err(|error| self.run_error(error, token.as_ref()))?;
        let stderr = self.sanitized_stderr(&finished, token.as_ref());
        self.last_stderr.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone_from(&stderr);
        let provider = || self.config.name.clone();
        if !finished.exit.is_success() {
            let message = last_line(&stderr);
            return Err(ProviderError::Failed { provider: provider(), ended: finished.exit, message, stderr });
        }
        let (response, warnings) = CredentialProviderResponse::decode(&finished.stdout, self.config.api_version)
            .map_err(|reason| ProviderError::InvalidResponse { provider: provider(), reason, stderr })?;
        let cached_by_token =
            self.config.service_account.as_ref().is_some_and(|mode| mode.cache_type == CacheType::Token);
        if let Some(token) = token.filter(|_| !cached_by_token)
            && response.auth.values().any(|auth| auth.password == token)
        {
            return Err(ProviderError::EchoedToken { provider: provider() });
        }
        Ok(ProviderResponse {
            image: image.as_str().to_owned(),
            registry: image.registry().to_owned(),
            scope: response.cache_key_type,
            lifetime: response.cache_duration.unwrap_or(self.config.default_cache_duration),
            keyring: DockerKeyring::new(response.auth),
            account: account.map(|account| account.account_ref.clone()),
            took,
            warnings,
        })
    }

    /// Returns the request for an image.
    pub(crate) fn request(
        &self,
        image: &ImageName,
        account: Option<&AccountContext>,
        token: Option<Secret>,
    ) -> CredentialProviderRequest {
        CredentialProviderRequest {
            version: self.config.api_version,
            image: image.as_str().to_owned(),
            service_account_token: token,
            service_account_annotations: account.map(|account| account.annotations.clone()).unwrap_or_default(),
        }
    }

    async fn execute(&self, request: &CredentialProviderRequest) -> Result<CompletedProcess, RunFailure> {
        let platform = &self.context.platform;
        let path = binary_path(&self.context.bin_dir, &self.config.name);
        let found = find_program(&path, &*platform.env);
        self.context.options.policy.check(&path, &found, &*platform.env).map_err(RunFailure::Denied)?;
        let path = found.map_err(RunFailure::NotInstalled)?;
        let configured = self.config.env.iter().map(|variable| (variable.name.as_str(), variable.value.expose()));
        let program = CommandSpec {
            path,
            args: self.config.args.iter().map(|arg| arg.expose().to_owned()).collect(),
            env: build_env(&*platform.env, &self.context.options.inherit, configured),
            stdin: StdinSource::Bytes(Zeroizing::new(request.encode().as_bytes().to_vec())),
            limits: RunLimits {
                timeout: self.context.options.timeout_of(&self.config.name),
                ..RunLimits::NON_INTERACTIVE
            },
        };
        tracing::debug!(provider = self.config.name, image = request.image, "running image credential provider");
        platform.runner.run(program).await.map_err(RunFailure::NotFinished)
    }

    fn run_error(&self, obstacle: RunFailure, token: Option<&Secret>) -> ProviderError {
        let provider = self.config.name.clone();
        match obstacle {
            RunFailure::Denied(reason) => ProviderError::NotAllowed(reason),
            RunFailure::NotInstalled(reason) => ProviderError::NotInstalled(reason),
            RunFailure::NotFinished(reason @ (RunError::TimedOut { .. } | RunError::OutputTooLarge { .. })) => {
                let stderr = sanitize_output(reason.stderr(), &[], self.secrets(token));
                ProviderError::Killed { provider, reason, stderr }
            }
            RunFailure::NotFinished(reason) => ProviderError::NotStarted { provider, reason },
        }
    }

    pub(crate) fn account_error(&self, what: &'static str, reason: crate::AccountError) -> ProviderError {
        ProviderError::Account { provider: self.config.name.clone(), what, reason }
    }

    /// Returns the standard error with the secrets of request and response redacted.
    fn sanitized_stderr(&self, finished: &CompletedProcess, token: Option<&Secret>) -> String {
        let text = sanitize_output(&finished.stderr, &finished.stdout, self.secrets(token));
        // Short passwords are not recognised by `sanitize_output`.
        match CredentialProviderResponse::decode(&finished.stdout, self.config.api_version) {
            Ok((response, _)) => redact(&text, response.auth.values().map(|auth| &auth.password)),
            Err(_) => text,
        }
    }

    fn secrets<'a>(&'a self, token: Option<&'a Secret>) -> impl Iterator<Item = &'a Secret> {
        self.config.env.iter().map(|variable| &variable.value).chain(token)
    }
}

enum RunFailure {
    Denied(PolicyError),
    NotInstalled(LookupError),
    NotFinished(RunError),
}

/// The path of a provider binary. It always contains a `/`, so that `$PATH` is never searched, which the kubelet does for the
/// directory `.`.
pub(crate) fn binary_path(bin_dir: &Path, name: &str) -> String {
    let dir = bin_dir.display().to_string();
    if dir.is_empty() { format!("./{name}") } else { format!("{}/{name}", dir.trim_end_matches('/')) }
}
