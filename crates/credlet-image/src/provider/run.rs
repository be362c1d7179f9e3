//! One run of a provider: question, process, answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use credlet_api::image::{CredentialProviderRequest, CredentialProviderResponse};
use credlet_api::{Secret, scrub};
use credlet_core::{
    Finished, Limits, LookupError, Program, RunError, Stdin, harmless, last_line, look_up, surroundings,
};
use zeroize::Zeroizing;

use super::{Answer, Provider};
use crate::config::CacheType;
use crate::error::ProviderError;
use crate::keyring::Keyring;
use crate::name::ImageName;
use crate::service_account::{Coordinates, ServiceAccounts, TokenRequest};

/// The service account for which a provider is asked.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) coordinates: Coordinates,
    pub(crate) annotations: BTreeMap<String, String>,
    /// What answers are remembered by.
    pub(crate) key: Vec<u8>,
    pub(crate) token: Token,
}

/// Where its token is.
#[derive(Debug)]
pub(crate) enum Token {
    /// Answers are remembered by it, so it had to be there first.
    Given(Secret),
    /// It is asked for when the provider is run, and not before.
    OnDemand(Arc<dyn ServiceAccounts>, TokenRequest),
}

impl Provider {
    /// Asks the provider.
    pub(super) async fn run(&self, image: &ImageName, account: Option<&Account>) -> Result<Answer, ProviderError> {
        let token = match account.map(|account| &account.token) {
            None => None,
            Some(Token::Given(token)) => Some(token.clone()),
            Some(Token::OnDemand(accounts, request)) => {
                let token = accounts.token(request).await;
                Some(token.map_err(|reason| self.no_account("no token of the service account", reason))?)
            }
        };
        let request = self.request(image, account, token.clone());
        let clock = &self.setting.world.clock;
        let began = clock.monotonic();
        let finished = self.execute(&request).await;
        let took = clock.monotonic().saturating_sub(began);
        let failed = !matches!(&finished, Ok(finished) if finished.ended.is_success());
        self.counts.executed(took, failed);

        let finished = finished.map_err(|error| self.not_finished(error, token.as_ref()))?;
        let stderr = self.words(&finished, token.as_ref());
        self.last_stderr.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone_from(&stderr);
        let provider = || self.config.name.clone();
        if !finished.ended.is_success() {
            let message = last_line(&stderr);
            return Err(ProviderError::Failed { provider: provider(), ended: finished.ended, message, stderr });
        }
        let (response, remarks) = CredentialProviderResponse::decode(&finished.stdout, self.config.api_version)
            .map_err(|reason| ProviderError::Nonsense { provider: provider(), reason, stderr })?;
        let remembered_by_token =
            self.config.service_account.as_ref().is_some_and(|mode| mode.cache_type == CacheType::Token);
        if let Some(token) = token.filter(|_| !remembered_by_token)
            && response.auth.values().any(|auth| auth.password == token)
        {
            return Err(ProviderError::EchoedToken { provider: provider() });
        }
        Ok(Answer {
            image: image.as_str().to_owned(),
            registry: image.registry().to_owned(),
            scope: response.cache_key_type,
            lifetime: response.cache_duration.unwrap_or(self.config.default_cache_duration),
            keyring: Keyring::new(response.auth),
            account: account.map(|account| account.coordinates.clone()),
            took,
            remarks,
        })
    }

    /// What it is asked.
    pub(crate) fn request(
        &self,
        image: &ImageName,
        account: Option<&Account>,
        token: Option<Secret>,
    ) -> CredentialProviderRequest {
        CredentialProviderRequest {
            version: self.config.api_version,
            image: image.as_str().to_owned(),
            service_account_token: token,
            service_account_annotations: account.map(|account| account.annotations.clone()).unwrap_or_default(),
        }
    }

    async fn execute(&self, request: &CredentialProviderRequest) -> Result<Finished, Obstacle> {
        let world = &self.setting.world;
        let path = binary(&self.setting.bin_dir, &self.config.name);
        let path = look_up(&path, &*world.env).map_err(Obstacle::NotInstalled)?;
        let configured = self.config.env.iter().map(|variable| (variable.name.as_str(), variable.value.expose()));
        let program = Program {
            path,
            args: self.config.args.iter().map(|arg| arg.expose().to_owned()).collect(),
            env: surroundings(&*world.env, &self.setting.options.inherit, configured),
            stdin: Stdin::Bytes(Zeroizing::new(request.encode().as_bytes().to_vec())),
            limits: Limits { time: self.setting.options.timeout_of(&self.config.name), ..Limits::ALONE },
        };
        tracing::debug!(provider = self.config.name, image = request.image, "running image credential provider");
        world.runner.run(program).await.map_err(Obstacle::NotFinished)
    }

    fn not_finished(&self, obstacle: Obstacle, token: Option<&Secret>) -> ProviderError {
        let provider = self.config.name.clone();
        match obstacle {
            Obstacle::NotInstalled(reason) => ProviderError::NotInstalled(reason),
            Obstacle::NotFinished(reason @ (RunError::TimedOut { .. } | RunError::TooMuchOutput { .. })) => {
                let stderr = harmless(reason.stderr(), &[], self.secrets(token));
                ProviderError::Ended { provider, reason, stderr }
            }
            Obstacle::NotFinished(reason) => ProviderError::NotStarted { provider, reason },
        }
    }

    pub(crate) fn no_account(&self, what: &'static str, reason: crate::AccountError) -> ProviderError {
        ProviderError::Account { provider: self.config.name.clone(), what, reason }
    }

    /// What it wrote to standard error, without any secret that it was given or that it gave.
    fn words(&self, finished: &Finished, token: Option<&Secret>) -> String {
        let text = harmless(&finished.stderr, &finished.stdout, self.secrets(token));
        // Passwords may be shorter than what is taken for a secret in any output.
        match CredentialProviderResponse::decode(&finished.stdout, self.config.api_version) {
            Ok((response, _)) => scrub(&text, response.auth.values().map(|auth| &auth.password)),
            Err(_) => text,
        }
    }

    fn secrets<'a>(&'a self, token: Option<&'a Secret>) -> impl Iterator<Item = &'a Secret> {
        self.config.env.iter().map(|variable| &variable.value).chain(token)
    }
}

enum Obstacle {
    NotInstalled(LookupError),
    NotFinished(RunError),
}

/// Always a path, so that `$PATH` is never searched: with a directory `.` the kubelet does search it.
pub(crate) fn binary(bin_dir: &Path, name: &str) -> String {
    let dir = bin_dir.display().to_string();
    if dir.is_empty() { format!("./{name}") } else { format!("{}/{name}", dir.trim_end_matches('/')) }
}
