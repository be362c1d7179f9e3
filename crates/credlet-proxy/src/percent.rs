//! Percent-encoding.

/// Decodes percent-encoding once. `None` if a `%` is not followed by two hexadecimal digits.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        out.push(match byte {
            b'%' => u8::try_from(digit()? << 4 | digit()?).ok()?,
            byte => byte,
        });
    }
    Some(out)
}
