//! Taking secrets out of text that others wrote, before it becomes part of an error or a log line.

use crate::Secret;

const REDACTED: &str = "[redacted]";

/// `text` without the secrets in `known` and without anything that looks like a credential: JSON web tokens, the
/// tokens of the large clouds, what follows `Bearer`, JSON members that hold secrets, private keys.
///
/// It is a net under the tight-rope: a plugin should not write secrets to its standard error in the first place.
///
/// ```
/// use credlet_api::{Secret, scrub};
///
/// let password = Secret::new("correct horse");
/// assert_eq!(scrub("login with 'correct horse' failed", [&password]), "login with '[redacted]' failed");
/// assert_eq!(scrub("sent Authorization: Bearer abc.def", []), "sent Authorization: Bearer [redacted]");
/// ```
pub fn scrub<'a>(text: &str, known: impl IntoIterator<Item = &'a Secret>) -> String {
    let mut text = text.to_owned();
    for secret in known {
        // Shorter ones are words like "true": replacing those would only spoil the message.
        if secret.expose().chars().count() >= 6 {
            text = text.replace(secret.expose(), REDACTED);
        }
    }
    let text = private_keys(&text);
    let text = json_members(&text);
    words(&text)
}

fn private_keys(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("-----BEGIN ") {
        let (before, block) = rest.split_at(start);
        clean.push_str(before);
        let title = block.lines().next().unwrap_or_default();
        let end = block.find("-----END ").map(|end| block[end..].find('\n').map_or(block.len(), |eol| end + eol));
        // A block cut off before its end is still a key.
        let (block, after) = block.split_at(end.unwrap_or(block.len()));
        clean.push_str(if title.contains("PRIVATE KEY") { REDACTED } else { block });
        rest = after;
    }
    clean.push_str(rest);
    clean
}

/// `"token":"…"` and its kin, also with escaped quotes inside another string.
fn json_members(text: &str) -> String {
    const NAMES: [&str; 8] = [
        "token",
        "clientKeyData",
        "client-key-data",
        "password",
        "access_token",
        "id_token",
        "refresh_token",
        "client_secret",
    ];
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(value) = NAMES.iter().filter_map(|name| member_value(rest, name)).min_by_key(|value| value.start) {
        clean.push_str(&rest[..value.start]);
        clean.push_str(REDACTED);
        rest = &rest[value.end..];
    }
    clean.push_str(rest);
    clean
}

fn member_value(text: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let quoted = [format!("\"{name}\""), format!("\"{name}\\\"")];
    let after_name = quoted.iter().filter_map(|quoted| Some(text.find(quoted)? + quoted.len())).min()?;
    let after = &text[after_name..];
    let colon = after.trim_start().strip_prefix(':')?.trim_start();
    let opened = colon.trim_start_matches('\\').strip_prefix('"')?;
    let start = text.len() - opened.len();
    let mut escaped = false;
    let length = opened
        .char_indices()
        .find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        })
        .map_or(opened.len(), |(at, _)| at);
    (length > 0).then_some(start..start + length)
}

fn words(text: &str) -> String {
    let belongs = |c: char| c.is_ascii_alphanumeric() || "-._~+/=%".contains(c);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_bearer = false;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        if length == 0 {
            clean.push(first);
            rest = &rest[first.len_utf8()..];
            after_bearer &= first == ' ';
            continue;
        }
        let (word, after) = rest.split_at(length);
        clean.push_str(if after_bearer || is_credential(word) { REDACTED } else { word });
        after_bearer = word.eq_ignore_ascii_case("bearer");
        rest = after;
    }
    clean
}

/// The beginnings that issuers give their tokens on purpose, so that they can be recognised.
fn is_credential(word: &str) -> bool {
    let jwt = word.starts_with("eyJ") && word.matches('.').count() >= 1;
    let known = ["k8s-aws-v1.", "ya29.", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-"];
    (jwt && word.len() > 20) || known.iter().any(|start| word.starts_with(start) && word.len() > start.len() + 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_go_wherever_they_stand() {
        let secret = Secret::new("s3cr3t-value");
        assert_eq!(scrub("as3cr3t-valueb s3cr3t-value", [&secret]), "a[redacted]b [redacted]");
    }

    #[test]
    fn short_values_are_words_and_stay() {
        assert_eq!(scrub("true is true", [&Secret::new("true")]), "true is true");
    }

    #[test]
    fn credentials_are_recognised_by_their_shape() {
        for (text, clean) in [
            ("got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln!", "got [redacted]!"),
            ("k8s-aws-v1.aHR0cHM6Ly9zdHM", "[redacted]"),
            ("authorization: bearer   abc", "authorization: bearer   [redacted]"),
            (r#"{"token":"a\"b","x":1}"#, r#"{"token":"[redacted]","x":1}"#),
            (r#"{"x":1,"password" : "p","token":"t"}"#, r#"{"x":1,"password" : "[redacted]","token":"[redacted]"}"#),
            ("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nend", "[redacted]\nend"),
            ("cut -----BEGIN PRIVATE KEY-----\nabc", "cut [redacted]"),
        ] {
            assert_eq!(scrub(text, []), clean);
        }
    }

    #[test]
    fn ordinary_messages_stay_as_they_are() {
        for text in [
            "error: could not read /home/ada/.aws/config: permission denied",
            "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n",
            r#"unknown field "token": expected "name""#,
            "eyJ is how one begins",
            "",
        ] {
            assert_eq!(scrub(text, []), text);
        }
    }
}
