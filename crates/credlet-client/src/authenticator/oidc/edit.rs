//! Another value in the place of an old one, in a text that somebody else wrote.
//!
//! People keep comments, anchors and an order of their own in their kubeconfig, so it is never written anew: one scalar
//! on one line is replaced. Whether the place was the right one is then a question for the reader of kubeconfigs: all
//! of the new text must mean what the old one did, but for this value.

use credlet_api::Secret;
use credlet_api::kubeconfig::{AuthProviderConfig, Config};
use zeroize::Zeroizing;

/// The `auth-provider` of the user of this name.
pub(super) fn provider<'a>(config: &'a mut Config, user: &str) -> Option<&'a mut AuthProviderConfig> {
    let user = config.users.iter_mut().find(|entry| entry.name == user)?;
    user.item.auth_provider.as_mut().map(|provider| &mut provider.value)
}

/// The text with `value` under `key`, which stands on `line`. `None`: it is not there in one of the three forms that
/// fit on a line.
pub(super) fn replace(text: &str, user: &str, key: &str, line: usize, value: &Secret) -> Option<Zeroizing<String>> {
    let mut wanted = Config::decode(text.as_bytes()).ok()?;
    provider(&mut wanted, user)?.config.insert(key.to_owned(), value.clone());
    let begins = match line.checked_sub(1)? {
        0 => 0,
        breaks => text.match_indices('\n').nth(breaks - 1)?.0 + 1,
    };
    let row = text[begins..].lines().next()?;
    row.match_indices(key).find_map(|(at, _)| {
        let (offset, old) = scalar(&row[at + key.len()..])?;
        let start = begins + at + key.len() + offset;
        [in_the_form_of(old, value), Some(double_quoted(value))].into_iter().flatten().find_map(|new| {
            let mut edited = Zeroizing::new(String::with_capacity(text.len() + new.len()));
            edited.push_str(&text[..start]);
            edited.push_str(&new);
            edited.push_str(&text[start + old.len()..]);
            (Config::decode(edited.as_bytes()).ok()? == wanted).then_some(edited)
        })
    })
}

/// The scalar after a key, and where it begins.
fn scalar(after_key: &str) -> Option<(usize, &str)> {
    let rest = after_key.trim_start_matches(['"', '\'']).trim_start_matches([' ', '\t']);
    let rest = rest.strip_prefix(':')?.trim_start_matches([' ', '\t']);
    let offset = after_key.len() - rest.len();
    let length = match rest.chars().next()? {
        '\'' => {
            // A doubled quote is one that belongs to the text.
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
        // What these begin is no plain scalar: a block, an alias, an anchor, a tag, a mapping, a list, a comment.
        '|' | '>' | '*' | '&' | '!' | '{' | '[' | '#' | '%' | '@' | '`' => return None,
        _ => {
            // A token has none of these inside; where a comma belongs to the text, the meaning will not be the same.
            let end = rest.find([',', '}', ']', ' ', '\t']).unwrap_or(rest.len());
            Some(end).filter(|end| *end > 0)?
        }
    };
    Some((offset, &rest[..length]))
}

/// `None`: the value does not go into this form.
fn in_the_form_of(old: &str, value: &Secret) -> Option<Zeroizing<String>> {
    let text = value.expose();
    match old.as_bytes().first()? {
        b'"' => Some(double_quoted(value)),
        b'\'' if text.contains(|c: char| c.is_control()) => None,
        b'\'' => Some(Zeroizing::new(format!("'{}'", *Zeroizing::new(text.replace('\'', "''"))))),
        // Only what no YAML of any version takes for a number, a time or a truth.
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
        let mut read = Config::decode(text.as_bytes()).unwrap();
        let line = provider(&mut read, "u").unwrap().config_lines["id-token"];
        let edited = replace(&text, "u", "id-token", line, &Secret::new(new))?;
        Some(edited.strip_prefix(text.strip_suffix(config).unwrap()).unwrap().to_owned())
    }

    #[test]
    fn one_line_scalars_are_replaced_and_nothing_else() {
        for (old, new, expected) in [
            ("old", "brand.new", "brand.new"),
            ("old # not id-token: old", "brand.new", "brand.new # not id-token: old"),
            ("'old'  ", "brand.new", "'brand.new'  "),
            ("'o''ld'", "bra'nd", "'bra''nd'"),
            (r#""o\"ld" # x"#, r#"a"b\c"#, r#""a\"b\\c" # x"#),
            ("old\r", "brand.new", "brand.new\r"),
            // A form that the new value does not fit is left.
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
    fn flow_style_and_json_are_replaced_in_the_right_place() {
        let flow = "      config: {x: id-token, y: 'id-token: no', id-token: old, refresh-token: r}\n";
        let expected = flow.replace(": old", ": brand.new");
        assert_eq!(edited(flow, "brand.new"), Some(expected));
        let json = "      config: {\"id-token\":\"old\",\"refresh-token\":\"r\"}\n";
        assert_eq!(edited(json, "brand.new"), Some(json.replace("old", "brand.new")));
    }

    #[test]
    fn whatever_else_it_is_stays() {
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
        // Two users share what is written once.
        let merged =
            "      config: &c\n        id-token: old\n- name: v\n  user: {auth-provider: {name: oidc, config: *c}}\n";
        assert_eq!(edited(merged, "brand.new"), None);
    }
}
