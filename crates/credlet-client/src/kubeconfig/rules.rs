use std::collections::HashSet;
use std::path::{Path, PathBuf};

use credlet_api::kubeconfig::Config;
use credlet_core::Env;

use super::error::{FileError, FileErrorKind, KubeconfigError};
use super::merged::{Kubeconfig, Loaded};
use super::read::{self, FileProblem};

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// 20,000 contexts with their certificates fit.
const MAX_FILE_SIZE: u64 = 48_000_000;

/// Which files to read.
///
/// ```
/// use credlet_client::kubeconfig::LoadingRules;
/// use credlet_core::FixedEnv;
///
/// let env = FixedEnv::new([("KUBECONFIG", "/a:/b:/a"), ("HOME", "/home/ada")]);
/// assert!(LoadingRules::from_env(&env).files().eq(["/a", "/b"]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadingRules {
    explicit: Option<PathBuf>,
    precedence: Vec<PathBuf>,
    max_file_size: u64,
    service_account: PathBuf,
}

impl LoadingRules {
    /// The files of `$KUBECONFIG`, each of them once, or else `~/.kube/config`. None of them needs to exist.
    pub fn from_env(env: &dyn Env) -> Self {
        let list = match env.var("KUBECONFIG").filter(|list| !list.is_empty()) {
            Some(list) => std::env::split_paths(&list).collect(),
            None => env.home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect(),
        };
        Self::list(list)
    }

    /// These files, in order of precedence. None of them needs to exist.
    pub fn list(files: Vec<PathBuf>) -> Self {
        let mut seen = HashSet::new();
        let precedence = files.into_iter().filter(|file| !file.as_os_str().is_empty() && seen.insert(file.clone()));
        Self {
            explicit: None,
            precedence: precedence.collect(),
            max_file_size: MAX_FILE_SIZE,
            service_account: PathBuf::from(SERVICE_ACCOUNT),
        }
    }

    /// `--kubeconfig`: this file and no other, and it must exist. Empty: as if it had not been given.
    #[must_use]
    pub fn explicit(self, file: impl Into<PathBuf>) -> Self {
        Self { explicit: Some(file.into()).filter(|file| !file.as_os_str().is_empty()), ..self }
    }

    /// Refuses larger files. 48 MB by default, which is room for some 20,000 contexts with certificates.
    #[must_use]
    pub fn max_file_size(self, bytes: u64) -> Self {
        Self { max_file_size: bytes, ..self }
    }

    /// Where to look for the service account of a pod instead of `/var/run/secrets/kubernetes.io/serviceaccount`.
    #[must_use]
    pub fn service_account_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { service_account: dir.into(), ..self }
    }

    /// The files, in order of precedence.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let list = if self.explicit.is_some() { &[][..] } else { &self.precedence };
        self.explicit.iter().chain(list).map(PathBuf::as_path)
    }

    /// Reads them.
    ///
    /// # Errors
    /// All files that cannot be read, at once: their owner must act. A file of the list that does not exist is none.
    pub fn load(&self, env: &dyn Env) -> Result<Kubeconfig, KubeconfigError> {
        let current_dir = env.current_dir();
        let (mut loaded, mut missing, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for path in self.files() {
            // Opened as it is named: only the system knows what `..` behind a link is.
            let opened = current_dir.as_ref().map_or(path.to_owned(), |dir| dir.join(path));
            match self.load_file(&opened) {
                Ok(config) => loaded.push(Loaded::file(path, current_dir.as_deref(), config)),
                Err(FileErrorKind::Unread(FileProblem::Missing)) if self.explicit.is_none() => {
                    missing.push(path.to_owned());
                }
                Err(kind) => errors.push(FileError { path: path.to_owned(), kind }),
            }
        }
        if errors.is_empty() {
            Ok(Kubeconfig::merge(loaded, missing, Some(self.service_account.clone())))
        } else {
            Err(KubeconfigError::Unreadable { files: errors })
        }
    }

    fn load_file(&self, path: &Path) -> Result<Config, FileErrorKind> {
        let bytes = read::file(path, self.max_file_size).map_err(FileErrorKind::Unread)?;
        Config::decode(&bytes).map_err(FileErrorKind::Undecodable)
    }
}
