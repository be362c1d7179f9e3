use std::fmt;
use std::path::PathBuf;

use credlet_api::kubeconfig::DecodeError;

use super::mistake::Mistake;
use super::origin::{Origin, one_line, shown};
use super::read::FileProblem;

/// Why a kubeconfig leads nowhere. Whoever wrote the files, or chose among them, must act.
///
/// The texts name files, lines, fields, contexts, clusters and users; never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// Files that cannot be read.
    #[error("{}", Joined(files))]
    Unreadable {
        /// All of them. Never empty.
        files: Vec<FileError>,
    },
    /// There is no configuration, and we are not in a pod.
    #[error("{}", Nothing(missing, *has_contexts))]
    Nothing {
        /// The files that were looked for and do not exist.
        missing: Vec<PathBuf>,
        /// Whether there are contexts, and only none is chosen.
        has_contexts: bool,
    },
    /// The context that was asked for is in none of the files.
    #[error("there is no context \"{}\" ({origin})", one_line(name))]
    NoSuchContext {
        /// Its name.
        name: String,
        /// Who asked for it.
        origin: Origin,
    },
    /// The cluster that was asked for is in none of the files.
    #[error("there is no cluster \"{}\" ({origin})", one_line(name))]
    NoSuchCluster {
        /// Its name.
        name: String,
        /// Who asked for it.
        origin: Origin,
    },
    /// The user that was asked for is in none of the files.
    #[error("there is no user \"{}\" ({origin})", one_line(name))]
    NoSuchUser {
        /// Its name.
        name: String,
        /// Who asked for it.
        origin: Origin,
    },
    /// What is used has mistakes in it.
    #[error("{}", Joined(mistakes))]
    Invalid {
        /// All of them. Never empty.
        mistakes: Vec<Mistake>,
    },
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {kind}", shown(path))]
pub struct FileError {
    /// Which one.
    pub path: PathBuf,
    /// Why.
    pub kind: FileErrorKind,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The system does not give us its content.
    #[error(transparent)]
    Unread(FileProblem),
    /// Its content is not a kubeconfig.
    #[error(transparent)]
    Undecodable(DecodeError),
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

struct Nothing<'a>(&'a [PathBuf], bool);

impl fmt::Display for Nothing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(missing, has_contexts) = self;
        if *has_contexts {
            return f.write_str("no context is chosen: set `current-context` or name one");
        }
        f.write_str("there is no kubeconfig, and this is not a pod with a service account")?;
        if !missing.is_empty() {
            write!(f, " (not found: {})", Joined(&missing.iter().map(|path| shown(path)).collect::<Vec<_>>()))?;
        }
        Ok(())
    }
}
