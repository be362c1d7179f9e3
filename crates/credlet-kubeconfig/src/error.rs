use std::fmt;
use std::path::PathBuf;

use credlet_api::kubeconfig::KubeconfigDecodeError;

use super::origin::{ValueOrigin, display_path, one_line};
use super::validation::ValidationError;
use credlet_platform::fs::ReadError;

/// A kubeconfig that cannot be loaded or resolved.
///
/// The texts contain names of files, fields, contexts, clusters and users, and line numbers, never values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// Files cannot be read or parsed.
    #[error("{}", Joined(files))]
    Unreadable {
        /// All such files, not empty.
        files: Vec<FileError>,
    },
    /// No configuration was found, and the process does not run in a pod.
    #[error("{}", NotConfiguredText(missing, *has_contexts))]
    NotConfigured {
        /// Files that do not exist.
        missing: Vec<PathBuf>,
        /// Whether contexts exist and none is selected.
        has_contexts: bool,
    },
    /// The selected context does not exist.
    #[error("context \"{}\" not found ({origin})", one_line(name))]
    NoSuchContext {
        /// Name that was requested.
        name: String,
        /// Origin of the request.
        origin: ValueOrigin,
    },
    /// The selected cluster does not exist.
    #[error("cluster \"{}\" not found ({origin})", one_line(name))]
    NoSuchCluster {
        /// Name that was requested.
        name: String,
        /// Origin of the request.
        origin: ValueOrigin,
    },
    /// The selected user does not exist.
    #[error("user \"{}\" not found ({origin})", one_line(name))]
    NoSuchUser {
        /// Name that was requested.
        name: String,
        /// Origin of the request.
        origin: ValueOrigin,
    },
    /// Entries in use are invalid.
    #[error("{}", Joined(errors))]
    Invalid {
        /// All problems, not empty.
        errors: Vec<ValidationError>,
    },
}

/// A file that cannot be read or parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {kind}", display_path(path))]
pub struct FileError {
    /// Path of the file.
    pub path: PathBuf,
    /// Whether reading or parsing failed.
    pub kind: FileErrorKind,
}

/// Cause of a [`FileError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The file cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The content is not a valid kubeconfig.
    #[error("is not a valid kubeconfig: {0}")]
    Decode(KubeconfigDecodeError),
}

struct Joined<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Joined<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

struct NotConfiguredText<'a>(&'a [PathBuf], bool);

impl fmt::Display for NotConfiguredText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(missing, has_contexts) = self;
        if *has_contexts {
            return f.write_str("no context is selected: set `current-context` or specify a context");
        }
        f.write_str("no kubeconfig found, and not running in a pod with a service account")?;
        if !missing.is_empty() {
            write!(f, " (not found: {})", Joined(&missing.iter().map(|path| display_path(path)).collect::<Vec<_>>()))?;
        }
        Ok(())
    }
}
