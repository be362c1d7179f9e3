//! Text encodings of bytes.

use zeroize::Zeroizing;

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

/// Decodes percent-encoding once. Returns `None` if a `%` is not followed by two hexadecimal digits, as Go does. The result may hold a
/// password.
///
/// ```
/// assert_eq!(credlet_api::percent_decode("a%2Fb+").unwrap().as_slice(), b"a/b+");
/// assert_eq!(credlet_api::percent_decode("100%"), None);
/// ```
pub fn percent_decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let is_escape = |rest: &[u8]| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit);
    if !text.as_bytes().split(|byte| *byte == b'%').skip(1).all(is_escape) {
        return None;
    }
    // The capacity suffices, so no copy remains in freed memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    bytes.extend(percent_encoding::percent_decode_str(text));
    Some(bytes)
}
