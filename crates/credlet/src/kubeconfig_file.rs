//! Reads kubeconfig files for subcommands that edit them.

use std::path::Path;

use credlet_platform::fs::{ReadError, read_bounded};
use zeroize::Zeroizing;

use crate::error::CliError;

/// Size limit in bytes.
const LARGEST: u64 = 64 << 20;

/// Reads a regular file. Returns `None` if it does not exist: `$KUBECONFIG` may list missing files.
pub(crate) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, CliError> {
    let fail =
        |reason: &dyn std::fmt::Display| CliError::usage(format!("invalid kubeconfig {}: {reason}", path.display()));
    let bytes = match read_bounded(path, LARGEST) {
        Err(ReadError::NotFound) => return Ok(None),
        read => read.map_err(|error| fail(&error))?,
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| fail(&"not UTF-8"))?;
    Ok(Some(Zeroizing::new(text.to_owned())))
}
