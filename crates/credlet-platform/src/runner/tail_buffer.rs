use zeroize::{Zeroize as _, Zeroizing};

/// Retains the last bytes of a stream.
#[derive(Debug)]
pub(super) struct TailBuffer {
    bytes: Zeroizing<Vec<u8>>,
    capacity: usize,
}

impl TailBuffer {
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: Zeroizing::default(), capacity }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        let chunk = &chunk[chunk.len().saturating_sub(self.capacity)..];
        let surplus = (self.bytes.len() + chunk.len()).saturating_sub(self.capacity);
        let retained = self.bytes.len() - surplus;
        self.bytes.copy_within(surplus.., 0);
        self.bytes[retained..].zeroize();
        self.bytes.truncate(retained);
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
    fn retains_only_the_last_bytes() {
        let mut tail = TailBuffer::new(4);
        for chunk in ["a", "bc", "", "d", "ef", "0123456789", "x"] {
            tail.push(chunk.as_bytes());
        }
        assert_eq!(&*tail.into_bytes(), b"789x");
    }
}
