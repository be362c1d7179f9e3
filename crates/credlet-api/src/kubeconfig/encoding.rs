//! Character encoding of a kubeconfig. Windows shells write UTF-16, which is accepted with a byte order mark, as by
//! kubectl.

use std::borrow::Cow;

use super::KubeconfigDecodeError;
use crate::wire::error::DocumentError;

pub(super) fn decode_text(bytes: &[u8]) -> Result<Cow<'_, str>, KubeconfigDecodeError> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        // A kubeconfig starts with an ASCII character; in UTF-16 one of its two bytes is zero.
        [0, second, ..] if *second != 0 => Err(KubeconfigDecodeError::MissingByteOrderMark),
        [first, 0, ..] if *first != 0 => Err(KubeconfigDecodeError::MissingByteOrderMark),
        _ => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let text = std::str::from_utf8(bytes);
            text.map(Cow::Borrowed).map_err(|error| {
                KubeconfigDecodeError::InvalidDocument(DocumentError::NotUtf8 { byte: error.valid_up_to() })
            })
        }
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, KubeconfigDecodeError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(KubeconfigDecodeError::TruncatedUtf16);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut line = 1;
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        let character = character.map_err(|_| KubeconfigDecodeError::InvalidUtf16 { line })?;
        line += usize::from(character == '\n');
        text.push(character);
    }
    Ok(text)
}
