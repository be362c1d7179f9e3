//! Command lines, argument by argument.

use super::{REDACTED, is_secret_name, redact, shape};

/// Flags of one letter with names as values in every known program: `-n NAMESPACE`, `-i CLUSTER`, `-r ROLE`. The value
/// of any other may be a password.
const PLAIN_LETTERS: [u8; 4] = [b'c', b'i', b'n', b'r'];

/// Names of flags without secret values. Go's `flag` package accepts them with one dash.
const PLAIN_NAMES: [&str; 37] = [
    "audience",
    "client-id",
    "cluster",
    "cluster-id",
    "cluster-name",
    "config",
    "context",
    "debug",
    "endpoint",
    "environment",
    "file",
    "format",
    "grant-type",
    "help",
    "host",
    "issuer-url",
    "kubeconfig",
    "location",
    "login",
    "name",
    "namespace",
    "output",
    "port",
    "profile",
    "project",
    "quiet",
    "region",
    "role",
    "role-arn",
    "scope",
    "server-id",
    "tenant-id",
    "timeout",
    "url",
    "verbose",
    "version",
    "zone",
];

/// Common values of format and boolean flags.
const PLAIN_VALUES: [&str; 13] =
    ["json", "yaml", "text", "table", "raw", "wide", "name", "tsv", "none", "true", "false", "yes", "no"];

/// Flags with a user name and perhaps a password as value: `--user ada:hunter2`.
const USER_FLAGS: [&str; 6] = ["user", "username", "proxy-user", "basic-auth", "creds", "login"];

/// Returns the arguments of a program without secrets: values of flags and variables with [secret
/// names](is_secret_name), values of one-letter flags that may be passwords, values that look random, and everything
/// that [`redact`](super::redact) removes from text.
///
/// ```
/// let args = ["eks", "get-token", "-p", "hunter2", "VAULT_TOKEN=abc", "--region=eu-west-1"].map(String::from);
/// let shown = ["eks", "get-token", "-p", "[redacted]", "VAULT_TOKEN=[redacted]", "--region=eu-west-1"];
/// assert_eq!(credlet_api::redact_args(&args), shown);
/// ```
pub fn redact_args(args: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(args.len());
    let mut next = NextArg::Anything;
    for arg in args {
        let (text, follows) = ArgKind::of(arg, next).shown(arg);
        shown.push(text);
        next = follows;
    }
    shown
}

/// What an argument implies for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextArg {
    Anything,
    /// The value of a flag with a secret name.
    Secret,
    /// The value of a flag of one letter.
    MaybeSecret,
    /// A name, and perhaps a password.
    User,
}

enum ArgKind<'a> {
    Value(NextArg),
    /// `--name` or `-name`.
    Flag(&'a str),
    /// `-x`, with a value or other flags attached.
    Letter(u8),
    /// `--name=value`, `NAME=value`, with the length of all before the value.
    Assigned {
        name: &'a str,
        lead: usize,
    },
}

impl<'a> ArgKind<'a> {
    fn of(arg: &'a str, next: NextArg) -> Self {
        let name = arg.trim_start_matches('-');
        let dashes = arg.len() - name.len();
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let assigned = name.split_once('=').map(|(name, _)| name).filter(|name| is_name(name));
        match (dashes, assigned) {
            // A value may start with a dash if it does not look like a flag.
            (0, _) if next != NextArg::Anything => Self::Value(next),
            (_, Some(name)) if dashes != 1 || is_known(name) => Self::Assigned { name, lead: dashes + name.len() + 1 },
            (0, _) => Self::Value(next),
            (1, _) if is_known(name) && name.len() > 1 => Self::Flag(name),
            (1, _) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => Self::Letter(name.as_bytes()[0]),
            (2.., None) if is_name(name) => Self::Flag(name),
            // `-`, `--`, `-5`.
            _ if name.is_empty() => Self::Value(NextArg::Anything),
            _ => Self::Value(next),
        }
    }

    fn shown(&self, arg: &str) -> (String, NextArg) {
        match self {
            Self::Value(next) => (value(arg, *next), NextArg::Anything),
            Self::Flag(name) if is_secret_name(name) => (arg.to_owned(), NextArg::Secret),
            Self::Flag(name) if USER_FLAGS.contains(name) => (arg.to_owned(), NextArg::User),
            Self::Flag(_) => (arg.to_owned(), NextArg::Anything),
            Self::Letter(letter) => {
                let next = if PLAIN_LETTERS.contains(letter) { NextArg::Anything } else { NextArg::MaybeSecret };
                match &arg[2..] {
                    "" => (arg.to_owned(), next),
                    attached => {
                        let attached = attached
                            .strip_prefix('=')
                            .map_or_else(|| value(attached, next), |attached| format!("={}", value(attached, next)));
                        (format!("{}{attached}", &arg[..2]), NextArg::Anything)
                    }
                }
            }
            Self::Assigned { name, lead } => {
                let next = match *name {
                    name if is_secret_name(name) => NextArg::Secret,
                    name if USER_FLAGS.contains(&name) => NextArg::User,
                    _ => NextArg::Anything,
                };
                (format!("{}{}", &arg[..*lead], value(&arg[*lead..], next)), NextArg::Anything)
            }
        }
    }
}

fn is_known(name: &str) -> bool {
    PLAIN_NAMES.contains(&name) || (name.len() > 2 && is_secret_name(name))
}

fn value(text: &str, next: NextArg) -> String {
    let hide = match next {
        NextArg::Secret => !text.is_empty(),
        // A verbosity is one digit.
        NextArg::MaybeSecret => text.len() > 1 && !PLAIN_VALUES.contains(&text),
        NextArg::User => text.contains(':') && !text.contains("://"),
        NextArg::Anything => false,
    };
    // The path of a URL may contain a random identifier; `redact` handles the other parts.
    let is_address = text.contains("://") || text.starts_with("pkcs11:") || text.starts_with("arn:");
    if hide || (!is_address && shape::is_random(text)) { REDACTED.to_owned() } else { redact_query(&redact(text, [])) }
}

/// Redacts random values in the query of a URL.
fn redact_query(text: &str) -> String {
    let Some((base, query)) = text.split_once('?').filter(|(base, _)| base.contains("://")) else {
        return text.to_owned();
    };
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some((name, value)) if shape::is_random(value) => format!("{name}={REDACTED}"),
        _ => part.to_owned(),
    });
    format!("{base}?{}", parts.collect::<Vec<_>>().join("&"))
}
