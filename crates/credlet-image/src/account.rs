//! What a provider is told of the pod's service account.

use std::sync::Arc;

use crate::config::CacheType;
use crate::credentials::Setting;
use crate::error::ProviderError;
use crate::provider::{Account, Provider, Token};
use crate::service_account::{AccountError, Coordinates, Pod, ServiceAccount, TokenRequest, account_key};
use crate::trace::Skipped;

/// Why a provider is not asked.
pub(crate) enum NotAsked {
    Skipped(Skipped),
    Failed(Arc<ProviderError>),
}

/// The pod's service account, asked for once for all providers, and only if one wants to know it.
pub(crate) struct AccountOnce<'a> {
    setting: &'a Setting,
    pod: Option<&'a Pod>,
    account: tokio::sync::OnceCell<Result<ServiceAccount, AccountError>>,
}

impl<'a> AccountOnce<'a> {
    pub(crate) fn new(setting: &'a Setting, pod: Option<&'a Pod>) -> Self {
        Self { setting, pod, account: tokio::sync::OnceCell::new() }
    }

    /// What `provider` is told: nothing, if it does not want to know or need not.
    pub(crate) async fn of(&self, provider: &Provider) -> Result<Option<Arc<Account>>, NotAsked> {
        let Some(mode) = &provider.config.service_account else { return Ok(None) };
        let named =
            self.pod.and_then(|pod| Some((pod, pod.service_account.as_deref().filter(|name| !name.is_empty())?)));
        let Some((pod, name)) = named else {
            return if mode.required { Err(NotAsked::Skipped(Skipped::NoServiceAccount)) } else { Ok(None) };
        };
        let failed = |what, reason| NotAsked::Failed(Arc::new(provider.no_account(what, reason)));
        let nobody = || AccountError::new("nobody here knows service accounts: there is no API server to ask");
        let accounts = self.setting.accounts.as_ref();
        let accounts = accounts.ok_or_else(|| failed("nothing is known of the service account", nobody()))?;
        let account = self.account.get_or_init(|| accounts.service_account(&pod.namespace, name)).await;
        let account =
            account.as_ref().map_err(|reason| failed("nothing is known of the service account", reason.clone()))?;
        let annotations = mode
            .select(account)
            .map_err(|key| NotAsked::Skipped(Skipped::MissingAnnotation { account: name.to_owned(), key }))?;
        let coordinates =
            Coordinates { namespace: pod.namespace.clone(), name: name.to_owned(), uid: account.uid.clone() };
        let request = TokenRequest {
            account: coordinates.clone(),
            audience: mode.audience.clone(),
            pod_name: pod.name.clone(),
            pod_uid: pod.uid.clone(),
        };
        let given = match mode.cache_type {
            CacheType::ServiceAccount => None,
            CacheType::Token => {
                let token = accounts.token(&request).await;
                Some(token.map_err(|reason| failed("no token of the service account", reason))?)
            }
        };
        let key = account_key(&coordinates, &annotations, given.as_ref()).map_err(|reason| {
            NotAsked::Failed(Arc::new(ProviderError::TooLong { provider: provider.config.name.clone(), reason }))
        })?;
        let token = given.map_or_else(|| Token::OnDemand(Arc::clone(accounts), request), Token::Given);
        Ok(Some(Arc::new(Account { coordinates, annotations, key, token })))
    }
}
