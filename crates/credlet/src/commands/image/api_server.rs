//! Service accounts and tokens from the API server of the kubeconfig.

use std::fmt;

use credlet_api::Secret;
use credlet_api::image::{PodObject, ServiceAccountObject, ServiceAccountTokenRequest};
use credlet_client::Client;
use credlet_http::RequestBody;
use credlet_image::{AccountError, AccountFuture, PodRef, ServiceAccount, ServiceAccountApi, TokenRequest};
use http::Request;
use http::header::CONTENT_TYPE;
use zeroize::Zeroizing;

use super::super::{request, response};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;

/// The API server of the kubeconfig.
pub(super) struct ApiServer(Client);

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiServer")
    }
}

impl ApiServer {
    pub(super) fn new(global: &GlobalArgs) -> Result<Self, CliError> {
        Ok(Self(Client::new(&global.resolve()?, global.client_options()?)?))
    }

    pub(super) async fn pod(&self, namespace: &str, name: &str) -> Result<PodRef, CliError> {
        let body = self.get(&PodObject::path(namespace, name)).await?;
        let pod = PodObject::decode(&body).ok_or_else(|| unexpected_response("pod"))?;
        Ok(PodRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: pod.uid,
            service_account: Some(pod.service_account_name),
        })
    }

    async fn account(&self, namespace: &str, name: &str) -> Result<ServiceAccount, CliError> {
        let body = self.get(&ServiceAccountObject::path(namespace, name)).await?;
        let account = ServiceAccountObject::decode(&body).ok_or_else(|| unexpected_response("service account"))?;
        Ok(ServiceAccount { uid: account.uid, annotations: account.annotations })
    }

    async fn request_token(&self, token: &TokenRequest) -> Result<Secret, CliError> {
        let body = ServiceAccountTokenRequest {
            account_uid: &token.account.uid,
            audience: &token.audience,
            pod: Some((&*token.pod_name, &*token.pod_uid)).filter(|(name, _)| !name.is_empty()),
        };
        let request = Request::post(ServiceAccountTokenRequest::path(&token.account.namespace, &token.account.name))
            .header(CONTENT_TYPE, "application/json")
            .body(RequestBody::from(body.encode()))
            .map_err(|error| CliError::internal(format!("failed to build the request: {error}")))?;
        ServiceAccountTokenRequest::token(&self.send(request).await?).ok_or_else(|| unexpected_response("token"))
    }

    async fn get(&self, path: &str) -> Result<Zeroizing<Vec<u8>>, CliError> {
        let request = Request::get(path)
            .body(RequestBody::empty())
            .map_err(|error| CliError::internal(format!("failed to build the request: {error}")))?;
        self.send(request).await
    }

    async fn send(&self, request: Request<RequestBody>) -> Result<Zeroizing<Vec<u8>>, CliError> {
        let response = self.0.send(request).await?;
        if !response.status().is_success() {
            return Err(request::error_from_response(response).await);
        }
        Ok(Zeroizing::new(response::read_prefix(response.into_body()).await))
    }
}

fn unexpected_response(expected: &str) -> CliError {
    CliError::new(ExitStatus::ServerError, format!("unexpected response of the API server: not a {expected}"))
}

impl ServiceAccountApi for ApiServer {
    fn service_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> AccountFuture<'a, ServiceAccount> {
        Box::pin(async move { self.account(namespace, name).await.map_err(account_error) })
    }

    fn token<'a>(&'a self, request: &'a TokenRequest) -> AccountFuture<'a, Secret> {
        Box::pin(async move { self.request_token(request).await.map_err(account_error) })
    }
}

fn account_error(error: CliError) -> AccountError {
    AccountError::new(error.message())
}
