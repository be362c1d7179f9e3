use std::io::Read as _;
use std::path::PathBuf;

use credlet_api::Secret;
use credlet_platform::fs::{FileAttributes, ReadError, open_regular};
use zeroize::Zeroizing;

use super::{Pkcs11Error, Pkcs11UriError};

/// Source of a PIN that needs no prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinSource {
    /// The first line of a file that only its owner can read.
    File(PathBuf),
}

/// Maximum size of the file in bytes. PKCS#11 allows PINs of 255 bytes.
const MAX_FILE_SIZE: u64 = 256;

impl PinSource {
    /// Parses an absolute path or a `file:` URL.
    pub(super) fn parse(text: &str) -> Result<Self, Pkcs11UriError> {
        if text.starts_with('|') {
            return Err(Pkcs11UriError::PinProgram);
        }
        let path = ["file://localhost", "file://", "file:"].iter().find_map(|prefix| text.strip_prefix(prefix));
        let path = path.unwrap_or(text);
        let path = PathBuf::from(path);
        if path.is_absolute() {
            Ok(Self::File(path))
        } else {
            Err(Pkcs11UriError::Relative { name: "pin-source".to_owned() })
        }
    }

    /// Reads the PIN.
    ///
    /// # Errors
    /// If the file cannot be read, is readable by other users, or has no PIN.
    pub fn read(&self) -> Result<Secret, Pkcs11Error> {
        let Self::File(path) = self;
        let invalid = |reason: String| Pkcs11Error::PinFile { path: path.clone(), reason };
        let mut file = open_regular(path).map_err(|error| match error {
            ReadError::Directory | ReadError::NotRegular => invalid("not a regular file".to_owned()),
            error => invalid(format!("cannot read: {}", error.kind())),
        })?;
        let about = FileAttributes::of_file(&file);
        let about = about.map_err(|error| invalid(format!("cannot read: {}", error.kind())))?;
        if about.is_open_to_others() {
            return Err(invalid("readable by other users: run `chmod 600`".to_owned()));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        let read = (&mut file).take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes);
        read.map_err(|error| invalid(format!("cannot read: {}", error.kind())))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| invalid("not UTF-8".to_owned()))?;
        let pin = text.lines().next().unwrap_or_default();
        if pin.is_empty() || bytes.len() as u64 > MAX_FILE_SIZE {
            return Err(invalid("no PIN in the first line".to_owned()));
        }
        Ok(Secret::new(pin))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use credlet_testkit::logs::LeakCheck;

    use super::*;

    #[test]
    fn reads_pin_from_private_file() {
        let watch = LeakCheck::new();
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
            (&b"hunter2-of-the-token"[..], 0o640, "readable by other users"),
            (b"hunter2-of-the-token", 0o604, "readable by other users"),
            (b"", 0o600, "no PIN in the first line"),
            (b"\nhunter2-of-the-token", 0o600, "no PIN in the first line"),
            (&[b'7'; 300], 0o600, "no PIN in the first line"),
            (b"hunter2-of-the-token\xff", 0o600, "not UTF-8"),
        ] {
            let error = read(text, mode).unwrap_err();
            assert!(error.contains(wanted) && !error.contains("hunter2-of-the-token"), "{error}");
        }
        assert!(PinSource::File(dir.path().into()).read().unwrap_err().to_string().contains("regular file"));
        let pipe = dir.path().join("pipe");
        credlet_testkit::make_fifo(&pipe);
        assert!(PinSource::File(pipe).read().unwrap_err().to_string().contains("regular file"));
        assert!(PinSource::File("/nowhere/pin".into()).read().unwrap_err().to_string().contains("cannot read"));
    }
}
