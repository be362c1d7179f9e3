//! Removes secrets, colours and control characters from the output of other programs.

use std::collections::HashSet;

use credlet_api::{Secret, escape_control_chars, redact};

/// Minimum length of a string in standard output that is treated as a credential.
const MIN_SECRET_LEN: usize = 16;

/// Returns `text`, usually standard error of a program, without secrets, colours and control characters. Redacted are
/// `known` secrets, everything that looks like a credential, and strings that also occur in `stdout`, which may contain a
/// credential although the program failed.
pub fn sanitize_output<'a>(text: &[u8], stdout: &[u8], known: impl IntoIterator<Item = &'a Secret>) -> String {
    let text = strip_colours(&String::from_utf8_lossy(text));
    let text = redact_words_of(&text, &String::from_utf8_lossy(stdout));
    escape_control_chars(&redact(&text, known))
}

/// Removes `ESC [ … m`. Log libraries write it between a name and its value, where it would hide the secret from redaction.
fn strip_colours(text: &str) -> String {
    const MAX_PARAMETER_LEN: usize = 32;
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("\u{1b}[") {
        let parameters = &rest[start + 2..];
        let length = parameters
            .bytes()
            .take(MAX_PARAMETER_LEN)
            .take_while(|byte| byte.is_ascii_digit() || b";:".contains(byte))
            .count();
        let end = start + 2 + length;
        plain.push_str(&rest[..start]);
        match rest[end..].strip_prefix('m') {
            Some(after) => rest = after,
            None => {
                plain.push_str(&rest[start..end]);
                rest = &rest[end..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// API versions occur in every response and in error messages; they are not secrets.
fn is_version(word: &str) -> bool {
    ["client.authentication.k8s.io/", "credentialprovider.kubelet.k8s.io/"].iter().any(|group| word.starts_with(group))
}

/// Replaces each word of `text` that has a prefix in common with a word of `stdout`. Takes one hash look-up per position,
/// whatever the number of words.
fn redact_words_of(text: &str, stdout: &str) -> String {
    let separates = |c: char| c.is_whitespace() || "\"',".contains(c);
    let prefixes: HashSet<&[u8]> = stdout
        .split(separates)
        .filter(|word| !is_version(word))
        .filter_map(|word| word.as_bytes().get(..MIN_SECRET_LEN))
        .collect();
    if prefixes.is_empty() {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let window = text.as_bytes().get(at..at + MIN_SECRET_LEN);
        if window.is_some_and(|window| prefixes.contains(window)) {
            clean.push_str("[redacted]");
            at += text[at..].find(separates).unwrap_or(text.len() - at);
        } else {
            clean.push(c);
            at += c.len_utf8();
        }
    }
    clean
}

/// Returns the last line that is neither empty nor a hint, which usually states the error, without an `error: ` prefix.
pub fn last_line(text: &str) -> String {
    const MAX_LEN: usize = 300;
    let is_hint = |line: &&str| line.is_empty() || line.starts_with("hint:");
    let line = text.lines().rev().map(str::trim).find(|line| !is_hint(line)).unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    match line.char_indices().nth(MAX_LEN) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_secrets_colours_and_control_characters() {
        let shown = |stderr: &str, stdout: &str| sanitize_output(stderr.as_bytes(), stdout.as_bytes(), []);
        assert_eq!(
            shown("\u{1b}[36mtoken\u{1b}[0m=abc9 \u{1b}[2J\u{9b}31m\rx", ""),
            "token=[redacted] U+001B[2JU+009B31mU+000Dx"
        );
        assert_eq!(
            shown("got 0123456789abcdef-x, again 0123456789abcdef-x", "0123456789abcdef-x\n"),
            "got [redacted], again [redacted]"
        );
        assert_eq!(shown("x0123456789abcdefé y", "{\"t\":\"0123456789abcdefé\"}"), "x[redacted] y");
        assert_eq!(
            shown("\"token\" is missing {\"token\":\"leakleak-stderr-2\"}", ""),
            "\"token\" is missing {\"token\":\"[redacted]\"}"
        );
    }

    #[test]
    fn large_output_is_searched_once() {
        // With 16,000 words in each, a search per word would take minutes.
        let stdout: String = (0..16_000).map(|word| format!("word-of-stdout-{word:08} ")).collect();
        let stderr: String = (0..16_000).map(|word| format!("word-of-stderr-{word:08} ")).collect();
        let shown = sanitize_output(stderr.as_bytes(), stdout.as_bytes(), []);
        assert_eq!(shown, stderr);
    }

    #[test]
    fn last_line_skips_hints() {
        assert_eq!(last_line("trace\nerror: please log in\nhint: run `acme login`\n\n"), "please log in");
        assert_eq!(last_line(" \n"), "");
        assert_eq!(last_line(&"é".repeat(1000)), format!("{}…", "é".repeat(300)));
    }
}
