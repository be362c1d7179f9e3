//! From a file's bytes to text. Windows shells write UTF-16, and kubectl reads that if it begins with a byte order
//! mark, so this does too.

use std::borrow::Cow;

use super::DecodeError;
use crate::wire::fault::Fault;

pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        // A kubeconfig begins with an ASCII character; in UTF-16 one of its two bytes is zero.
        [0, second, ..] if *second != 0 => Err(DecodeError::NoByteOrderMark),
        [first, 0, ..] if *first != 0 => Err(DecodeError::NoByteOrderMark),
        _ => {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            let text = std::str::from_utf8(bytes);
            text.map(Cow::Borrowed)
                .map_err(|error| DecodeError::Unreadable(Fault::NotText { byte: error.valid_up_to() }))
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, DecodeError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(DecodeError::OddUtf16);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut line = 1;
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        let character = character.map_err(|_| DecodeError::BrokenUtf16 { line })?;
        line += usize::from(character == '\n');
        text.push(character);
    }
    Ok(text)
}
