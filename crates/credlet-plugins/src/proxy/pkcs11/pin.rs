use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use credlet_api::Secret;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use super::{Pkcs11Error, UriError};

/// Where a PIN is to be found without asking anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinSource {
    /// The first line of a file of one's own.
    File(PathBuf),
}

/// PKCS#11 itself allows 255 bytes.
const LONGEST: u64 = 256;

impl PinSource {
    /// A full path, or the same as a `file:` URL.
    pub(super) fn parse(text: &str) -> Result<Self, UriError> {
        if text.starts_with('|') {
            return Err(UriError::PinProgram);
        }
        let path = ["file://localhost", "file://", "file:"].iter().find_map(|prefix| text.strip_prefix(prefix));
        let path = path.unwrap_or(text);
        let path = PathBuf::from(path);
        if path.is_absolute() {
            Ok(Self::File(path))
        } else {
            Err(UriError::Relative { name: "pin-source".to_owned() })
        }
    }

    /// The PIN. A file that others may read holds no secret, and is refused.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&self) -> Result<Secret, Pkcs11Error> {
        let Self::File(path) = self;
        let wrong = |reason: String| Pkcs11Error::PinFile { path: path.clone(), reason };
        // Nothing that is no file keeps us waiting.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let mut file = file.map_err(|error| wrong(format!("cannot be read ({})", error.kind())))?;
        let about = file.metadata().map_err(|error| wrong(format!("cannot be read ({})", error.kind())))?;
        if !about.is_file() {
            return Err(wrong("is not an ordinary file".to_owned()));
        }
        if about.mode() & 0o077 != 0 {
            return Err(wrong("can be read by others: `chmod 600` it".to_owned()));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        let read = (&mut file).take(LONGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| wrong(format!("cannot be read ({})", error.kind())))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("is no text".to_owned()))?;
        let pin = text.lines().next().unwrap_or_default();
        if pin.is_empty() || bytes.len() as u64 > LONGEST {
            return Err(wrong("holds no PIN".to_owned()));
        }
        Ok(Secret::new(pin))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use credlet_testkit::logs::Watch;

    use super::*;

    #[test]
    fn a_pin_is_the_first_line_of_a_file_that_nobody_else_reads() {
        let watch = Watch::new();
        watch.adopt("pin", "hunter2-of-the-token");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pin");
        let read = |text: &[u8], mode: u32| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            PinSource::File(path.clone()).read().map_err(|error| error.to_string())
        };
        let pin = read(b"hunter2-of-the-token\n", 0o600).unwrap();
        assert_eq!(pin.expose(), "hunter2-of-the-token");
        assert_eq!(read(b"hunter2-of-the-token", 0o400).unwrap(), pin);
        for (text, mode, wanted) in [
            (&b"hunter2-of-the-token"[..], 0o640, "can be read by others"),
            (b"hunter2-of-the-token", 0o604, "can be read by others"),
            (b"", 0o600, "holds no PIN"),
            (b"\nhunter2-of-the-token", 0o600, "holds no PIN"),
            (&[b'7'; 300], 0o600, "holds no PIN"),
            (b"hunter2-of-the-token\xff", 0o600, "is no text"),
        ] {
            let error = read(text, mode).unwrap_err();
            assert!(error.contains(wanted) && !error.contains("hunter2-of-the-token"), "{error}");
        }
        assert!(PinSource::File(dir.path().into()).read().unwrap_err().to_string().contains("ordinary file"));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(PinSource::File(pipe).read().unwrap_err().to_string().contains("ordinary file"));
        assert!(PinSource::File("/nowhere/pin".into()).read().unwrap_err().to_string().contains("cannot be read"));
    }
}
