//! Kubeconfig files, for the verbs that edit them.

use std::path::Path;

use zeroize::Zeroizing;

use crate::error::CliError;

/// Larger files are no kubeconfigs.
const LARGEST: u64 = 64 << 20;

/// `None`: there is no such file, which is fine for one of several.
pub(crate) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, CliError> {
    let fail = |error: std::io::Error| CliError::usage(format!("{}: {error}", path.display()));
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Ok(about) if !about.is_file() || about.len() > LARGEST => {
            Err(CliError::usage(format!("{} is not an ordinary file", path.display())))
        }
        Ok(_) => std::fs::read_to_string(path).map(|text| Some(Zeroizing::new(text))).map_err(fail),
        Err(error) => Err(fail(error)),
    }
}
