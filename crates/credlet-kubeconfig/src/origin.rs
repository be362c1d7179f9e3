use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueOrigin {
    /// A kubeconfig file.
    File {
        /// Path of the file.
        path: Arc<Path>,
        /// Line number, from 1.
        line: usize,
    },
    /// A kubeconfig that was passed as text.
    Text {
        /// Line number, from 1.
        line: usize,
    },
    /// [`ConfigOverrides`](crate::ConfigOverrides) of the caller, usually flags of its command line.
    Override,
    /// Service account of the pod that the process runs in.
    InCluster,
    /// Set neither in a file nor by the caller.
    Default,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}, line {line}", display_path(path)),
            Self::Text { line } => write!(f, "kubeconfig, line {line}"),
            Self::Override => f.write_str("from the command line or the calling program"),
            Self::InCluster => f.write_str("service account of this pod"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Formats a path for a message.
pub(super) fn display_path(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// Formats a name for a message: one line, control characters escaped.
pub(super) fn one_line(name: &str) -> String {
    credlet_api::escape_line(name)
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value, also accessible by `Deref`.
    pub value: T,
    /// Origin of the value.
    pub origin: ValueOrigin,
}

impl<T> Sourced<T> {
    /// Combines a value with its origin.
    pub fn new(value: T, origin: ValueOrigin) -> Self {
        Self { value, origin }
    }

    /// Converts the value and keeps the origin.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced { value: f(self.value), origin: self.origin }
    }
}

impl<T> Deref for Sourced<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
