//! Replaces a setting of a user's `auth-provider`.

use credlet_api::Secret;
use zeroize::Zeroizing;

use super::document::Document;
use super::text_edit::{TextEdit, apply_verified, double_quoted};

/// Returns the text with `value` for the setting `key` in the `auth-provider` of this user. Returns `None` if there is no such
/// setting, if it is not a plain or quoted scalar on one line, or if the edit would change anything else.
pub fn set_auth_provider_value(text: &str, user: &str, key: &str, value: &Secret) -> Option<Zeroizing<String>> {
    let document = Document::parse(text)?;
    let path = ["auth-provider", "config", key];
    let node = path.iter().try_fold(document.user(user)?, |node, name| Some(document.member(node, name)?.1))?;
    let edit = TextEdit::set_scalar(&document, node, value.expose())?;
    // The second one is for `null` in JSON, where a plain string is invalid.
    let quoted = TextEdit { range: edit.range.clone(), text: double_quoted(value.expose()) };
    [edit, quoted].into_iter().find_map(|edit| {
        apply_verified(text, vec![edit], |expected, _| {
            let user = expected.users.iter_mut().find(|entry| entry.name == user)?;
            let provider = user.item.auth_provider.as_mut()?;
            provider.value.config.insert(key.to_owned(), value.clone());
            Some(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(config: &str, new: &str) -> Option<String> {
        let text = format!("# mine\nusers:\n- name: u\n  user:\n    auth-provider:\n      name: oidc\n{config}");
        let edited = set_auth_provider_value(&text, "u", "id-token", &Secret::new(new))?;
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
