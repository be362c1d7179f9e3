//! Service accounts of pods: the API that provides them, and the cache keys of the kubelet.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use credlet_api::Secret;
use sha2::{Digest as _, Sha256};

use crate::config::ServiceAccountMode;

/// Pod for which an image is pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRef {
    /// Namespace of the pod, which is also that of its service account.
    pub namespace: String,
    /// Name of the pod, which tokens are bound to.
    pub name: String,
    /// UID of the pod, which tokens are bound to.
    pub uid: String,
    /// Name of the service account. Static pods have none.
    pub service_account: Option<String>,
}

/// Service account object of an API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// UID, part of the cache key.
    pub uid: String,
    /// All annotations. A provider receives those that its configuration names.
    pub annotations: BTreeMap<String, String>,
}

/// Request for a service account token (TokenRequest API).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRequest {
    /// Account to issue the token for.
    pub account: ServiceAccountRef,
    /// Audience of the token.
    pub audience: String,
    /// Name of the pod that the token is bound to.
    pub pod_name: String,
    /// UID of that pod.
    pub pod_uid: String,
}

/// Namespace, name and UID of a service account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccountRef {
    /// Namespace of the account.
    pub namespace: String,
    /// Name, unique in the namespace.
    pub name: String,
    /// UID, which differs after the account is created anew.
    pub uid: String,
}

/// Access to service accounts, usually through the API server.
pub trait ServiceAccountApi: fmt::Debug + Send + Sync {
    /// Fetches a service account.
    fn service_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> AccountFuture<'a, ServiceAccount>;

    /// Requests a token.
    fn token<'a>(&'a self, request: &'a TokenRequest) -> AccountFuture<'a, Secret>;
}

/// Future of a [`ServiceAccountApi`] method.
pub type AccountFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, AccountError>> + Send + 'a>>;

/// Error of a [`ServiceAccountApi`]. The message must not contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccountError(String);

impl AccountError {
    /// Creates an error with a message of one clause.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Part of a cache key with more than 65,535 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part of the cache key is too long: more than 65535 bytes")]
pub struct KeyPartTooLong;

impl ServiceAccountMode {
    /// Returns the annotations for the provider, or the name of a required one that the account lacks.
    pub(crate) fn select(&self, account: &ServiceAccount) -> Result<BTreeMap<String, String>, String> {
        let mut selected = BTreeMap::new();
        for key in &self.required_annotations {
            let value = account.annotations.get(key).ok_or_else(|| key.clone())?;
            selected.insert(key.clone(), value.clone());
        }
        let optional = self.optional_annotations.iter().filter_map(|key| account.annotations.get_key_value(key));
        selected.extend(optional.map(|(key, value)| (key.clone(), value.clone())));
        Ok(selected)
    }
}

/// Returns the cache key of a response in the kubelet's encoding: `base` (image, registry or global) and the account.
///
/// # Errors
/// If a part is too long.
pub fn cache_key(base: &str, account: &[u8]) -> Result<Vec<u8>, KeyPartTooLong> {
    let mut key = Vec::with_capacity(base.len() + account.len() + 4);
    write_cache_key(&mut key, base, account)?;
    Ok(key)
}

/// Writes a [`cache_key`] to an existing buffer.
pub(crate) fn write_cache_key(key: &mut Vec<u8>, base: &str, account: &[u8]) -> Result<(), KeyPartTooLong> {
    key.clear();
    push(key, base.as_bytes())?;
    push(key, account)
}

/// Returns the account part of a cache key in the kubelet's encoding, with the hash of the token if given.
///
/// # Errors
/// If a part is too long.
pub fn account_key(
    account: &ServiceAccountRef,
    annotations: &BTreeMap<String, String>,
    token: Option<&Secret>,
) -> Result<Vec<u8>, KeyPartTooLong> {
    let mut key = Vec::new();
    for part in [&account.namespace, &account.name, &account.uid] {
        push(&mut key, part.as_bytes())?;
    }
    key.extend(u32::try_from(annotations.len()).map_err(|_| KeyPartTooLong)?.to_be_bytes());
    for (name, value) in annotations {
        push(&mut key, name.as_bytes())?;
        push(&mut key, value.as_bytes())?;
    }
    if let Some(token) = token {
        push(&mut key, b"token")?;
        let hash = credlet_api::hex(Sha256::digest(token.expose().as_bytes()));
        push(&mut key, format!("sha256:{hash}").as_bytes())?;
    }
    Ok(key)
}

fn push(key: &mut Vec<u8>, part: &[u8]) -> Result<(), KeyPartTooLong> {
    key.extend(u16::try_from(part.len()).map_err(|_| KeyPartTooLong)?.to_be_bytes());
    key.extend(part);
    Ok(())
}
