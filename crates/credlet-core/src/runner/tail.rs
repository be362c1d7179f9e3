use zeroize::{Zeroize as _, Zeroizing};

/// The last bytes of a stream, however long it is.
#[derive(Debug)]
pub(super) struct Tail {
    bytes: Zeroizing<Vec<u8>>,
    keep: usize,
}

impl Tail {
    /// Keeps the last `keep` bytes.
    pub(super) fn new(keep: usize) -> Self {
        Self { bytes: Zeroizing::default(), keep }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(self.keep)..];
        let surplus = (self.bytes.len() + chunk.len()).saturating_sub(self.keep);
        let kept = self.bytes.len() - surplus;
        self.bytes.copy_within(surplus.., 0);
        self.bytes[kept..].zeroize();
        self.bytes.truncate(kept);
        self.bytes.extend_from_slice(chunk);
    }

    pub(super) fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_bytes_are_kept() {
        let mut tail = Tail::new(4);
        for chunk in ["a", "bc", "", "d", "ef", "0123456789", "x"] {
            tail.push(chunk.as_bytes());
        }
        assert_eq!(&*tail.into_bytes(), b"789x");
    }
}
