//! Credentials by registry, and the order in which the kubelet tries them for an image.

use std::collections::BTreeMap;

use credlet_api::Secret;
use credlet_api::image::{AuthConfig, credential_hash_input};
use sha2::{Digest as _, Sha256};

use crate::index::PatternIndex;
use crate::location::{LocationError, RegistryLocation};
use crate::pattern::{ImagePattern, MatchTarget};

/// Credentials of one origin, by the keys of a docker configuration.
///
/// ```
/// use credlet_api::image::AuthConfig;
/// use credlet_image::{DockerKeyring, look_up};
///
/// let auth = |name: &str| AuthConfig { username: name.to_owned(), ..AuthConfig::default() };
/// let keyring = DockerKeyring::new([("https://quay.io/v1/", auth("ada")), ("quay.io/coreos", auth("grace"))]);
/// let found = look_up(&[&keyring], "quay.io/coreos/etcd");
/// let names: Vec<_> = found.iter().map(|found| found.auth.username.as_str()).collect();
/// assert_eq!(names, ["grace", "ada"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct DockerKeyring {
    /// Sorted by key, descending by bytes.
    entries: Vec<KeyringEntry>,
    index: PatternIndex,
    ignored: Vec<IgnoredKey>,
}

#[derive(Clone, Debug)]
struct KeyringEntry {
    key: Vec<u8>,
    display: String,
    pattern: Option<ImagePattern>,
    auths: Vec<AuthConfig>,
}

/// An invalid key, which the kubelet ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredKey {
    /// The key as written, untrusted text.
    pub key: String,
    /// Why it is not a registry location.
    pub reason: LocationError,
}

/// A credential that matches an image.
#[derive(Clone, Copy, Debug)]
pub struct KeyringMatch<'a> {
    /// Index of its keyring.
    pub keyring: usize,
    /// The normalised key.
    pub key: &'a str,
    /// User name and password for the registry.
    pub auth: &'a AuthConfig,
}

/// The kubelet's key for Docker Hub.
const DEFAULT_REGISTRY: &[u8] = b"index.docker.io";

impl DockerKeyring {
    /// Creates a keyring. Keys with the same normal form are all kept, in order.
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
            let pattern = ImagePattern::from_key(&key).ok();
            KeyringEntry { display: String::from_utf8_lossy(&key).into_owned(), key, pattern, auths }
        };
        let entries: Vec<_> = by_key.into_iter().rev().map(entry).collect();
        let mut index = PatternIndex::default();
        for entry in &entries {
            // A normalised key may be invalid as a pattern. It then matches nothing but keeps its number.
            match &entry.pattern {
                Some(pattern) => index.add(pattern),
                None => index.skip(),
            }
        }
        Self { entries, index, ignored }
    }

    /// Returns the invalid keys.
    pub fn ignored(&self) -> &[IgnoredKey] {
        &self.ignored
    }

    /// Returns all normalised keys in the order in which they are tried.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.display.as_str())
    }

    /// Returns all credentials with their normalised keys in the order in which they are tried.
    pub fn auths(&self) -> impl Iterator<Item = (&str, &AuthConfig)> {
        self.entries.iter().flat_map(|entry| entry.auths.iter().map(|auth| (entry.display.as_str(), auth)))
    }

    /// Returns all keys as patterns.
    pub fn patterns(&self) -> impl Iterator<Item = &ImagePattern> {
        self.entries.iter().filter_map(|entry| entry.pattern.as_ref())
    }
}

/// Returns all credentials with a key that matches an image, by key in descending byte order, and for equal keys in the order of the
/// keyrings, like `BasicDockerKeyring.Lookup` of the kubelet.
pub fn look_up<'a>(keyrings: &[&'a DockerKeyring], image: &str) -> Vec<KeyringMatch<'a>> {
    MatchTarget::parse(image).map_or_else(|_| Vec::new(), |target| look_up_target(keyrings, image, &target))
}

/// As [`look_up`], for a parsed image.
pub(crate) fn look_up_target<'a>(
    keyrings: &[&'a DockerKeyring],
    image: &str,
    target: &MatchTarget<'_>,
) -> Vec<KeyringMatch<'a>> {
    let mut found: Vec<(usize, &KeyringEntry)> = Vec::new();
    for (number, keyring) in keyrings.iter().enumerate() {
        found.extend(keyring.index.matching(target).into_iter().map(|entry| (number, &keyring.entries[entry])));
    }
    if found.is_empty() && is_default_registry(image) {
        for (number, keyring) in keyrings.iter().enumerate() {
            found.extend(keyring.entries.iter().filter(|entry| entry.key == DEFAULT_REGISTRY).map(|e| (number, e)));
        }
    }
    // A stable sort keeps the order of the keyrings.
    found.sort_by(|(_, a), (_, b)| b.key.cmp(&a.key));
    let auths = |(keyring, entry): (usize, &'a KeyringEntry)| {
        entry.auths.iter().map(move |auth| KeyringMatch { keyring, key: &entry.display, auth })
    };
    found.into_iter().flat_map(auths).collect()
}

/// Normalises a key: removes scheme, user, query, fragment, and the prefix `/v1/` or `/v2/` of the registry API.
///
/// # Errors
/// If the key is not a registry location. The kubelet ignores such a key.
pub fn normalise(key: &str) -> Result<Vec<u8>, LocationError> {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let location = RegistryLocation::parse(rest.as_bytes())?;
    let path = match &*location.path {
        path if path.starts_with(b"/v1/") || path.starts_with(b"/v2/") => &path[3..],
        path => path,
    };
    Ok([&*location.host, if path == b"/" { b"" } else { path }].concat())
}

/// Returns the hash that the kubelet stores for the credential of a pulled image (KEP-2535).
pub fn auth_hash(username: &str, password: &Secret, email: &str) -> String {
    credlet_api::hex(Sha256::digest(credential_hash_input(username, password, email).as_bytes()))
}

/// Returns whether the image is on Docker Hub (kubelet's `isDefaultRegistryMatch`).
pub fn is_default_registry(image: &str) -> bool {
    match image.split_once('/') {
        None => !image.is_empty(),
        Some((first, _)) => {
            matches!(first, "docker.io" | "index.docker.io") || !first.is_empty() && !first.contains(['.', ':'])
        }
    }
}
