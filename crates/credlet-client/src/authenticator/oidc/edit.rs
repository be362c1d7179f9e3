//! In-place replacement of one scalar in a kubeconfig.
//!
//! The rest of the file keeps its comments, anchors and order. The result is decoded and must equal the old kubeconfig except
//! for the replaced value; otherwise the edit is rejected.

use credlet_api::Secret;
use credlet_api::kubeconfig::{AuthProviderConfig, KubeconfigFile};
use zeroize::Zeroizing;

/// Returns the `auth-provider` of this user.
pub(super) fn provider<'a>(config: &'a mut KubeconfigFile, user: &str) -> Option<&'a mut AuthProviderConfig> {
    let user = config.users.iter_mut().find(|entry| entry.name == user)?;
    user.item.auth_provider.as_mut().map(|provider| &mut provider.value)
}

/// Returns the text with `value` for `key` on `line`, or `None` if the old value is not a plain, single-quoted or double-quoted
/// scalar on one line.
pub(super) fn replace(text: &str, user: &str, key: &str, line: usize, value: &Secret) -> Option<Zeroizing<String>> {
    let mut wanted = KubeconfigFile::decode(text.as_bytes()).ok()?;
    provider(&mut wanted, user)?.config.insert(key.to_owned(), value.clone());
    let line_start = match line.checked_sub(1)? {
        0 => 0,
        breaks => text.match_indices('\n').nth(breaks - 1)?.0 + 1,
    };
    let row = text[line_start..].lines().next()?;
    row.match_indices(key).find_map(|(at, _)| {
        let (offset, old) = scalar(&row[at + key.len()..])?;
        let start = line_start + at + key.len() + offset;
        [in_style_of(old, value), Some(double_quoted(value))].into_iter().flatten().find_map(|new| {
            let mut edited = Zeroizing::new(String::with_capacity(text.len() + new.len()));
            edited.push_str(&text[..start]);
            edited.push_str(&new);
            edited.push_str(&text[start + old.len()..]);
            (KubeconfigFile::decode(edited.as_bytes()).ok()? == wanted).then_some(edited)
        })
    })
}

/// Returns the scalar after a key and its offset.
fn scalar(after_key: &str) -> Option<(usize, &str)> {
    let rest = after_key.trim_start_matches(['"', '\'']).trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix(':')?.trim_start_matches([' ', '\t']);
    let offset = after_key.len() - rest.len();
    let length = match rest.chars().next()? {
        '\'' => {
            // `''` is an escaped quote inside the scalar.
            let inside = Zeroizing::new(rest[1..].replace("''", ".."));
            inside.find('\'')? + 2
        }
        '"' => {
            let mut escaped = false;
            let closes = |c: char| {
                let found = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                found
            };
            rest[1..].find(closes)? + 2
        }
        // Indicators of a block scalar, alias, anchor, tag, mapping, sequence or comment, or reserved.
        '|' | '>' | '*' | '&' | '!' | '{' | '[' | '#' | '%' | '@' | '`' => return None,
        _ => {
            // A token has none of these characters. If one belongs to the scalar, the check of the decoded result fails.
            let end = rest.find([',', '}', ']', ' ', '\t']).unwrap_or(rest.len());
            Some(end).filter(|end| *end > 0)?
        }
    };
    Some((offset, &rest[..length]))
}

/// Returns the value in the quoting style of the old scalar, or `None` if that style cannot represent it.
fn in_style_of(old: &str, value: &Secret) -> Option<Zeroizing<String>> {
    let text = value.expose();
    match old.as_bytes().first()? {
        b'"' => Some(double_quoted(value)),
        b'\'' if text.contains(|c: char| c.is_control()) => None,
        b'\'' => Some(Zeroizing::new(format!("'{}'", *Zeroizing::new(text.replace('\'', "''"))))),
        // Unquoted only if no YAML version reads it as a number, timestamp or boolean.
        _ => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+=~".contains(c);
            let safe =
                text.len() >= 8 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
            safe.then(|| Zeroizing::new(text.to_owned()))
        }
    }
}

fn double_quoted(value: &Secret) -> Zeroizing<String> {
    let mut quoted = Zeroizing::new(String::with_capacity(value.expose().len() * 6 + 2));
    quoted.push('"');
    for c in value.expose().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(config: &str, new: &str) -> Option<String> {
        let text = format!("# mine\nusers:\n- name: u\n  user:\n    auth-provider:\n      name: oidc\n{config}");
        let mut read = KubeconfigFile::decode(text.as_bytes()).unwrap();
        let line = provider(&mut read, "u").unwrap().config_lines["id-token"];
        let edited = replace(&text, "u", "id-token", line, &Secret::new(new))?;
        Some(edited.strip_prefix(text.strip_suffix(config).unwrap()).unwrap().to_owned())
    }

    #[test]
    fn replaces_single_line_scalars_only() {
        for (old, new, expected) in [
            ("old", "brand.new", "brand.new"),
            ("old # not id-token: old", "brand.new", "brand.new # not id-token: old"),
            ("'old'  ", "brand.new", "'brand.new'  "),
            ("'o''ld'", "bra'nd", "'bra''nd'"),
            (r#""o\"ld" # x"#, r#"a"b\c"#, r#""a\"b\\c" # x"#),
            ("old\r", "brand.new", "brand.new\r"),
            // Double-quoted if the old style cannot represent the new value.
            ("old", "12345678", r#""12345678""#),
            ("old", "true", r#""true""#),
            ("old", "with # hash", r#""with # hash""#),
            ("'old'", "tab\there", r#""tab\u0009here""#),
        ] {
            let config = |value: &str| format!("      config:\n        \"id-token\" : {value}\n        a: b\n");
            assert_eq!(edited(&config(old), new).as_deref(), Some(&*config(expected)), "{old} {new}");
        }
    }

    #[test]
    fn replaces_value_in_flow_style_and_json() {
        let flow = "      config: {x: id-token, y: 'id-token: no', id-token: old, refresh-token: r}\n";
        let expected = flow.replace(": old", ": brand.new");
        assert_eq!(edited(flow, "brand.new"), Some(expected));
        let json = "      config: {\"id-token\":\"old\",\"refresh-token\":\"r\"}\n";
        assert_eq!(edited(json, "brand.new"), Some(json.replace("old", "brand.new")));
    }

    #[test]
    fn rejects_multi_line_and_aliased_values() {
        for value in [
            "|-\n          old",
            ">-\n          old",
            "\"o\n          ld\"",
            "old\n          older",
            "&a old",
            "!!str old",
        ] {
            assert_eq!(edited(&format!("      config:\n        id-token: {value}\n"), "brand.new"), None, "{value}");
        }
        let alias = "      config:\n        x: &t old\n        id-token: *t\n";
        assert_eq!(edited(alias, "brand.new"), None);
        // An alias shared by two users.
        let merged =
            "      config: &c\n        id-token: old\n- name: v\n  user: {auth-provider: {name: oidc, config: *c}}\n";
        assert_eq!(edited(merged, "brand.new"), None);
    }
}
