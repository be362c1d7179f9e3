use std::collections::HashSet;
use std::path::{Path, PathBuf};

use credlet_api::kubeconfig::KubeconfigFile;
use credlet_platform::Env;

use super::error::{FileError, FileErrorKind, KubeconfigError};
use super::merged::{Kubeconfig, LoadedFile};
use credlet_platform::fs::{ReadError, read_bounded_or_pipe};

/// Directory of the service account in a pod.
const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Default size limit: room for about 20,000 contexts with certificates.
const MAX_FILE_SIZE: u64 = 48_000_000;

/// Selects the kubeconfig files to read, like client-go's `ClientConfigLoadingRules`.
///
/// ```
/// use credlet_kubeconfig::LoadingRules;
/// use credlet_platform::FixedEnv;
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
    /// Uses the files in `$KUBECONFIG`, without duplicates, or `~/.kube/config`. Missing files are ignored.
    pub fn from_env(env: &dyn Env) -> Self {
        let list = match env.var("KUBECONFIG").filter(|list| !list.is_empty()) {
            Some(list) => std::env::split_paths(&list).collect(),
            None => env.home_dir().map(|home| home.join(".kube").join("config")).into_iter().collect(),
        };
        Self::list(list)
    }

    /// Uses these files, in order of precedence. Missing files are ignored.
    pub fn list(files: Vec<PathBuf>) -> Self {
        let mut seen = HashSet::new();
        let precedence = files.into_iter().filter(|file| !file.as_os_str().is_empty() && seen.insert(file.clone()));
        Self {
            explicit: None,
            precedence: precedence.collect(),
            max_file_size: MAX_FILE_SIZE,
            service_account: PathBuf::from(SERVICE_ACCOUNT_DIR),
        }
    }

    /// Uses only this file (`--kubeconfig`), which must exist. An empty path is ignored.
    #[must_use]
    pub fn explicit(self, file: impl Into<PathBuf>) -> Self {
        Self { explicit: Some(file.into()).filter(|file| !file.as_os_str().is_empty()), ..self }
    }

    /// Sets the maximum file size. Default: 48 MB, room for about 20,000 contexts with certificates.
    #[must_use]
    pub fn max_file_size(self, bytes: u64) -> Self {
        Self { max_file_size: bytes, ..self }
    }

    /// Sets the directory of the service account. Default: `/var/run/secrets/kubernetes.io/serviceaccount`.
    #[must_use]
    pub fn service_account_dir(self, dir: impl Into<PathBuf>) -> Self {
        Self { service_account: dir.into(), ..self }
    }

    /// Returns the files in order of precedence.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let list = if self.explicit.is_some() { &[][..] } else { &self.precedence };
        self.explicit.iter().chain(list).map(PathBuf::as_path)
    }

    /// Reads and merges the files.
    ///
    /// # Errors
    /// All files that cannot be read or parsed.
    pub fn load(&self, env: &dyn Env) -> Result<Kubeconfig, KubeconfigError> {
        let current_dir = env.current_dir();
        let (mut loaded, mut missing, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for path in self.files() {
            // Joined without normalization: `..` after a symbolic link is resolved by the system.
            let opened = current_dir.as_ref().map_or(path.to_owned(), |dir| dir.join(path));
            match self.load_file(&opened) {
                Ok(config) => loaded.push(LoadedFile::new(path, current_dir.as_deref(), config)),
                Err(FileErrorKind::Read(ReadError::NotFound)) if self.explicit.is_none() => {
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

    fn load_file(&self, path: &Path) -> Result<KubeconfigFile, FileErrorKind> {
        let bytes = read_bounded_or_pipe(path, self.max_file_size).map_err(FileErrorKind::Read)?;
        KubeconfigFile::decode(&bytes).map_err(FileErrorKind::Decode)
    }
}
