//! Text encodings of bytes.

/// Encodes `bytes` as lower-case hexadecimal digits.
///
/// ```
/// assert_eq!(credlet_api::hex([0x00, 0xA9]), "00a9");
/// ```
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}
