//! JSON, byte for byte as Go's `encoding/json` writes it.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::value::RawValue;

/// Serialises to compact JSON without a final newline. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go does by
/// default.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // The wire structs have string keys and infallible values, and writing to a `Vec` cannot fail.
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, GoFormatter));
    debug_assert!(written.is_ok(), "failed to serialise a wire type");
    String::from_utf8(bytes).unwrap_or_default()
}

/// Removes white space and applies Go's escapes. Key order, number form and string escapes are preserved: this is what
/// Go's encoder does to a `RawExtension`.
pub(crate) fn compact(text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    let raw: &RawValue = serde_json::from_str(text)?;
    let mut compacted = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for c in raw.get().chars() {
        match c {
            ' ' | '\t' | '\r' | '\n' if !in_string => continue,
            '"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        match go_escape(c) {
            Some(escape) => compacted.push_str(escape),
            None => compacted.push(c),
        }
    }
    RawValue::from_string(compacted)
}

fn go_escape(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("\\u003c"),
        '>' => Some("\\u003e"),
        '&' => Some("\\u0026"),
        '\u{2028}' => Some("\\u2028"),
        '\u{2029}' => Some("\\u2029"),
        _ => None,
    }
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut plain_from = 0;
        for (at, c) in fragment.char_indices() {
            if let Some(escape) = go_escape(c) {
                writer.write_all(&fragment.as_bytes()[plain_from..at])?;
                writer.write_all(escape.as_bytes())?;
                plain_from = at + c.len_utf8();
            }
        }
        writer.write_all(&fragment.as_bytes()[plain_from..])
    }

    /// Go decodes every YAML number to a `float64`, so `1.0` becomes `1` and `-0.0` becomes `-0`.
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        if value == 0.0 || (1e-6..1e21).contains(&value.abs()) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        writer.write_all(if value.abs() < 1.0 { text } else { text.replace('e', "e+") }.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_strings_as_go() {
        let text = "<a>&\"\\\u{2028}\u{2029}\u{8}\u{c}\n\r\t\u{1}\u{7f}é";
        assert_eq!(to_string(&text), "\"\\u003ca\\u003e\\u0026\\\"\\\\\\u2028\\u2029\\b\\f\\n\\r\\t\\u0001\u{7f}é\"");
    }

    #[test]
    fn formats_numbers_as_go() {
        let numbers = [1.0, -0.0, 0.1, 1e20, 1e21, -1.5e300, 1e-6, 9.9e-7, 9_007_199_254_740_993.0, 123_456_789.25];
        let wanted = "[1,-0,0.1,100000000000000000000,1e+21,-1.5e+300,0.000001,9.9e-7,9007199254740992,123456789.25]";
        assert_eq!(to_string(&numbers), wanted);
    }

    #[test]
    fn compact_removes_only_white_space() {
        let raw = compact(" { \"b\" : [ 1.0 , 1e5 ,\n 12345678901234567890123 ] , \"a\" : \"x \\\" <&> \\u0041\" } ")
            .unwrap();
        assert_eq!(raw.get(), r#"{"b":[1.0,1e5,12345678901234567890123],"a":"x \" \u003c\u0026\u003e \u0041"}"#);
        assert!(compact("{").is_err());
    }
}
