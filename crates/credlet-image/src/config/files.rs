//! Which files a configuration is in.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::mistake::{FileProblem, Mistake, Reason};

/// More than any honest configuration has.
const LARGEST: u64 = 48 << 20;

/// The file itself, or the files of the directory, sorted by the bytes of their names.
pub(super) fn list(path: &Path, mistakes: &mut Vec<Mistake>) -> Vec<PathBuf> {
    let mut note = |problem| mistakes.push(Mistake::of_file(path.to_owned(), Reason::File(problem)));
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {}
        // Whether it can be read is found out by reading it.
        Ok(_) => return vec![path.to_owned()],
        Err(error) => {
            note(problem(&error));
            return Vec::new();
        }
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            note(problem(&error));
            return Vec::new();
        }
    };
    // The kubelet looks at the entry itself and does not follow links here.
    let is_config = |entry: &fs::DirEntry| {
        let known = entry.path().extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml");
        known && !entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let mut files: Vec<_> = entries.filter_map(Result::ok).filter(is_config).map(|entry| entry.path()).collect();
    files.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    if files.is_empty() {
        note(FileProblem::NoFiles);
    }
    files
}

/// A pipe without a writer would hold us for ever, so only plain files are opened.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileProblem> {
    let found = fs::metadata(path).map_err(|error| problem(&error))?;
    if found.is_dir() {
        return Err(FileProblem::Directory);
    }
    if !found.is_file() {
        return Err(FileProblem::NotAFile);
    }
    let mut text = Zeroizing::new(Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default() + 1));
    let file = fs::File::open(path).map_err(|error| problem(&error))?;
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(|error| problem(&error))?;
    if text.len() as u64 > LARGEST { Err(FileProblem::TooLarge) } else { Ok(text) }
}

fn problem(error: &io::Error) -> FileProblem {
    FileProblem::Unreachable(error.kind())
}
