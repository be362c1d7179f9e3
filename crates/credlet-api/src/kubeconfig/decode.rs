use std::collections::HashMap;

use super::objects::File;
use super::{Config, Named, encoding};
use crate::wire::document;
use crate::wire::fault::Fault;

/// Why a kubeconfig cannot be read. The texts go on where "the file …" begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not a readable document, or a value of the wrong type in it.
    #[error(transparent)]
    Unreadable(Fault),
    /// UTF-16, cut off.
    #[error("is UTF-16 text of an odd length, so its end is missing: save it as UTF-8")]
    OddUtf16,
    /// UTF-16 with half a character.
    #[error("is UTF-16 text with a broken character (line {line}): save it as UTF-8")]
    BrokenUtf16 {
        /// On which line.
        line: usize,
    },
    /// UTF-16 that kubectl does not recognise either.
    #[error("looks like UTF-16 text without a byte order mark: save it as UTF-8")]
    NoByteOrderMark,
    /// Another kind of object.
    #[error("has a `kind` other than Config (line {line})")]
    Kind {
        /// Where it says so.
        line: usize,
    },
    /// Another version.
    #[error("has an `apiVersion` other than v1 (line {line})")]
    Version {
        /// Where it says so.
        line: usize,
    },
    /// A name stands for two things.
    #[error("has two entries named \"{}\" in one list of {list} (lines {first} and {line})", one_line(name))]
    DuplicateName {
        /// Which list.
        list: &'static str,
        /// The name.
        name: String,
        /// Where the first entry begins.
        first: usize,
        /// Where the second one begins.
        line: usize,
    },
}

impl DecodeError {
    /// The line to look at, if it is known.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable(fault) => fault.position().map(|at| at.line),
            Self::OddUtf16 | Self::NoByteOrderMark => None,
            Self::BrokenUtf16 { line }
            | Self::Kind { line }
            | Self::Version { line }
            | Self::DuplicateName { line, .. } => Some(*line),
        }
    }
}

pub(super) fn config(bytes: &[u8]) -> Result<Config, DecodeError> {
    let text = encoding::text(bytes)?;
    let file: File = match document::read_located(&text) {
        Err(Fault::Empty) => return Ok(Config::default()),
        other => other.map_err(DecodeError::Unreadable)?,
    };
    // The group is empty, so `/v1` is the same and `/` is nothing.
    if !matches!(&*file.api_version.value, "" | "/" | "v1" | "/v1") {
        return Err(DecodeError::Version { line: file.api_version.line });
    }
    if !matches!(&*file.kind.value, "" | "Config") {
        return Err(DecodeError::Kind { line: file.kind.line });
    }
    let config = file.config;
    unique("clusters", &config.clusters)?;
    unique("users", &config.users)?;
    unique("contexts", &config.contexts)?;
    let inner = config.clusters.iter().map(|cluster| &cluster.item.extensions);
    let inner = inner.chain(config.users.iter().map(|user| &user.item.extensions));
    let inner = inner.chain(config.contexts.iter().map(|context| &context.item.extensions));
    for extensions in inner.chain([&config.preferences.extensions, &config.extensions]) {
        // One with nothing in it does not stand in the way of a later one.
        unique_if("extensions", extensions, |extension| extension.is_some())?;
    }
    Ok(config)
}

fn unique<T>(list: &'static str, entries: &[Named<T>]) -> Result<(), DecodeError> {
    unique_if(list, entries, |_| true)
}

fn unique_if<T>(list: &'static str, entries: &[Named<T>], takes_its_name: fn(&T) -> bool) -> Result<(), DecodeError> {
    if entries.len() < 2 {
        return Ok(());
    }
    let mut lines = HashMap::with_capacity(entries.len());
    for Named { name, line, item } in entries {
        if let Some(&first) = lines.get(name) {
            return Err(DecodeError::DuplicateName { list, name: name.clone(), first, line: *line });
        }
        if takes_its_name(item) {
            lines.insert(name, *line);
        }
    }
    Ok(())
}

/// A name in a message: whatever is in it, it is one harmless line.
fn one_line(name: &str) -> String {
    crate::visible(name).replace(|c: char| c.is_control(), " ")
}
