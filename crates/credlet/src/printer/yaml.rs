//! Writes JSON values as YAML in block style with sorted keys, as kubectl prints it.

use serde_json::Value;

pub(super) fn to_string(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => block(value, 0, &mut text),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut text),
        _ => {
            text.push_str(&scalar(value));
            text.push('\n');
        }
    }
    text
}

/// Writes the lines of a non-empty object or array, each with its indentation.
fn block(value: &Value, indent: usize, text: &mut String) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(key, value)| (format!("{}:", plain(key)), value)).collect(),
        Value::Array(items) => items.iter().map(|item| ("-".to_owned(), item)).collect(),
        _ => return,
    };
    for (lead, value) in entries {
        text.push_str(&" ".repeat(indent));
        text.push_str(&lead);
        match value {
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                // A list below a key needs no further indentation; a list in another list does.
                block(value, if lead == "-" { indent + 2 } else { indent }, text);
            }
            Value::Object(members) if !members.is_empty() && lead == "-" => {
                // The first member is on the line of the dash.
                let mut inner = String::new();
                block(value, indent + 2, &mut inner);
                text.push(' ');
                text.push_str(inner.trim_start());
            }
            Value::Object(members) if !members.is_empty() => {
                text.push('\n');
                block(value, indent + 2, text);
            }
            scalar_value => {
                text.push(' ');
                text.push_str(&scalar(scalar_value));
                text.push('\n');
            }
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        // Numbers, booleans, null, `{}` and `[]` are the same in JSON and YAML.
        other => other.to_string(),
    }
}

/// The string without quotes if every YAML parser reads it as this string, else as a JSON string, which is valid YAML.
fn plain(text: &str) -> String {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '/');
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./@+".contains(c));
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let word = words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if first && rest && !word { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_block_style() {
        let value = json!({
            "kind": "Config",
            "empty": {},
            "list": [1, {"a": true, "b": [2, [3, []]]}, "x y"],
            "nested": {"deep": {"text": "a: b"}},
        });
        let expected = "empty: {}\nkind: Config\nlist:\n- 1\n- a: true\n  b:\n  - 2\n  -\n    - 3\n    - []\n- \"x y\"\n\
                        nested:\n  deep:\n    text: \"a: b\"\n";
        assert_eq!(to_string(&value), expected);
    }

    #[test]
    fn quotes_ambiguous_strings() {
        for (text, written) in [
            ("", r#""""#),
            ("yes", r#""yes""#),
            ("Null", r#""Null""#),
            ("1e3", r#""1e3""#),
            ("-x", r#""-x""#),
            ("a\nb", r#""a\nb""#),
            ("2030-01-01", r#""2030-01-01""#),
            ("https://a", r#""https://a""#),
            ("system:anonymous", r#""system:anonymous""#),
            ("/usr/bin/aws", "/usr/bin/aws"),
            ("kube-system", "kube-system"),
        ] {
            assert_eq!(to_string(&json!(text)), format!("{written}\n"));
        }
    }
}
