use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A kubeconfig file.
    File {
        /// Which one.
        path: Arc<Path>,
        /// On which line, counted from 1.
        line: usize,
    },
    /// A kubeconfig that was no file.
    Text {
        /// On which line, counted from 1.
        line: usize,
    },
    /// The program that asked, perhaps by a flag on its command line.
    Override,
    /// The pod we are in.
    InCluster,
    /// Nobody said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}, line {line}", shown(path)),
            Self::Text { line } => write!(f, "kubeconfig, line {line}"),
            Self::Override => f.write_str("given on the command line or by the program"),
            Self::InCluster => f.write_str("service account of this pod"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A path in a message.
pub(super) fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// A name in a message: whatever is in it, it is one harmless line.
pub(super) fn one_line(name: &str) -> String {
    credlet_api::visible(name).replace(|c: char| c.is_control(), " ")
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Sourced<T> {
    /// A value from there.
    pub fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }

    /// Another value from the same place.
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
