//! Recognition of credentials by their form.

/// Prefixes of well-known tokens, with the minimum number of characters behind them.
const PREFIXES: [(&str, usize); 43] = [
    ("k8s-aws-v1.", 8),
    ("ya29.", 8),
    ("AIza", 30),
    ("ghp_", 8),
    ("gho_", 8),
    ("ghu_", 8),
    ("ghs_", 8),
    ("ghr_", 8),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("glptt-", 8),
    ("gldt-", 8),
    ("glrt-", 8),
    ("glcbt-", 8),
    ("glsoat-", 8),
    ("glagent-", 8),
    ("xoxa-", 8),
    ("xoxb-", 8),
    ("xoxe-", 8),
    ("xoxe.", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("hvs.", 20),
    ("hvb.", 20),
    ("hvr.", 20),
    ("dop_v1_", 16),
    ("doo_v1_", 16),
    ("dor_v1_", 16),
    ("dckr_pat_", 16),
    ("dapi", 32),
    ("npm_", 36),
    ("pypi-", 40),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("sk-", 32),
    ("glsa_", 20),
    ("glc_", 20),
    ("sha256~", 20),
    ("AGE-SECRET-KEY-1", 16),
    ("SG.", 40),
    ("1//0", 20),
];

/// Minimum length of a mixed run of letters and digits that counts as a credential.
const LONG: usize = 100;

/// The length of the run of token characters at the start of the text.
pub(super) fn word_length(text: &str) -> usize {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let bytes = text.as_bytes();
    // The dashes of a PEM block are a separate word.
    if bytes.starts_with(b"-----") {
        return bytes.iter().take_while(|byte| **byte == b'-').count();
    }
    (0..bytes.len()).find(|at| !belongs(bytes[*at]) || bytes[*at..].starts_with(b"-----")).unwrap_or(bytes.len())
}

/// The start of a credential in the word. It extends to the end of the word.
pub(super) fn credential(word: &str, has_aws_key_id: bool) -> Option<usize> {
    let bytes = word.as_bytes();
    let starts = (0..word.len()).filter(|at| *at == 0 || !bytes[at - 1].is_ascii_alphanumeric());
    for start in starts {
        let rest = &word[start..];
        if PREFIXES.iter().any(|(prefix, least)| rest.strip_prefix(prefix).is_some_and(|tail| is_tail(tail, *least)))
            || aws_key_id(rest.as_bytes())
            || is_azure_secret(rest)
        {
            return Some(start);
        }
    }
    if let Some(start) = word.find("eyJ") {
        // Base64 of `{"`: a JSON web token or another encoded document.
        let length = word.len() - start;
        let header = word[start..].find('.').unwrap_or_default();
        if (header >= 8 && length > 20) || length >= 40 {
            return Some(start);
        }
    }
    let is_secret_key = has_aws_key_id && is_aws_secret_key(word);
    (is_secret_key || is_long(word) || is_bootstrap_token(word)).then_some(0)
}

fn is_tail(tail: &str, least: usize) -> bool {
    let token = tail.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte)).count();
    // Short minimum lengths belong to prefixes that may also start ordinary words.
    token >= least && (least > 8 || tail.len() > least)
}

pub(super) fn has_aws_key_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.windows(2).enumerate().any(|(at, pair)| pair == b"IA" && at >= 2 && aws_key_id(&bytes[at - 2..]))
}

/// `AKIA` (a user's key) or `ASIA` (a session's) and 16 characters.
fn aws_key_id(bytes: &[u8]) -> bool {
    let is_id = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let length = bytes.iter().take(21).take_while(|byte| is_id(byte)).count();
    (bytes.starts_with(b"AKIA") || bytes.starts_with(b"ASIA")) && length == 20
}

fn is_aws_secret_key(word: &str) -> bool {
    let word = word.trim_end_matches('.');
    word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte)) && is_mixed(word)
}

