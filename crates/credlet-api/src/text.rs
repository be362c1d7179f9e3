use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Foreign text, safe to show on a terminal: every character that is not a letter, mark, number, punctuation, symbol,
/// separator or ordinary white space is replaced by its name, so that an escape sequence is seen and not obeyed.
///
/// ```
/// assert_eq!(credlet_api::visible("\u{1b}[1mbold\n"), "U+001B[1mbold\n");
/// ```
pub fn visible(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\t'..='\r') || c.general_category_group() != GeneralCategoryGroup::Other {
            safe.push(c);
        } else {
            safe.push_str(&format!("U+{:04X}", u32::from(c)));
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_visible_and_line_breaks_stay() {
        assert_eq!(
            visible("\u{1b}[1mcontrol chars\u{1b}[0m\nand a newline"),
            "U+001B[1mcontrol charsU+001B[0m\nand a newline"
        );
        assert_eq!(visible("clear: \u{1b}[2J"), "clear: U+001B[2J");
        assert_eq!(visible("\t\n\u{b}\u{c}\r"), "\t\n\u{b}\u{c}\r");
    }

    #[test]
    fn other_invisible_characters_become_visible_too() {
        // Bidirectional override (format), private use, unassigned, DEL, C1 control.
        assert_eq!(visible("\u{202e}\u{e000}\u{378}\u{7f}\u{9b}"), "U+202EU+E000U+0378U+007FU+009B");
        assert_eq!(visible("日本 é\u{301} ✓\u{2028}\u{a0}"), "日本 é\u{301} ✓\u{2028}\u{a0}");
    }
}
