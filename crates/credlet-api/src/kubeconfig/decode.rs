use std::collections::HashMap;

use super::objects::KubeconfigDocument;
use super::{KubeconfigFile, NamedEntry, encoding};
use crate::wire::document;
use crate::wire::error::DocumentError;

/// Error of decoding a kubeconfig file. It quotes nothing of the file but names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigDecodeError {
    /// The file is not a valid document, or a value has the wrong type.
    #[error(transparent)]
    InvalidDocument(DocumentError),
    /// UTF-16 text has an odd number of bytes.
    #[error("invalid UTF-16: odd number of bytes (save the file as UTF-8)")]
    TruncatedUtf16,
    /// UTF-16 text has an unpaired surrogate.
    #[error("invalid UTF-16: unpaired surrogate on line {line} (save the file as UTF-8)")]
    InvalidUtf16 {
        /// Line of the surrogate.
        line: usize,
    },
    /// UTF-16 text has no byte order mark. kubectl does not recognise it either.
    #[error("unsupported encoding: UTF-16 without a byte order mark (save the file as UTF-8)")]
    MissingByteOrderMark,
    /// The file is another object.
    #[error("unexpected `kind`: must be Config (line {line})")]
    UnexpectedKind {
        /// Line of `kind`.
        line: usize,
    },
    /// The version is unknown.
    #[error("unsupported `apiVersion`: must be v1 (line {line})")]
    UnsupportedVersion {
        /// Line of `apiVersion`.
        line: usize,
    },
    /// Two entries of a list have the same name.
    #[error("duplicate name \"{}\" in {list} (lines {first} and {line})", crate::escape_line(name))]
    DuplicateName {
        /// Name of the list.
        list: &'static str,
        /// Name of the entries.
        name: String,
        /// First line of the first entry.
        first: usize,
        /// First line of the second entry.
        line: usize,
    },
}

impl KubeconfigDecodeError {
    /// Returns the line of the error, if it is known.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::InvalidDocument(error) => error.position().map(|at| at.line),
            Self::TruncatedUtf16 | Self::MissingByteOrderMark => None,
            Self::InvalidUtf16 { line }
            | Self::UnexpectedKind { line }
            | Self::UnsupportedVersion { line }
            | Self::DuplicateName { line, .. } => Some(*line),
        }
    }
}

pub(super) fn config(bytes: &[u8]) -> Result<KubeconfigFile, KubeconfigDecodeError> {
    let text = encoding::decode_text(bytes)?;
    let file: KubeconfigDocument = match document::read_located(&text) {
        Err(DocumentError::Empty) => return Ok(KubeconfigFile::default()),
        other => other.map_err(KubeconfigDecodeError::InvalidDocument)?,
    };
    // The API group is empty, so `/v1` equals `v1` and `/` equals an empty version.
    if !matches!(&*file.api_version.value, "" | "/" | "v1" | "/v1") {
        return Err(KubeconfigDecodeError::UnsupportedVersion { line: file.api_version.line });
    }
    if !matches!(&*file.kind.value, "" | "Config") {
        return Err(KubeconfigDecodeError::UnexpectedKind { line: file.kind.line });
    }
    let config = file.config;
    check_unique("clusters", &config.clusters)?;
    check_unique("users", &config.users)?;
    check_unique("contexts", &config.contexts)?;
    let inner = config.clusters.iter().map(|cluster| &cluster.item.extensions);
    let inner = inner.chain(config.users.iter().map(|user| &user.item.extensions));
    let inner = inner.chain(config.contexts.iter().map(|context| &context.item.extensions));
    for extensions in inner.chain([&config.preferences.extensions, &config.extensions]) {
        // Empty extensions may share a name, as in kubectl.
        check_unique_if("extensions", extensions, |extension| extension.is_some())?;
    }
    Ok(config)
}

fn check_unique<T>(list: &'static str, entries: &[NamedEntry<T>]) -> Result<(), KubeconfigDecodeError> {
    check_unique_if(list, entries, |_| true)
}

fn check_unique_if<T>(
    list: &'static str,
    entries: &[NamedEntry<T>],
    counts: fn(&T) -> bool,
) -> Result<(), KubeconfigDecodeError> {
    if entries.len() < 2 {
        return Ok(());
    }
    let mut lines = HashMap::with_capacity(entries.len());
    for NamedEntry { name, line, item } in entries {
        if let Some(&first) = lines.get(name) {
            return Err(KubeconfigDecodeError::DuplicateName { list, name: name.clone(), first, line: *line });
        }
        if counts(item) {
            lines.insert(name, *line);
        }
    }
    Ok(())
}
