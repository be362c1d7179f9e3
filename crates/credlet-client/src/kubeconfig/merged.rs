use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use credlet_api::Secret;
use credlet_api::kubeconfig::{AuthInfo, Cluster, Config, Context, Data, Located, Named};
use credlet_core::Env;

use super::error::{FileError, FileErrorKind, KubeconfigError};
use super::origin::{Origin, Sourced};
use super::paths;

/// All the files as one: of each cluster, user and context the first that was found, as a whole, and the first
/// `current-context` that is not empty.
///
/// The files stay as they were read, so nothing is lost that a check wants to see.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    pub(super) files: Vec<Loaded>,
    pub(super) service_account: Option<PathBuf>,
    missing: Vec<PathBuf>,
    clusters: Index,
    users: Index,
    contexts: Index,
}

/// The file and the entry that a name stands for.
type Index = HashMap<String, (usize, usize)>;

impl Kubeconfig {
    /// A kubeconfig that is no file. An `exec.command` with a separator in it stays as it is, all other relative paths
    /// start from the current directory.
    ///
    /// # Errors
    /// When it is not a kubeconfig.
    pub fn from_bytes(bytes: &[u8], env: &dyn Env) -> Result<Self, KubeconfigError> {
        let config = Config::decode(bytes).map_err(|error| KubeconfigError::Unreadable {
            files: vec![FileError { path: "kubeconfig".into(), kind: FileErrorKind::Undecodable(error) }],
        })?;
        let loaded = Loaded { path: None, dir: env.current_dir(), config };
        // Whoever hands over a text means that text and not the pod.
        Ok(Self::merge(vec![loaded], Vec::new(), None))
    }

    pub(super) fn merge(files: Vec<Loaded>, missing: Vec<PathBuf>, service_account: Option<PathBuf>) -> Self {
        Self {
            clusters: index(&files, |config| &config.clusters),
            users: index(&files, |config| &config.users),
            contexts: index(&files, |config| &config.contexts),
            files,
            missing,
            service_account,
        }
    }

    /// The name of the context to use if nobody asks for another.
    pub fn current_context(&self) -> Option<Sourced<&str>> {
        self.files.iter().find_map(|file| file.sourced(&file.config.current_context)).map(|name| name.map(|s| &**s))
    }

    /// The context of this name.
    pub fn context(&self, name: &str) -> Option<Entry<'_, Context>> {
        self.find(&self.contexts, name, |config| &config.contexts)
    }

    /// The cluster of this name.
    pub fn cluster(&self, name: &str) -> Option<Entry<'_, Cluster>> {
        self.find(&self.clusters, name, |config| &config.clusters)
    }

    /// The user of this name.
    pub fn user(&self, name: &str) -> Option<Entry<'_, AuthInfo>> {
        self.find(&self.users, name, |config| &config.users)
    }

    /// All contexts that can be asked for, as they stand in the files.
    pub fn contexts(&self) -> impl Iterator<Item = Entry<'_, Context>> {
        self.entries(&self.contexts, |config| &config.contexts)
    }

    /// All clusters that can be asked for, as they stand in the files.
    pub fn clusters(&self) -> impl Iterator<Item = Entry<'_, Cluster>> {
        self.entries(&self.clusters, |config| &config.clusters)
    }

    /// All users that can be asked for, as they stand in the files.
    pub fn users(&self) -> impl Iterator<Item = Entry<'_, AuthInfo>> {
        self.entries(&self.users, |config| &config.users)
    }

    /// The files that were looked for and do not exist. If none was found, that is worth a word.
    pub fn missing_files(&self) -> &[PathBuf] {
        &self.missing
    }

    fn find<'a, T>(&'a self, index: &Index, name: &str, list: fn(&Config) -> &Vec<Named<T>>) -> Option<Entry<'a, T>> {
        let (file, entry) = *index.get(name)?;
        let file = self.files.get(file)?;
        list(&file.config).get(entry).map(|named| Entry { file, named })
    }

    fn entries<'a, T: 'a>(
        &'a self,
        index: &'a Index,
        list: fn(&Config) -> &Vec<Named<T>>,
    ) -> impl Iterator<Item = Entry<'a, T>> {
        let places = self.files.iter().enumerate().flat_map(move |(file_index, file)| {
            list(&file.config)
                .iter()
                .enumerate()
                .map(move |(entry, named)| ((file_index, entry), Entry { file, named }))
        });
        places.filter(move |(place, entry)| index.get(entry.name()) == Some(place)).map(|(_, entry)| entry)
    }
}

