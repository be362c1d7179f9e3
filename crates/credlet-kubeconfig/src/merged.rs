use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::kubeconfig::{
    AuthInfo, ClusterSection, ContextSection, KubeconfigFile, Located, NamedEntry, SecretBytes,
};
use credlet_platform::Env;

use super::error::{FileError, FileErrorKind, KubeconfigError};
use super::origin::{Sourced, ValueOrigin};
use super::paths;

/// Merged kubeconfig files: the first definition of each cluster, user and context, as a whole, and the first non-empty
/// `current-context`.
///
/// The files are kept as read, so that [`check`](Self::check) sees overridden entries as well.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    pub(super) files: Vec<LoadedFile>,
    pub(super) service_account: Option<PathBuf>,
    missing: Vec<PathBuf>,
    clusters: Index,
    users: Index,
    contexts: Index,
}

/// File and entry index of each name.
type Index = HashMap<String, (usize, usize)>;

impl Kubeconfig {
    /// Parses a kubeconfig that is not a file. A relative `exec.command` is left unchanged; all other relative paths are
    /// resolved against the current directory.
    ///
    /// # Errors
    /// If the text is not a kubeconfig.
    pub fn from_bytes(bytes: &[u8], env: &dyn Env) -> Result<Self, KubeconfigError> {
        let config = KubeconfigFile::decode(bytes).map_err(|error| KubeconfigError::Unreadable {
            files: vec![FileError { path: "kubeconfig".into(), kind: FileErrorKind::Decode(error) }],
        })?;
        let loaded = LoadedFile { path: None, dir: env.current_dir(), config };
        // No in-cluster fallback for an explicit kubeconfig.
        Ok(Self::merge(vec![loaded], Vec::new(), None))
    }

    pub(super) fn merge(files: Vec<LoadedFile>, missing: Vec<PathBuf>, service_account: Option<PathBuf>) -> Self {
        Self {
            clusters: index(&files, |config| &config.clusters),
            users: index(&files, |config| &config.users),
            contexts: index(&files, |config| &config.contexts),
            files,
            missing,
            service_account,
        }
    }

    /// Returns the name of the current context.
    pub fn current_context(&self) -> Option<Sourced<&str>> {
        self.files.iter().find_map(|file| file.sourced(&file.config.current_context)).map(|name| name.map(|s| &**s))
    }

    /// Returns the context of this name.
    pub fn context(&self, name: &str) -> Option<ConfigEntry<'_, ContextSection>> {
        self.find(&self.contexts, name, |config| &config.contexts)
    }

    /// Returns the cluster of this name.
    pub fn cluster(&self, name: &str) -> Option<ConfigEntry<'_, ClusterSection>> {
        self.find(&self.clusters, name, |config| &config.clusters)
    }

    /// Returns the user of this name.
    pub fn user(&self, name: &str) -> Option<ConfigEntry<'_, AuthInfo>> {
        self.find(&self.users, name, |config| &config.users)
    }

    /// Returns all contexts in the order of the files.
    pub fn contexts(&self) -> impl Iterator<Item = ConfigEntry<'_, ContextSection>> {
        self.entries(&self.contexts, |config| &config.contexts)
    }

    /// Returns all clusters in the order of the files.
    pub fn clusters(&self) -> impl Iterator<Item = ConfigEntry<'_, ClusterSection>> {
        self.entries(&self.clusters, |config| &config.clusters)
    }

    /// Returns all users in the order of the files.
    pub fn users(&self) -> impl Iterator<Item = ConfigEntry<'_, AuthInfo>> {
        self.entries(&self.users, |config| &config.users)
    }

    /// Returns the files of the loading rules that do not exist.
    pub fn missing_files(&self) -> &[PathBuf] {
        &self.missing
    }

    fn find<'a, T>(
        &'a self,
        index: &Index,
        name: &str,
        list: fn(&KubeconfigFile) -> &Vec<NamedEntry<T>>,
    ) -> Option<ConfigEntry<'a, T>> {
        let (file, entry) = *index.get(name)?;
        let file = self.files.get(file)?;
        list(&file.config).get(entry).map(|named| ConfigEntry { file, named })
    }

    fn entries<'a, T: 'a>(
        &'a self,
        index: &'a Index,
        list: fn(&KubeconfigFile) -> &Vec<NamedEntry<T>>,
    ) -> impl Iterator<Item = ConfigEntry<'a, T>> {
        let positions = self.files.iter().enumerate().flat_map(move |(file_index, file)| {
            list(&file.config)
                .iter()
                .enumerate()
                .map(move |(entry, named)| ((file_index, entry), ConfigEntry { file, named }))
        });
        positions.filter(move |(position, entry)| index.get(entry.name()) == Some(position)).map(|(_, entry)| entry)
    }
}

