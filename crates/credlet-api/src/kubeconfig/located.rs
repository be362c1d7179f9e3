use std::fmt;
use std::ops::Deref;

use zeroize::Zeroizing;

/// A value and the line on which it stands, counted from 1. An absent value is an empty one on line 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its line.
    pub line: usize,
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// An entry of a list in which every entry has a name of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named<T> {
    /// Its name. Foreign text: make it [visible](crate::visible) first.
    pub name: String,
    /// The line on which the entry begins.
    pub line: usize,
    /// What the name stands for.
    pub item: T,
}

/// Bytes that were written in base64, perhaps those of a private key. Wiped on drop, never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Data(Zeroizing<Vec<u8>>);

impl Data {
    /// Takes the bytes over.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// The bytes themselves. Every call marks a place where they leave our protection.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}
