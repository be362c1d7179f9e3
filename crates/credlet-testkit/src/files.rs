//! Special files.

use std::path::Path;

/// Creates a named pipe with mode 0600.
pub fn make_fifo(path: impl AsRef<Path>) {
    nix::unistd::mkfifo(path.as_ref(), nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("a named pipe");
}