fn index<T>(files: &[LoadedFile], list: fn(&KubeconfigFile) -> &Vec<NamedEntry<T>>) -> Index {
    let mut index = Index::with_capacity(files.iter().map(|file| list(&file.config).len()).sum());
    for (file_index, file) in files.iter().enumerate() {
        for (entry, named) in list(&file.config).iter().enumerate() {
            index.entry(named.name.clone()).or_insert((file_index, entry));
        }
    }
    index
}

/// A cluster, user or context with its position.
pub struct ConfigEntry<'a, T> {
    pub(super) file: &'a LoadedFile,
    named: &'a NamedEntry<T>,
}

impl<'a, T> ConfigEntry<'a, T> {
    pub(super) fn new(file: &'a LoadedFile, named: &'a NamedEntry<T>) -> Self {
        Self { file, named }
    }

    /// Returns the name. It is untrusted text: escape control characters before printing it.
    pub fn name(&self) -> &'a str {
        &self.named.name
    }

    /// Returns the position of the entry.
    pub fn origin(&self) -> ValueOrigin {
        self.file.origin(self.named.line)
    }

    /// Returns the entry as written: paths are not resolved, nothing is validated.
    pub fn item(&self) -> &'a T {
        &self.named.item
    }
}

/// Omits the other entries of the file.
impl<T: fmt::Debug> fmt::Debug for ConfigEntry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("named", &self.named).field("origin", &self.origin()).finish()
    }
}

/// A parsed file.
#[derive(Clone, Debug)]
pub(super) struct LoadedFile {
    path: Option<Arc<Path>>,
    dir: Option<PathBuf>,
    pub(super) config: KubeconfigFile,
}

impl LoadedFile {
    pub(super) fn new(path: &Path, current_dir: Option<&Path>, config: KubeconfigFile) -> Self {
        let dir = path.parent().map(|dir| paths::resolve_path(current_dir, dir));
        Self { path: Some(path.into()), dir, config }
    }

    pub(super) fn origin(&self, line: usize) -> ValueOrigin {
        match &self.path {
            Some(path) => ValueOrigin::File { path: path.clone(), line },
            None => ValueOrigin::Text { line },
        }
    }

    /// A value with its origin, if it is set.
    pub(super) fn sourced<'a, T: IsSet>(&self, located: &'a Located<T>) -> Option<Sourced<&'a T>> {
        located.value.is_set().then(|| Sourced::new(&located.value, self.origin(located.line)))
    }

    /// A clone of a value with its origin, if it is set.
    pub(super) fn owned<T: IsSet + Clone>(&self, located: &Located<T>) -> Option<Sourced<T>> {
        self.sourced(located).map(|value| value.map(T::clone))
    }

    /// A path, resolved against the directory of the file.
    pub(super) fn path(&self, located: &Located<String>) -> Option<Sourced<PathBuf>> {
        self.sourced(located).map(|text| text.map(|text| paths::resolve_path(self.dir.as_deref(), Path::new(text))))
    }

    /// A command; a path is resolved against the directory of the file. `None`: the result is not UTF-8.
    pub(super) fn command(&self, command: &str) -> Option<String> {
        if self.path.is_none() || !paths::is_path(command) {
            return Some(command.to_owned());
        }
        paths::resolve_path(self.dir.as_deref(), Path::new(command)).into_os_string().into_string().ok()
    }
}

/// Whether a value counts as set: as in kubectl, an empty one does not.
pub(super) trait IsSet {
    fn is_set(&self) -> bool;
}

impl IsSet for String {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }
}

impl IsSet for Secret {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }
}

impl IsSet for SecretBytes {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }
}

impl IsSet for bool {
    fn is_set(&self) -> bool {
        *self
    }
}

impl<T> IsSet for Vec<T> {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }
}

impl<K, V> IsSet for BTreeMap<K, V> {
    fn is_set(&self) -> bool {
        !self.is_empty()
    }
}

impl IsSet for PathBuf {
    fn is_set(&self) -> bool {
        !self.as_os_str().is_empty()
    }
}
