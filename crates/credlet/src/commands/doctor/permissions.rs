//! Checks whether another user can replace a program.

use std::path::{Path, PathBuf};

use credlet_platform::fs::Exposure;

/// Returns the first path that lets another user replace the program, with the reason.
pub(super) fn find_exposed(program: &Path) -> Option<(PathBuf, Exposure)> {
    let real = program.canonicalize().ok()?;
    let parents = [program.parent(), real.parent()].into_iter().flatten().map(Path::to_owned);
    let places: Vec<PathBuf> = [real.clone()].into_iter().chain(parents).collect();
    places.into_iter().find_map(|place| {
        let metadata = place.metadata().ok()?;
        Exposure::of(&metadata).map(|reason| (place, reason))
    })
}
