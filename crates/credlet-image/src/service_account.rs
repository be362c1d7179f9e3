//! The pod's service account: who knows it, what of it a provider is told, and what answers are remembered by.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use credlet_api::Secret;
use sha2::{Digest as _, Sha256};

use crate::config::{ServiceAccountMode, hex};

/// The pod for which an image is pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique identifier.
    pub uid: String,
    /// The name of its service account. Static pods have none.
    pub service_account: Option<String>,
}

/// A service account, as an API server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its unique identifier.
    pub uid: String,
    /// All of its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Which token a provider gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenRequest {
    /// Whose.
    pub account: Coordinates,
    /// For whom.
    pub audience: String,
    /// Bound to which pod's life.
    pub pod_name: String,
    /// That pod's identifier.
    pub pod_uid: String,
}

/// A service account's place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique identifier.
    pub uid: String,
}

/// Somebody who knows service accounts: in a cluster, its API server.
pub trait ServiceAccounts: fmt::Debug + Send + Sync {
    /// The account of this name.
    fn service_account<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answered<'a, ServiceAccount>;

    /// A token of it.
    fn token<'a>(&'a self, request: &'a TokenRequest) -> Answered<'a, Secret>;
}

/// What a [`ServiceAccounts`] gives.
pub type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<T, AccountError>> + Send + 'a>>;

/// Why nothing is known of an account, or why there is no token. In the words of whoever was asked, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccountError(String);

impl AccountError {
    /// In one clause.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A part of a cache key that is longer than 65,535 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of what its answer is remembered by is longer than 65535 bytes")]
pub struct TooLong;

impl ServiceAccountMode {
    /// The annotations that the provider is told.
    ///
    /// # Errors
    /// The name of a required one that the account does not have.
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

/// What an answer is remembered by, in the kubelet's bytes: the image, its registry or everything, and the account.
///
/// # Errors
/// A part is too long.
pub fn cache_key(base: &str, account: &[u8]) -> Result<Vec<u8>, TooLong> {
    let mut key = Vec::with_capacity(base.len() + account.len() + 4);
    write_cache_key(&mut key, base, account)?;
    Ok(key)
}

/// The same in place of what was there, for somebody who makes several.
pub(crate) fn write_cache_key(key: &mut Vec<u8>, base: &str, account: &[u8]) -> Result<(), TooLong> {
    key.clear();
    push(key, base.as_bytes())?;
    push(key, account)
}

/// What an account is remembered by, in the kubelet's bytes; with the hash of the token if answers depend on that.
///
/// # Errors
/// A part is too long.
pub fn account_key(
    account: &Coordinates,
    annotations: &BTreeMap<String, String>,
    token: Option<&Secret>,
) -> Result<Vec<u8>, TooLong> {
    let mut key = Vec::new();
    for part in [&account.namespace, &account.name, &account.uid] {
        push(&mut key, part.as_bytes())?;
    }
    key.extend(u32::try_from(annotations.len()).map_err(|_| TooLong)?.to_be_bytes());
    for (name, value) in annotations {
        push(&mut key, name.as_bytes())?;
        push(&mut key, value.as_bytes())?;
    }
    if let Some(token) = token {
        push(&mut key, b"token")?;
        let hash = hex(&Sha256::digest(token.expose().as_bytes()));
        push(&mut key, format!("sha256:{hash}").as_bytes())?;
    }
    Ok(key)
}

fn push(key: &mut Vec<u8>, part: &[u8]) -> Result<(), TooLong> {
    key.extend(u16::try_from(part.len()).map_err(|_| TooLong)?.to_be_bytes());
    key.extend(part);
    Ok(())
}
