//! Escaping of untrusted text for terminals.
//!
//! The rule: a character of untrusted text is shown only if it is a letter, mark, number, punctuation, symbol or space
//! separator (Unicode general categories `L*`, `M*`, `N*`, `P*`, `S*`, `Zs`). Everything else is replaced by its code
//! point (`U+001B`): control characters (`Cc`: ESC, CR, BS, DEL, C1 such as U+009B), format characters (`Cf`:
//! bidirectional controls, zero-width characters, tags), line and paragraph separators (`Zl`, `Zp`), private use and
//! unassigned code points (`Co`, `Cn`). So are characters of other categories that terminals draw as nothing (Hangul
//! fillers, most variation selectors). A newline and a tab are kept where the text may have several lines, and are a
//! space in text that is part of one line.

use std::fmt::Write as _;

use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Returns whether a terminal displays this character and does nothing else with it. Newline and tab are not
/// displayable.
pub fn is_displayable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let category = c.general_category();
    let ignorable = matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        // Variation selectors, but not the two that emoji need.
        | '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}');
    !ignorable
        && !matches!(category, GeneralCategory::LineSeparator | GeneralCategory::ParagraphSeparator)
        && c.general_category_group() != GeneralCategoryGroup::Other
}

/// Makes text of several lines safe to show on a terminal: keeps newline and tab, turns CR LF into a newline, and
/// replaces every other character that is not [displayable](is_displayable) by its code point.
///
/// ```
/// assert_eq!(credlet_api::escape_control_chars("\u{1b}[1mbold\r\n\rx"), "U+001B[1mbold\nU+000Dx");
/// ```
pub fn escape_control_chars(text: &str) -> String {
    escaped(text, |c| Some(c).filter(|c| matches!(c, '\n' | '\t')))
}

/// Makes text safe to show as part of one line on a terminal. Like [`escape_control_chars`], with a space for each
/// newline and tab, so that untrusted text cannot add lines.
///
/// ```
/// assert_eq!(credlet_api::escape_line("u\r\nerror: x\r"), "u error: xU+000D");
/// ```
pub fn escape_line(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t').then_some(' '))
}

/// Like [`escape_control_chars`], with each line after the first one indented, so that no line of the text can be
/// mistaken for a line that the program prints itself.
///
/// ```
/// assert_eq!(credlet_api::escape_indented("a\nerror: b"), "a\n  error: b");
/// assert_eq!(credlet_api::escape_indented("a\n  b"), "a\n  b");
/// ```
pub fn escape_indented(text: &str) -> String {
    let text = escape_control_chars(text);
    let mut lines = text.split('\n');
    let mut indented = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        indented.push_str(if line.is_empty() || line.starts_with("  ") { "\n" } else { "\n  " });
        indented.push_str(line);
    }
    indented
}

fn escaped(text: &str, keep: impl Fn(char) -> Option<char>) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match keep(c) {
            Some(kept) => safe.push(kept),
            None if is_displayable(c) => safe.push(c),
            None if c == '\r' && chars.peek() == Some(&'\n') => {}
            // Writing into a String cannot fail.
            None => drop(write!(safe, "U+{:04X}", u32::from(c))),
        }
    }
    safe
}

/// Replaces characters that are not [displayable](is_displayable) in a JSON document by `\u` escapes. The document
/// means the same afterwards. White space between tokens stays.
///
/// ```
/// assert_eq!(credlet_api::escape_json("{\"a\":\"\u{9b}\u{e0001}\"}"), r#"{"a":"\u009b\udb40\udc01"}"#);
/// ```
pub fn escape_json(json: &str) -> String {
    escaped_document(json, |c, safe| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(safe, "\\u{unit:04x}");
        }
    })
}

/// The same for a YAML document in which only double-quoted scalars contain such characters. YAML does not know
/// surrogate pairs, so it has `\U0001f600` where JSON has two escapes.
pub fn escape_yaml(yaml: &str) -> String {
    escaped_document(yaml, |c, safe| {
        let code = u32::from(c);
        let _ = if code > 0xffff { write!(safe, "\\U{code:08x}") } else { write!(safe, "\\u{code:04x}") };
    })
}

fn escaped_document(document: &str, escape: impl Fn(char, &mut String)) -> String {
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if is_displayable(c) || matches!(c, '\n' | '\t' | '\r') { safe.push(c) } else { escape(c, &mut safe) }
    }
    safe
}

/// Escapes a stream of untrusted bytes for a terminal as [`escape_control_chars`] does. A character may arrive in
/// several pieces; bytes that are not UTF-8 become U+FFFD.
#[derive(Debug, Default)]
pub struct TerminalFilter {
    /// The beginning of a character, or a carriage return that may belong to a line ending.
    rest: Vec<u8>,
    in_line: bool,
}

