//! How the files of an entry are stored: in plain text or, with `--encrypt`, encrypted as a whole.

use zeroize::Zeroizing;

use crate::store::{SealError, Sealer};

/// First line of an encrypted file.
const MAGIC: &[u8] = b"credlet-sealed 1\n";

/// The form of all files of an entry. A file in the other form is rejected: a call with `--encrypt` never writes a plain file, so
/// a plain file in that place is forged.
#[derive(Debug)]
pub(super) enum FileProtection {
    Plain,
    Sealed(Sealer),
}

impl FileProtection {
    /// Returns the content for the file `name`. An encrypted file cannot be opened under another name.
    pub(super) fn encode(&self, name: &str, plain: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, SealError> {
        match self {
            Self::Plain => Ok(plain),
            Self::Sealed(sealer) => Ok(Zeroizing::new([MAGIC, &sealer.seal(name.as_bytes(), &plain)?].concat())),
        }
    }

    /// Returns the plain content of the file `name`. `None`: the file has the other form, was modified, or was written under
    /// another name or with another key.
    pub(super) fn decode(&self, name: &str, bytes: Zeroizing<Vec<u8>>) -> Option<Zeroizing<Vec<u8>>> {
        match self {
            Self::Plain => (!is_sealed(&bytes)).then_some(bytes),
            Self::Sealed(sealer) => sealer.open(name.as_bytes(), bytes.strip_prefix(MAGIC)?).ok(),
        }
    }
}

pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}
