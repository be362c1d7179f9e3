//! Names of secret values.

/// Kind of a secret value, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretName {
    /// A token, key or password.
    Value,
    /// A PIN or one-time password: digits are enough.
    Digits,
    /// `Authorization` and its kin: a scheme and a credential.
    Authorization,
    /// A header with a secret up to the end of the line.
    Cookie,
}

/// Parts of names that make them secret, also in the middle of a word: `idtoken`, `clientsecret`.
const ANYWHERE: [&str; 6] = ["password", "passwd", "passphrase", "passcode", "secret", "token"];

/// Parts that make a name secret as whole words only.
const WORDS: [&str; 14] = [
    "pwd",
    "pass",
    "pw",
    "jwt",
    "assertion",
    "sig",
    "signature",
    "sas",
    "apikey",
    "verifier",
    "cookie",
    "bearer",
    "saml",
    "psk",
];

/// `KEY` is secret behind one of these.
const KEYS: [&str; 13] = [
    "api",
    "access",
    "secret",
    "private",
    "account",
    "signing",
    "encryption",
    "master",
    "shared",
    "client",
    "service",
    "ssh",
    "storage",
];

/// Last words of names that describe a secret and are not secret themselves.
const ABOUT: [&str; 69] = [
    "file",
    "files",
    "path",
    "dir",
    "url",
    "uri",
    "endpoint",
    "endpoints",
    "type",
    "name",
    "names",
    "ttl",
    "expiry",
    "expiration",
    "expires",
    "expire",
    "exp",
    "lifetime",
    "duration",
    "count",
    "length",
    "size",
    "format",
    "version",
    "status",
    "error",
    "errors",
    "issuer",
    "audience",
    "audiences",
    "header",
    "id",
    "cache",
    "kind",
    "mode",
    "source",
    "ref",
    "command",
    "provider",
    "manager",
    "service",
    "review",
    "reviews",
    "request",
    "requests",
    "response",
    "server",
    "arn",
    "method",
    "alg",
    "algorithm",
    "enabled",
    "required",
    "tokens",
    "secrets",
    "passwords",
    "credentials",
    "namespace",
    "serial",
    "age",
    "subject",
    "claim",
    "claims",
    "usage",
    "timeout",
    "retries",
    "prefix",
    "limit",
    "store",
];

/// File extensions: `token.go:12` is a source position.
const FILES: [&str; 18] = [
    "rs", "go", "py", "js", "ts", "java", "c", "h", "cc", "cpp", "json", "yaml", "yml", "txt", "pem", "crt", "toml",
    "log",
];

impl SecretName {
    /// `previous` is the word before the name, `before` the character.
    pub(super) fn of(name: &str, previous: &str, before: Option<char>) -> Option<Self> {
        // Longer runs are data.
        if name.len() > 128 || name.is_empty() {
            return None;
        }
        let is_file = name.rsplit_once('.').is_some_and(|(_, ending)| FILES.contains(&ending));
        let parts = parts(name);
        let last = parts.last()?.as_str();
        let whole = parts.concat();
        match whole.as_str() {
            _ if whole.ends_with("authorization") => return Some(Self::Authorization),
            "cookie" | "setcookie" => return Some(Self::Cookie),
            // In a query only: elsewhere it is an exit code.
            "code" => return matches!(before, Some('?' | '&' | '#')).then_some(Self::Value),
            "devicecode" | "authcode" | "authorizationcode" | "keydata" | "auth" | "secretid" => {
                return Some(Self::Value);
            }
            // The scope of a SigV4 credential is part of it.
            _ if last == "credential" => return Some(Self::Value),
            _ => {}
        }
        if is_file || ABOUT.contains(&last) {
            return None;
        }
        if parts.iter().any(|part| matches!(part.as_str(), "pin" | "otp" | "mfa" | "totp" | "passcode"))
            || ["userpin", "sopin", "pinvalue"].contains(&whole.as_str())
        {
            return Some(Self::Digits);
        }
        let key = |last: &str, before: &str| last == "key" && KEYS.contains(&before);
        let before_last = parts.len().checked_sub(2).and_then(|at| parts.get(at)).map_or("", String::as_str);
        let is_key = key(last, before_last)
            || (last == "key" && parts.len() == 1 && key(last, &previous.to_ascii_lowercase()))
            || KEYS.iter().any(|kind| whole.ends_with(&format!("{kind}key")))
            || whole.ends_with("keydata");
        let is_secret = is_key
            || parts.iter().any(|part| WORDS.contains(&part.as_str()))
            || ANYWHERE.iter().any(|part| whole.contains(part) && !whole.ends_with(&format!("{part}s")));
        is_secret.then_some(Self::Value)
    }
}

/// Returns whether the value of a variable, flag, header or member with this name is a secret: `VAULT_TOKEN`,
/// `client-secret`, `X-Api-Key`, but not `token-file`.
///
/// ```
/// assert!(credlet_api::is_secret_name("AWS_SECRET_ACCESS_KEY"));
/// assert!(!credlet_api::is_secret_name("AWS_WEB_IDENTITY_TOKEN_FILE"));
/// ```
pub fn is_secret_name(name: &str) -> bool {
    SecretName::of(name, "", None).is_some()
}

/// Splits a name into words in lower case: `clientSecret`, `CLIENT_SECRET` and `client-secret` have the same ones.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            let begins = !before.is_ascii_alphanumeric() || (c.is_ascii_uppercase() && before.is_ascii_lowercase());
            match parts.last_mut() {
                Some(part) if !begins => part.push(c.to_ascii_lowercase()),
                _ => parts.push(c.to_ascii_lowercase().to_string()),
            }
        }
        before = c;
    }
    parts
}