impl TerminalFilter {
    /// Returns the text to show for these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut complete = match self.rest.utf8_chunks().last() {
            Some(chunk) if is_incomplete(chunk.invalid()) => self.rest.len() - chunk.invalid().len(),
            _ => self.rest.len(),
        };
        if self.rest[..complete].ends_with(b"\r") {
            complete -= 1;
        }
        let bytes: Vec<u8> = self.rest.drain(..complete).collect();
        self.escape(&bytes)
    }

    /// Returns the text for an incomplete character at the end of the stream.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        self.escape(&rest)
    }

    /// Returns whether the text so far ends within a line.
    pub fn is_in_line(&self) -> bool {
        self.in_line
    }

    fn escape(&mut self, bytes: &[u8]) -> String {
        let text = escape_control_chars(&String::from_utf8_lossy(bytes));
        if let Some(last) = text.chars().last() {
            self.in_line = last != '\n';
        }
        text
    }
}

/// Whether the bytes are the beginning of a UTF-8 character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every class of character that must not reach a terminal, with one member or more.
    const HOSTILE: &str = "\0\u{7}\u{8}\u{b}\u{c}\u{e}\u{1a}\u{1b}\u{7f}\u{80}\u{85}\u{90}\u{9b}\u{9d}\u{9f}\u{ad}\u{61c}\
        \u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\
        \u{2066}\u{2067}\u{2068}\u{2069}\u{206f}\u{feff}\u{fff9}\u{e0001}\u{e0041}\u{e000}\u{f0000}\u{378}\u{ffff}\
        \u{34f}\u{115f}\u{3164}\u{ffa0}\u{fe00}\u{e0100}";

    #[test]
    fn escapes_control_and_format_characters() {
        for c in HOSTILE.chars().chain(['\r']) {
            assert!(!is_displayable(c));
            let expected = format!("aU+{:04X}b", u32::from(c));
            assert_eq!(escape_control_chars(&format!("a{c}b")), expected);
            assert_eq!(escape_line(&format!("a{c}b")), expected);
        }
        assert_eq!(escape_control_chars("OK\rerror"), "OKU+000Derror");
        assert_eq!(escape_control_chars("\u{1b}[2J\u{9b}2J"), "U+001B[2JU+009B2J");
    }

    #[test]
    fn keeps_text_of_any_language() {
        for text in ["日本 é\u{301} ✓ \u{a0}\u{3000}", "שלום", "سلام", "Ω≈ç√ – “x” €", "✔\u{fe0f}", "a\tb\nc\n"]
        {
            assert_eq!(escape_control_chars(text), text);
        }
    }

    #[test]
    fn untrusted_text_cannot_add_lines() {
        assert_eq!(escape_line("u\r\nerror: x"), "u error: x");
        assert_eq!(escape_line("u\n\terror: x"), "u  error: x");
        assert_eq!(escape_line("u\u{2028}error\u{85}x"), "uU+2028errorU+0085x");
        assert_eq!(escape_indented("a\nerror: x\n\n  y\nhint: z"), "a\n  error: x\n\n  y\n  hint: z");
    }

    #[test]
    fn escaping_preserves_json_and_yaml_values() {
        let value = serde_json::json!({ "k\u{202e}": HOSTILE, "plain": "日本 é ✓" });
        let json = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
        let yaml = escape_yaml(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), value);
        for document in [json, yaml] {
            assert!(document.chars().all(|c| c == '\n' || is_displayable(c)), "{document:?}");
            assert!(document.contains("日本 é ✓"));
        }
    }

    fn filtered(pieces: &[&[u8]]) -> String {
        let mut filter = TerminalFilter::default();
        let shown: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        shown + &filter.finish()
    }

    #[test]
    fn filter_joins_split_characters() {
        assert_eq!(filtered(&[b"gr\xc3", b"\xbcn\n"]), "gr\u{fc}n\n");
        assert_eq!(filtered(&[b"\xff\xc3\n", b"x\xc3"]), "\u{fffd}\u{fffd}\nx\u{fffd}");
        assert_eq!(filtered(&[b"a\xff\xe2\x80", b"\xaeb"]), "a\u{fffd}U+202Eb");
        assert_eq!(filtered(&[b"\xc2", b"\x9b2J"]), "U+009B2J");
        assert_eq!(filtered(&[b"a\r", b"\nb\r", b"c\r"]), "a\nbU+000DcU+000D");
        assert_eq!(filtered(&[]), "");
    }

    proptest! {
        #[test]
        fn filter_output_is_displayable(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..6)) {
            let mut filter = TerminalFilter::default();
            let mut text: String = pieces.iter().map(|piece| filter.push(piece)).collect();
            text += &filter.finish();
            prop_assert!(text.chars().all(|c| matches!(c, '\n' | '\t') || is_displayable(c)));
            let whole = String::from_utf8_lossy(&pieces.concat()).into_owned();
            prop_assert_eq!(&text, &escape_control_chars(&whole));
            prop_assert!(escape_line(&whole).chars().all(is_displayable));
        }
    }
}
