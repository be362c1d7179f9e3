//! Credentials by registry, and which of them are tried for an image, in the kubelet's order.

use std::collections::BTreeMap;

use credlet_api::Secret;
use credlet_api::image::{AuthConfig, recognisable};
use sha2::{Digest as _, Sha256};

use crate::config::hex;
use crate::index::PatternIndex;
use crate::location::{Location, LocationError};
use crate::pattern::{Pattern, Target};

/// Credentials of one origin, under keys as they stand in a docker configuration.
///
/// ```
/// use credlet_api::image::AuthConfig;
/// use credlet_image::{Keyring, look_up};
///
/// let auth = |name: &str| AuthConfig { username: name.to_owned(), ..AuthConfig::default() };
/// let keyring = Keyring::new([("https://quay.io/v1/", auth("ada")), ("quay.io/coreos", auth("grace"))]);
/// let found = look_up(&[&keyring], "quay.io/coreos/etcd");
/// let names: Vec<_> = found.iter().map(|found| found.auth.username.as_str()).collect();
/// assert_eq!(names, ["grace", "ada"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// By key, descending by bytes.
    entries: Vec<Entry>,
    index: PatternIndex,
    ignored: Vec<IgnoredKey>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: Vec<u8>,
    shown: String,
    pattern: Option<Pattern>,
    auths: Vec<AuthConfig>,
}

/// A key under which nothing will ever be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredKey {
    /// As it was written.
    pub key: String,
    /// What is wrong with it.
    pub reason: LocationError,
}

/// A credential to try.
#[derive(Clone, Copy, Debug)]
pub struct Match<'a> {
    /// The number of the keyring it comes from.
    pub keyring: usize,
    /// The key, in its normal form.
    pub key: &'a str,
    /// The credential.
    pub auth: &'a AuthConfig,
}

/// The kubelet's name for the docker hub.
const DEFAULT_REGISTRY: &[u8] = b"index.docker.io";

impl Keyring {
    /// Credentials in their order. Of keys with the same normal form all are kept, the first one first.
    pub fn new<K: AsRef<str>>(auths: impl IntoIterator<Item = (K, AuthConfig)>) -> Self {
        let mut by_key = BTreeMap::<Vec<u8>, Vec<AuthConfig>>::new();
        let mut ignored = Vec::new();
        for (key, auth) in auths {
            match normalise(key.as_ref()) {
                Ok(key) => by_key.entry(key).or_default().push(auth),
                Err(reason) => ignored.push(IgnoredKey { key: key.as_ref().to_owned(), reason }),
            }
        }
        let entry = |(key, auths): (Vec<u8>, _)| {
            let pattern = Pattern::from_key(&key).ok();
            Entry { shown: String::from_utf8_lossy(&key).into_owned(), key, pattern, auths }
        };
        let entries: Vec<_> = by_key.into_iter().rev().map(entry).collect();
        let mut index = PatternIndex::default();
        for entry in &entries {
            // A key that cannot be taken apart a second time matches nothing, but keeps its number.
            match &entry.pattern {
                Some(pattern) => index.add(pattern),
                None => index.skip(),
            }
        }
        Self { entries, index, ignored }
    }

    /// The keys that were left out, and why.
    pub fn ignored(&self) -> &[IgnoredKey] {
        &self.ignored
    }

    /// All keys in their normal form, in the order in which they are tried.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.shown.as_str())
    }

    /// All credentials with their keys, in the order in which they are tried.
    pub fn auths(&self) -> impl Iterator<Item = (&str, &AuthConfig)> {
        self.entries.iter().flat_map(|entry| entry.auths.iter().map(|auth| (entry.shown.as_str(), auth)))
    }

    /// All keys as patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.entries.iter().filter_map(|entry| entry.pattern.as_ref())
    }
}

/// What is tried for an image: all credentials whose keys match, by key in descending order of bytes, and under one key
/// in the order of the keyrings. This is one keyring of the kubelet; several of those are tried one after the other.
pub fn look_up<'a>(keyrings: &[&'a Keyring], image: &str) -> Vec<Match<'a>> {
    Target::parse(image).map_or_else(|_| Vec::new(), |target| look_up_target(keyrings, image, &target))
}

/// The same for an image that has been taken apart already.
pub(crate) fn look_up_target<'a>(keyrings: &[&'a Keyring], image: &str, target: &Target<'_>) -> Vec<Match<'a>> {
    let mut found: Vec<(usize, &Entry)> = Vec::new();
    for (number, keyring) in keyrings.iter().enumerate() {
        found.extend(keyring.index.matching(target).into_iter().map(|entry| (number, &keyring.entries[entry])));
    }
    if found.is_empty() && is_default_registry(image) {
        for (number, keyring) in keyrings.iter().enumerate() {
            found.extend(keyring.entries.iter().filter(|entry| entry.key == DEFAULT_REGISTRY).map(|e| (number, e)));
        }
    }
    // Stable: keyrings stay in their order.
    found.sort_by(|(_, a), (_, b)| b.key.cmp(&a.key));
    let auths = |(keyring, entry): (usize, &'a Entry)| {
        entry.auths.iter().map(move |auth| Match { keyring, key: &entry.shown, auth })
    };
    found.into_iter().flat_map(auths).collect()
}

/// A key's normal form: without scheme, user, query and fragment, and without the `/v1/` or `/v2/` of docker's API.
///
/// # Errors
/// The kubelet ignores such a key.
pub fn normalise(key: &str) -> Result<Vec<u8>, LocationError> {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let place = Location::parse(rest.as_bytes())?;
    let path = match &*place.path {
        path if path.starts_with(b"/v1/") || path.starts_with(b"/v2/") => &path[3..],
        path => path,
    };
    Ok([&*place.host, if path == b"/" { b"" } else { path }].concat())
}

/// The hash by which the kubelet knows a credential again that an image was pulled with (KEP-2535).
pub fn auth_hash(username: &str, password: &Secret, email: &str) -> String {
    hex(&Sha256::digest(recognisable(username, password, email).as_bytes()))
}

/// Whether an image without another credential is looked for at the docker hub.
pub fn is_default_registry(image: &str) -> bool {
    match image.split_once('/') {
        None => !image.is_empty(),
        Some((first, _)) => {
            matches!(first, "docker.io" | "index.docker.io") || !first.is_empty() && !first.contains(['.', ':'])
        }
    }
}
