//! Lists and reads the files of a configuration.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use credlet_platform::fs::{ReadError, read_bounded};
use zeroize::Zeroizing;

use super::problem::{ConfigFileError, ProviderConfigFault, ProviderConfigProblem};

/// Largest configuration file that is read, in bytes.
const MAX_FILE_SIZE: u64 = 48 << 20;

/// Returns the file itself, or the files of the directory sorted by the bytes of their names.
pub(super) fn list(path: &Path, problems: &mut Vec<ProviderConfigProblem>) -> Vec<PathBuf> {
    let mut add =
        |problem| problems.push(ProviderConfigProblem::for_file(path.to_owned(), ProviderConfigFault::File(problem)));
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {}
        // `read` reports a file that is not readable.
        Ok(_) => return vec![path.to_owned()],
        Err(error) => {
            add(problem(&error));
            return Vec::new();
        }
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            add(problem(&error));
            return Vec::new();
        }
    };
    // Like the kubelet, does not follow links to directories.
    let is_config = |entry: &fs::DirEntry| {
        let known = entry.path().extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml");
        known && !entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let mut files: Vec<_> = entries.filter_map(Result::ok).filter(is_config).map(|entry| entry.path()).collect();
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    if files.is_empty() {
        add(ConfigFileError::NoFiles);
    }
    files
}

/// Reads a regular file.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, ConfigFileError> {
    read_bounded(path, MAX_FILE_SIZE).map_err(|error| match error {
        ReadError::Directory => ConfigFileError::Directory,
        ReadError::NotRegular => ConfigFileError::NotAFile,
        ReadError::TooLarge { .. } => ConfigFileError::TooLarge,
        other => ConfigFileError::Unreachable(other.kind()),
    })
}

fn problem(error: &io::Error) -> ConfigFileError {
    ConfigFileError::Unreachable(error.kind())
}
