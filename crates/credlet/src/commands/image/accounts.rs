//! Service accounts, as the kubeconfig's API server knows them.

use std::fmt;

use credlet_api::Secret;
use credlet_api::image::{AccountObject, PodObject, TokenWish};
use credlet_client::Client;
use credlet_client::conn::Payload;
use credlet_image::{AccountError, Answered, Pod, ServiceAccount, ServiceAccounts, TokenRequest};
use http::Request;
use http::header::CONTENT_TYPE;
use zeroize::Zeroizing;

use super::super::{answer, request};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;

/// The API server of the kubeconfig.
pub(super) struct ApiServer(Client);

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiServer")
    }
}

impl ApiServer {
    pub(super) fn new(global: &Global) -> Result<Self, CliError> {
        Ok(Self(Client::new(&global.resolve()?, global.client_options()?)?))
    }

    pub(super) async fn pod(&self, namespace: &str, name: &str) -> Result<Pod, CliError> {
        let body = self.get(&PodObject::path(namespace, name)).await?;
        let pod = PodObject::decode(&body).ok_or_else(|| unknown("pod"))?;
        Ok(Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: pod.uid,
            service_account: Some(pod.service_account_name),
        })
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<ServiceAccount, CliError> {
        let body = self.get(&AccountObject::path(namespace, name)).await?;
        let account = AccountObject::decode(&body).ok_or_else(|| unknown("service account"))?;
        Ok(ServiceAccount { uid: account.uid, annotations: account.annotations })
    }

    async fn request_token(&self, wanted: &TokenRequest) -> Result<Secret, CliError> {
        let wish = TokenWish {
            account_uid: &wanted.account.uid,
            audience: &wanted.audience,
            pod: Some((&*wanted.pod_name, &*wanted.pod_uid)).filter(|(name, _)| !name.is_empty()),
        };
        let request = Request::post(TokenWish::path(&wanted.account.namespace, &wanted.account.name))
            .header(CONTENT_TYPE, "application/json")
            .body(Payload::from(wish.encode()))
            .map_err(|error| CliError::usage(error.to_string()))?;
        TokenWish::token(&self.send(request).await?).ok_or_else(|| unknown("token"))
    }

    async fn get(&self, path: &str) -> Result<Zeroizing<Vec<u8>>, CliError> {
        let request = Request::get(path).body(Payload::empty()).map_err(|error| CliError::usage(error.to_string()))?;
        self.send(request).await
    }

    async fn send(&self, request: Request<Payload>) -> Result<Zeroizing<Vec<u8>>, CliError> {
        let response = self.0.send(request).await?;
        if !response.status().is_success() {
            return Err(request::refusal(response).await);
        }
        Ok(Zeroizing::new(answer::beginning(response.into_body()).await.to_vec()))
    }
}

fn unknown(what: &str) -> CliError {
    CliError::new(Exit::Refused, format!("the server's answer is no {what}"))
}

impl ServiceAccounts for ApiServer {
    fn service_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answered<'a, ServiceAccount> {
        Box::pin(async move { self.account(namespace, name).await.map_err(told) })
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> Answered<'a, Secret> {
        Box::pin(async move { self.request_token(request).await.map_err(told) })
    }
}

fn told(error: CliError) -> AccountError {
    AccountError::new(error.message())
}
