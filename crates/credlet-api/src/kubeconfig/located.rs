use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

/// A value and its line in the file, counted from 1. A missing value is empty and has line 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Located<T> {
    /// The value, empty if the file does not set it.
    pub value: T,
    /// Line number from 1, or 0 if the file does not set the value.
    pub line: usize,
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// An entry of a list of named entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedEntry<T> {
    /// Name of the entry. Untrusted text: escape it with [`escape_line`](crate::escape_line).
    pub name: String,
    /// First line of the entry.
    pub line: usize,
    /// The named object.
    pub item: T,
}

/// Decoded base64 data, possibly a private key. The memory is wiped on drop, and `Debug` shows the length only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// Wraps the bytes.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes. Every use of a secret is a call of this method.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}