/// A client secret of Entra ID: three characters, a digit, `Q~`, and more than 30 characters.
fn is_azure_secret(word: &str) -> bool {
    word.len() >= 37 && word.as_bytes()[3].is_ascii_digit() && word.as_bytes()[4..].starts_with(b"Q~")
}

/// A bootstrap token of Kubernetes: `abcdef.0123456789abcdef`.
fn is_bootstrap_token(word: &str) -> bool {
    let part =
        |part: &str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    let digits = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit());
    word.split_once('.').is_some_and(|(id, secret)| part(id, 6) && part(secret, 16) && digits(secret))
}

fn is_long(word: &str) -> bool {
    // A path has more slashes than base64.
    word.len() >= LONG && is_mixed(word) && word.matches('/').count() * 20 < word.len() && !word.contains("..")
}

/// Upper case, lower case and digits.
fn is_mixed(word: &str) -> bool {
    let any = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
    any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase) && any(u8::is_ascii_digit)
}

/// Whether a part of the value looks random. UUIDs do not count, because they are identifiers.
pub(super) fn is_random(value: &str) -> bool {
    const SHORTEST: usize = 16;
    let value = value.trim_end_matches('=');
    let is_uuid = value.len() == 36
        && value.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid {
        return false;
    }
    value.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        let class = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
        let changes = part.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
        part.len() >= SHORTEST && changes * 3 > part.len()
    })
}

/// Words that follow the name of a secret in ordinary messages.
const ORDINARY: [&str; 96] = [
    "a",
    "absent",
    "all",
    "already",
    "an",
    "and",
    "are",
    "argument",
    "as",
    "at",
    "auth",
    "authentication",
    "be",
    "because",
    "but",
    "by",
    "can",
    "cannot",
    "changed",
    "could",
    "denied",
    "disabled",
    "does",
    "empty",
    "enabled",
    "error",
    "exchange",
    "exec",
    "expected",
    "expired",
    "failed",
    "failure",
    "false",
    "flag",
    "flags",
    "for",
    "forbidden",
    "format",
    "from",
    "given",
    "has",
    "have",
    "if",
    "in",
    "incorrect",
    "instead",
    "invalid",
    "is",
    "it",
    "login",
    "malformed",
    "may",
    "mismatch",
    "missing",
    "must",
    "needs",
    "nil",
    "no",
    "none",
    "not",
    "null",
    "of",
    "ok",
    "on",
    "only",
    "option",
    "or",
    "please",
    "prompt",
    "realm",
    "refresh",
    "refused",
    "rejected",
    "required",
    "requires",
    "revoked",
    "set",
    "should",
    "string",
    "that",
    "the",
    "this",
    "to",
    "token",
    "tokens",
    "true",
    "type",
    "unauthorized",
    "unavailable",
    "undefined",
    "unexpected",
    "unknown",
    "unset",
    "unsupported",
    "was",
    "wrong",
];

/// Whether the word belongs to a message rather than being a value.
pub(super) fn is_ordinary(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    word.is_empty() || (word.len() <= 16 && ORDINARY.contains(&word.to_ascii_lowercase().as_str()))
}

/// Whether a word in a sentence is more likely a value than prose: digits and letters, capitals in the middle,
/// symbols. With `digits`, a number of four digits is a value, too.
pub(super) fn is_value(word: &str, digits: bool) -> bool {
    let word = word.trim_matches(|c: char| "()[]{},.;!?'\"`".contains(c));
    // `x509: …` starts another clause; paths and addresses are part of the message.
    if word.ends_with(':')
        || word.starts_with(['/', '.', '~', '<', '$', '-'])
        || word.contains("://")
        || is_ordinary(word)
    {
        return false;
    }
    let bytes = word.as_bytes();
    let (all_digits, any_digit) = (bytes.iter().all(u8::is_ascii_digit), bytes.iter().any(u8::is_ascii_digit));
    if all_digits {
        return word.len() >= if digits { 4 } else { 8 };
    }
    let capital_within = bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    any_digit || capital_within || bytes.iter().any(|byte| b"!@#$%^*+/=~\\&".contains(byte)) || !word.is_ascii()
}
