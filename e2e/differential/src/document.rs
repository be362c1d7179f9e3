//! Writes documents in the styles of people and generators.
//!
//! A member `name#2` is written as a second `name`. An object with the single member `$plain` is written to YAML as unquoted text.

use serde_json::Value;

/// `json`, `pretty`, `yaml` or `flow`; anything else is YAML too.
pub(crate) fn write(value: &Value, style: &str) -> String {
    let mut out = String::new();
    match style {
        "json" => flow(value, &mut out, false),
        "pretty" => out = pretty(value),
        "flow" => flow(value, &mut out, true),
        "document" => {
            out.push_str("# written by hand\n---\n");
            block(value, 0, &mut out);
        }
        _ => block(value, 0, &mut out),
    }
    out
}

fn pretty(value: &Value) -> String {
    let mut compact = String::new();
    flow(value, &mut compact, false);
    // After the outermost brace, so that it is not inside a string.
    format!("\n  {compact}\n\n")
}

/// JSON, or YAML in flow style.
fn flow(value: &Value, out: &mut String, yaml: bool) {
    match value {
        Value::Object(members) => {
            if let Some(text) = plain(value) {
                out.push_str(&if yaml { text.to_owned() } else { Value::from(text).to_string() });
                return;
            }
            out.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&if yaml { quoted(bare(name)) } else { Value::from(bare(name)).to_string() });
                out.push_str(if yaml { ": " } else { ":" });
                flow(value, out, yaml);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                flow(item, out, yaml);
            }
            out.push(']');
        }
        Value::String(text) if yaml => out.push_str(&quoted(text)),
        other => out.push_str(&other.to_string()),
    }
}

fn block(value: &Value, indent: usize, out: &mut String) {
    let pad = "  ".repeat(indent);
    match value {
        Value::Object(members) if !members.is_empty() && plain(value).is_none() => {
            for (name, value) in members {
                out.push_str(&format!("{pad}{}:", scalar(bare(name))));
                below(value, indent + 1, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("{pad}-"));
                below(item, indent + 1, out);
            }
        }
        other => {
            out.push_str(&pad);
            line(other, out);
        }
    }
}

fn below(value: &Value, indent: usize, out: &mut String) {
    let nested = match value {
        Value::Object(members) => !members.is_empty() && plain(value).is_none(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        out.push('\n');
        block(value, indent, out);
    } else {
        out.push(' ');
        line(value, out);
    }
}

fn line(value: &Value, out: &mut String) {
    match (plain(value), value) {
        (Some(text), _) => out.push_str(text),
        (None, Value::String(text)) => out.push_str(&scalar(text)),
        _ => flow(value, out, true),
    }
    out.push('\n');
}

/// Unquoted where that is unambiguous.
fn scalar(text: &str) -> String {
    let clear = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&&*text.to_ascii_lowercase());
    if clear { text.to_owned() } else { quoted(text) }
}

/// A JSON string in which characters that differ between YAML 1.1 and 1.2 (mostly line breaks) are escaped.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in Value::from(text).to_string().chars() {
        match c {
            '\u{7f}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c => out.push(c),
        }
    }
    out
}

fn plain(value: &Value) -> Option<&str> {
    match value {
        Value::Object(members) if members.len() == 1 => members.get("$plain")?.as_str(),
        _ => None,
    }
}

fn bare(name: &str) -> &str {
    name.strip_suffix("#2").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_can_be_written_in_several_ways() {
        let value = json!({"a": [{"b": "c d", "b#2": {"$plain": "0x1"}}, []], "e": {}});
        assert_eq!(write(&value, "json"), r#"{"a":[{"b":"c d","b":"0x1"},[]],"e":{}}"#);
        assert_eq!(write(&value, "yaml"), "a:\n  -\n    b: \"c d\"\n    b: 0x1\n  - []\ne: {}\n");
        assert_eq!(write(&value, "flow"), r#"{"a": [{"b": "c d","b": 0x1},[]],"e": {}}"#);
    }
}
