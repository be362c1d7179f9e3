//! Encodings of a secret that count as a leak.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// One secret in every encoding that is searched for.
pub(super) struct Forms {
    label: String,
    /// Searched for in the text, raw and percent-decoded.
    texts: Vec<String>,
    /// Searched for in the text without white space: the bytes as `Debug` prints them.
    lists: Vec<String>,
}

impl Forms {
    /// `parts` are the whole secret and the fragments that count as a leak.
    pub(super) fn new(label: &str, parts: &[&str]) -> Self {
        let mut texts: Vec<String> =
            parts.iter().flat_map(|part| disguises(part)).collect::<BTreeSet<_>>().into_iter().collect();
        // Longest first, so that masking leaves no remainder of a longer one.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let list = |part: &&str| part.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(",");
        Self { label: label.to_owned(), texts, lists: parts.iter().map(list).collect() }
    }

    /// Returns the place where it was found, with the secret masked.
    pub(super) fn found_in(&self, origin: &str, text: &str) -> Option<String> {
        let label = &self.label;
        for text in [text, &without_percents(text)] {
            if self.texts.iter().any(|form| text.contains(form)) {
                let masked = self.texts.iter().fold(text.to_owned(), |text, form| text.replace(form, "[SECRET]"));
                return Some(format!("{label:?} in {origin}: {}", shortened(&masked)));
            }
        }
        let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let listed = self.lists.iter().any(|list| dense.contains(list));
        // A list over several lines is not masked; the context is omitted instead.
        listed.then(|| format!("{label:?} in {origin}, as a list of bytes"))
    }
}

impl std::fmt::Debug for Forms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Forms({:?})", self.label)
    }
}

fn disguises(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let escaped: String = secret.escape_debug().collect();
    let json = serde_json::Value::from(secret).to_string();
    let mut forms = vec![secret.to_owned(), escaped, json[1..json.len() - 1].to_owned(), hex.to_uppercase(), hex];
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        forms.extend((0..3).map(|offset| base64_inside(&engine, secret, offset)));
    }
    forms
}

/// The base64 characters of a secret that begins `offset` bytes after a multiple of three within a longer text such as
/// `user:secret`. The first and last characters depend on adjacent bytes and are omitted, with all padding.
fn base64_inside(engine: &impl Engine, secret: &str, offset: usize) -> String {
    let before = [0; 2];
    let encoded = engine.encode([&before[..offset], secret.as_bytes()].concat());
    let start = [0, 2, 3][offset];
    let end = (offset + secret.len()) * 8 / 6;
    encoded[start..end].to_owned()
}

fn without_percents(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten().and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn shortened(text: &str) -> String {
    const LIMIT: usize = 1000;
    match text.char_indices().nth(LIMIT) {
        None => text.to_owned(),
        Some(_) => {
            // The text around the match.
            let find = text.find("[SECRET]").map_or(0, |at| text[..at].chars().count());
            let part: String = text.chars().skip(find.saturating_sub(LIMIT / 2)).take(LIMIT).collect();
            format!("…{part}…")
        }
    }
}
