//! Service account data of the pod, fetched once per lookup.

use std::sync::Arc;

use crate::config::CacheType;
use crate::credentials::SharedContext;
use crate::error::ProviderError;
use crate::provider::{AccountContext, AccountToken, Provider};
use crate::service_account::{AccountError, PodRef, ServiceAccount, ServiceAccountRef, TokenRequest, account_key};
use crate::trace::SkipReason;

/// Reason for not running a provider.
pub(crate) enum NotRun {
    Skipped(SkipReason),
    Failed(Arc<ProviderError>),
}

/// Service account of a pod, fetched when the first provider needs it and shared by all of them.
pub(crate) struct PodAccount<'a> {
    context: &'a SharedContext,
    pod: Option<&'a PodRef>,
    account: tokio::sync::OnceCell<Result<ServiceAccount, AccountError>>,
}

impl<'a> PodAccount<'a> {
    pub(crate) fn new(context: &'a SharedContext, pod: Option<&'a PodRef>) -> Self {
        Self { context, pod, account: tokio::sync::OnceCell::new() }
    }

    /// Returns the account data for `provider`, or `None` if it needs none.
    pub(crate) async fn for_provider(&self, provider: &Provider) -> Result<Option<Arc<AccountContext>>, NotRun> {
        let Some(mode) = &provider.config.service_account else { return Ok(None) };
        let named =
            self.pod.and_then(|pod| Some((pod, pod.service_account.as_deref().filter(|name| !name.is_empty())?)));
        let Some((pod, name)) = named else {
            return if mode.required { Err(NotRun::Skipped(SkipReason::NoServiceAccount)) } else { Ok(None) };
        };
        let failed = |what, reason| NotRun::Failed(Arc::new(provider.account_error(what, reason)));
        let no_api_server = || AccountError::new("no API server is configured");
        let accounts = self.context.accounts.as_ref();
        let accounts = accounts.ok_or_else(|| failed("failed to fetch the service account", no_api_server()))?;
        let account = self.account.get_or_init(|| accounts.service_account(&pod.namespace, name)).await;
        let account =
            account.as_ref().map_err(|reason| failed("failed to fetch the service account", reason.clone()))?;
        let annotations = mode
            .select(account)
            .map_err(|key| NotRun::Skipped(SkipReason::MissingAnnotation { account: name.to_owned(), key }))?;
        let account_ref =
            ServiceAccountRef { namespace: pod.namespace.clone(), name: name.to_owned(), uid: account.uid.clone() };
        let request = TokenRequest {
            account: account_ref.clone(),
            audience: mode.audience.clone(),
            pod_name: pod.name.clone(),
            pod_uid: pod.uid.clone(),
        };
        let token = match mode.cache_type {
            CacheType::ServiceAccount => None,
            CacheType::Token => {
                let token = accounts.token(&request).await;
                Some(token.map_err(|reason| failed("failed to request a service account token", reason))?)
            }
        };
        let key = account_key(&account_ref, &annotations, token.as_ref()).map_err(|reason| {
            NotRun::Failed(Arc::new(ProviderError::TooLong { provider: provider.config.name.clone(), reason }))
        })?;
        let token = token.map_or_else(|| AccountToken::OnDemand(Arc::clone(accounts), request), AccountToken::Ready);
        Ok(Some(Arc::new(AccountContext { account_ref, annotations, key, token })))
    }
}
