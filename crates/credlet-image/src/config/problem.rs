use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use credlet_api::image::{ProviderConfigErrorKind, ProviderRef};
use credlet_exec::LookupError;

use super::{ConfigOrigin, ProviderConfig};
use crate::location::LocationError;

/// Invalid configuration, with all problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one problem, ordered by file and line.
    pub problems: Vec<ProviderConfigProblem>,
}

impl std::error::Error for ConfigError {}

/// Prints the problem if there is only one, else their number.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problems[..] {
            [one] => one.fmt(f),
            all => write!(f, "invalid configuration of image credential providers: {} problems", all.len()),
        }
    }
}

/// A problem of a configuration and its location: `/etc/x.yaml:8: providers[2] (ecr): …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderConfigProblem {
    /// File with the problem, or the directory of the binaries.
    pub file: PathBuf,
    /// Line, or 0 if the problem concerns no particular line.
    pub line: usize,
    /// Provider, if the problem concerns one.
    pub provider: Option<ProviderRef>,
    /// Kind of the problem, with its details.
    pub reason: ProviderConfigFault,
}

impl ProviderConfigProblem {
    pub(crate) fn for_file(file: PathBuf, reason: ProviderConfigFault) -> Self {
        Self { file, line: 0, provider: None, reason }
    }

    pub(crate) fn for_provider(provider: &ProviderConfig, reason: ProviderConfigFault) -> Self {
        let ConfigOrigin { file, line, index } = provider.origin.clone();
        Self { file, line, provider: Some(ProviderRef { index, name: provider.name.clone() }), reason }
    }
}

impl fmt::Display for ProviderConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ConfigLocation { file: &self.file, line: self.line })?;
        if let Some(provider) = &self.provider {
            write!(f, "{provider}: ")?;
        }
        self.reason.fmt(f)
    }
}

/// Prints `file:line: `, or the parts that are known.
pub(crate) struct ConfigLocation<'a> {
    pub(crate) file: &'a Path,
    pub(crate) line: usize,
}

impl fmt::Display for ConfigLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = credlet_api::escape_control_chars(&self.file.display().to_string());
        match (self.file.as_os_str().is_empty(), self.line) {
            (true, _) => Ok(()),
            (false, 0) => write!(f, "{file}: "),
            (false, line) => write!(f, "{file}:{line}: "),
        }
    }
}

/// Kind of a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderConfigFault {
    /// The file cannot be read.
    #[error("{0}")]
    File(ConfigFileError),
    /// The binary directory cannot be used.
    #[error("invalid directory of provider binaries: it {0}")]
    BinDir(ConfigFileError),
    /// The binary of a provider is missing or not executable.
    #[error("{0}")]
    Binary(LookupError),
    /// The document has an unexpected structure.
    #[error("{0}")]
    InvalidDocument(ProviderConfigErrorKind),
    /// `providers` is empty.
    #[error("missing provider: `providers` must have at least one")]
    NoProviders,
    /// `name` is empty.
    #[error("missing `name`")]
    NoName,
    /// `name` is not a valid file name.
    #[error("`name` must not {0}")]
    Name(&'static str),
    /// Another provider has the same name.
    #[error("duplicate `name`: also used at {}:{line}", other.display())]
    DuplicateName {
        /// File of the other provider.
        other: PathBuf,
        /// Line of the other provider.
        line: usize,
    },
    /// `apiVersion` is empty.
    #[error("missing `apiVersion`")]
    NoVersion,
    /// `apiVersion` is unknown.
    #[error("unknown `apiVersion`: must be credentialprovider.kubelet.k8s.io/v1, …/v1beta1 or …/v1alpha1")]
    UnknownVersion,
    /// `matchImages` is empty.
    #[error("missing `matchImages`: must have at least one pattern")]
    NoMatchImages,
    /// A pattern is not a registry location.
    #[error("invalid pattern `{pattern}` in `matchImages`: {reason}")]
    MatchImage {
        /// The pattern, with control characters escaped.
        pattern: String,
        /// Why it is not a registry location.
        reason: LocationError,
    },
    /// `defaultCacheDuration` is missing.
    #[error("missing `defaultCacheDuration`")]
    NoDuration,
    /// `defaultCacheDuration` is negative.
    #[error("invalid `defaultCacheDuration`: negative")]
    NegativeDuration,
    /// A required field of `tokenAttributes` is missing.
    #[error("missing `tokenAttributes.{0}`")]
    NoTokenAttribute(&'static str),
    /// Requests before v1 cannot carry a token.
    #[error("unsupported `tokenAttributes`: `apiVersion` must be credentialprovider.kubelet.k8s.io/v1")]
    TokenNeedsV1,
    /// Annotations are required, but the service account is not.
    #[error("`requiredServiceAccountAnnotationKeys` must be empty unless `requireServiceAccount` is true")]
    AnnotationsWithoutAccount,
    /// An annotation key is invalid.
    #[error("invalid annotation key `{key}` in `{list}`: {reason}")]
    AnnotationKey {
        /// Name of the list.
        list: &'static str,
        /// The key, with control characters escaped.
        key: String,
        /// Rule that the key violates.
        reason: &'static str,
    },
    /// An annotation key occurs twice.
    #[error("duplicate annotation key `{key}` in `{list}`")]
    DuplicateAnnotationKey {
        /// Name of the list.
        list: &'static str,
        /// The key, with control characters escaped.
        key: String,
    },
    /// Annotation keys are in both lists.
    #[error("annotations cannot be both required and optional: {}", .0.join(", "))]
    BothRequiredAndOptional(Vec<String>),
    /// `cacheType` is unknown.
    #[error("unknown `cacheType`: must be ServiceAccount or Token")]
    UnknownCacheType,
}

/// Unusable configuration file or binary directory. The texts continue "the file …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The operating system returned an error.
    #[error("cannot be read: {0}")]
    Unreachable(io::ErrorKind),
    /// The path is not a directory.
    #[error("is not a directory")]
    NotADirectory,
    /// The path is empty.
    #[error("is missing: the path is empty")]
    NotNamed,
    /// The path is a directory.
    #[error("is a directory")]
    Directory,
    /// The path is a pipe, socket or device.
    #[error("is not a regular file")]
    NotAFile,
    /// The file is larger than 48 MiB.
    #[error("is too large: more than 48 MiB")]
    TooLarge,
    /// The directory has no configuration file.
    #[error("is a directory without a .json, .yaml or .yml file")]
    NoFiles,
}