fn index<T>(files: &[Loaded], list: fn(&Config) -> &Vec<Named<T>>) -> Index {
    let mut index = Index::with_capacity(files.iter().map(|file| list(&file.config).len()).sum());
    for (file_index, file) in files.iter().enumerate() {
        for (entry, named) in list(&file.config).iter().enumerate() {
            index.entry(named.name.clone()).or_insert((file_index, entry));
        }
    }
    index
}

/// A cluster, user or context, and where it stands.
pub struct Entry<'a, T> {
    pub(super) file: &'a Loaded,
    named: &'a Named<T>,
}

impl<'a, T> Entry<'a, T> {
    pub(super) fn new(file: &'a Loaded, named: &'a Named<T>) -> Self {
        Self { file, named }
    }

    /// Its name. Foreign text: make it [visible](credlet_api::visible) first.
    pub fn name(&self) -> &'a str {
        &self.named.name
    }

    /// Where it begins.
    pub fn origin(&self) -> Origin {
        self.file.origin(self.named.line)
    }

    /// As it is written: paths are not resolved, nothing is checked.
    pub fn item(&self) -> &'a T {
        &self.named.item
    }
}

/// Without the rest of the file.
impl<T: fmt::Debug> fmt::Debug for Entry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("named", &self.named).field("origin", &self.origin()).finish()
    }
}

/// One file that was read.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    path: Option<Arc<Path>>,
    dir: Option<PathBuf>,
    pub(super) config: Config,
}

impl Loaded {
    pub(super) fn file(path: &Path, current_dir: Option<&Path>, config: Config) -> Self {
        let dir = path.parent().map(|dir| paths::seen_from(current_dir, dir));
        Self { path: Some(path.into()), dir, config }
    }

    pub(super) fn origin(&self, line: usize) -> Origin {
        match &self.path {
            Some(path) => Origin::File { path: path.clone(), line },
            None => Origin::Text { line },
        }
    }

    /// A value, if it is there at all.
    pub(super) fn sourced<'a, T: Given>(&self, located: &'a Located<T>) -> Option<Sourced<&'a T>> {
        located.value.is_given().then(|| Sourced::new(&located.value, self.origin(located.line)))
    }

    /// The same, as the caller's own.
    pub(super) fn owned<T: Given + Clone>(&self, located: &Located<T>) -> Option<Sourced<T>> {
        self.sourced(located).map(|value| value.map(T::clone))
    }

    /// A path, as seen from the directory of the file.
    pub(super) fn path(&self, located: &Located<String>) -> Option<Sourced<PathBuf>> {
        self.sourced(located).map(|text| text.map(|text| paths::seen_from(self.dir.as_deref(), Path::new(text))))
    }

    /// A command, as seen from the directory of the file if it is a path. `None`: it cannot be written down.
    pub(super) fn command(&self, command: &str) -> Option<String> {
        if self.path.is_none() || !paths::is_path(command) {
            return Some(command.to_owned());
        }
        paths::seen_from(self.dir.as_deref(), Path::new(command)).into_os_string().into_string().ok()
    }
}

/// Whether a value is there: with kubectl an empty one is not.
pub(super) trait Given {
    fn is_given(&self) -> bool;
}

impl Given for String {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl Given for Secret {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl Given for Data {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl Given for bool {
    fn is_given(&self) -> bool {
        *self
    }
}

impl<T> Given for Vec<T> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl<K, V> Given for BTreeMap<K, V> {
    fn is_given(&self) -> bool {
        !self.is_empty()
    }
}

impl Given for PathBuf {
    fn is_given(&self) -> bool {
        !self.as_os_str().is_empty()
    }
}
