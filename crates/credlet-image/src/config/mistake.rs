use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use credlet_api::image::{ConfigMistake, ProviderRef};
use credlet_core::LookupError;

use super::{Origin, ProviderConfig};
use crate::location::LocationError;

/// A configuration that cannot be used, with everything that is wrong with it. Its author must act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one, in the order of files and lines as far as they have one.
    pub mistakes: Vec<Mistake>,
}

impl std::error::Error for ConfigError {}

/// One clause: the mistake itself if there is but one.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mistakes[..] {
            [one] => one.fmt(f),
            all => write!(f, "the configuration of the image credential providers has {} mistakes", all.len()),
        }
    }
}

/// Something wrong with a configuration, and where: `/etc/x.yaml:8: providers[2] (ecr): …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file.
    pub file: PathBuf,
    /// The line; 0 if it concerns no line in particular.
    pub line: usize,
    /// The provider.
    pub provider: Option<ProviderRef>,
    /// What is wrong.
    pub reason: Reason,
}

impl Mistake {
    pub(crate) fn of_file(file: PathBuf, reason: Reason) -> Self {
        Self { file, line: 0, provider: None, reason }
    }

    pub(crate) fn of_provider(provider: &ProviderConfig, reason: Reason) -> Self {
        let Origin { file, line, index } = provider.origin.clone();
        Self { file, line, provider: Some(ProviderRef { index, name: provider.name.clone() }), reason }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Place { file: &self.file, line: self.line })?;
        if let Some(provider) = &self.provider {
            write!(f, "{provider}: ")?;
        }
        self.reason.fmt(f)
    }
}

/// `file:line: `, or as much of it as is known.
pub(crate) struct Place<'a> {
    pub(crate) file: &'a Path,
    pub(crate) line: usize,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = credlet_api::visible(&self.file.display().to_string());
        match (self.file.as_os_str().is_empty(), self.line) {
            (true, _) => Ok(()),
            (false, 0) => write!(f, "{file}: "),
            (false, line) => write!(f, "{file}:{line}: "),
        }
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Its file.
    #[error("{0}")]
    File(FileProblem),
    /// The directory of the binaries.
    #[error("the directory of the provider binaries {0}")]
    BinDir(FileProblem),
    /// The binary of a provider.
    #[error("{0}")]
    Binary(LookupError),
    /// Its form.
    #[error("{0}")]
    Form(ConfigMistake),
    /// None at all.
    #[error("there is no provider in `providers`: at least one is needed")]
    NoProviders,
    /// No name.
    #[error("`name` is missing")]
    NoName,
    /// A name that is no file name.
    #[error("`name` must not {0}")]
    Name(&'static str),
    /// A name that somebody else has.
    #[error("another provider has the same name ({}:{line})", other.display())]
    DuplicateName {
        /// In which file the other one is.
        other: PathBuf,
        /// On which line.
        line: usize,
    },
    /// Not asked in any version.
    #[error("`apiVersion` is missing")]
    NoVersion,
    /// Asked in an unknown one.
    #[error("`apiVersion` is not credentialprovider.kubelet.k8s.io/v1, …/v1beta1 or …/v1alpha1")]
    UnknownVersion,
    /// Asked for no images.
    #[error("`matchImages` is missing: at least one pattern is needed")]
    NoMatchImages,
    /// A pattern that is none.
    #[error("the pattern `{pattern}` in `matchImages` is no image: {reason}")]
    MatchImage {
        /// As it is written.
        pattern: String,
        /// Why it is none.
        reason: LocationError,
    },
    /// Nothing says how long answers are remembered.
    #[error("`defaultCacheDuration` is missing")]
    NoDuration,
    /// Something below zero says so.
    #[error("`defaultCacheDuration` is negative")]
    NegativeDuration,
    /// A field of `tokenAttributes` that must be there.
    #[error("`tokenAttributes.{0}` is missing")]
    NoTokenAttribute(&'static str),
    /// Older requests have no place for a token.
    #[error("`tokenAttributes` needs `apiVersion: credentialprovider.kubelet.k8s.io/v1`")]
    TokenNeedsV1,
    /// Annotations of an account that need not be there.
    #[error("`requiredServiceAccountAnnotationKeys` needs `requireServiceAccount: true`")]
    RequiredOfNobody,
    /// A key that no annotation has.
    #[error("`{key}` in `{list}` is no annotation's name: {reason}")]
    AnnotationKey {
        /// Which list.
        list: &'static str,
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A key that stands twice.
    #[error("`{key}` stands twice in `{list}`")]
    DuplicateAnnotationKey {
        /// Which list.
        list: &'static str,
        /// The key.
        key: String,
    },
    /// Keys in both lists.
    #[error("annotations cannot be both required and optional: {}", .0.join(", "))]
    BothRequiredAndOptional(Vec<String>),
    /// Another word than the two.
    #[error("`cacheType` is not ServiceAccount or Token")]
    UnknownCacheType,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// The system says so.
    #[error("cannot be read: {0}")]
    Unreachable(io::ErrorKind),
    /// A file where a directory should be.
    #[error("is not a directory")]
    NotADirectory,
    /// No path was given.
    #[error("was not named")]
    NotNamed,
    /// A directory under the name of a file.
    #[error("is a directory")]
    Directory,
    /// A pipe, a socket or a device.
    #[error("is not a plain file")]
    NotAFile,
    /// More than 48 MiB.
    #[error("is larger than 48 MiB")]
    TooLarge,
    /// A directory without configurations.
    #[error("is a directory without a .json, .yaml or .yml file")]
    NoFiles,
}
