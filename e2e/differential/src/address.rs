use fastrand::Rng;

use crate::random::{pick, rarely, text};

/// Generates valid and invalid addresses of proxies and servers.
pub(crate) fn odd(rng: &mut Rng) -> String {
    if rarely(rng, 12) {
        return text(rng);
    }
    let scheme = pick(rng, SCHEMES);
    let user = pick(rng, USERS);
    let host = pick(rng, HOSTS);
    let port = pick(rng, PORTS);
    let path = pick(rng, PATHS);
    format!("{scheme}{user}{host}{port}{path}")
}

const SCHEMES: &[&str] = &[
    "http://",
    "http://",
    "https://",
    "https://",
    "https://",
    "socks5://",
    "socks5h://",
    "",
    "",
    "HTTP://",
    "Https://",
    "ftp://",
    "socks4://",
    "//",
    "///",
    "://",
    "http:",
    "http:/",
    "https:///",
    "h_t://",
    "1://",
    "y:",
    " http://",
];

const USERS: &[&str] =
    &["", "", "", "", "", "u@", "u:p@", "u%40:p%3a@", ":p@", "@", "u x@", "u%zz@", "u@v@", "u%ff@", "ü@"];

const HOSTS: &[&str] = &[
    "host",
    "host",
    "host",
    "host.example",
    "10.9.8.7",
    "[::1]",
    "[2001:db8::9]",
    "[::ffff:1.2.3.4]",
    "[fe80::1%25eth0]",
    "[fe80::1%eth0]",
    "[1]",
    "[1.2.3.4]",
    "[]",
    "[::1",
    "::1]",
    "x[::1]",
    "[::1]x",
    "[::1%25]",
    "[::g]",
    "",
    "a b",
    "a_b",
    "::1",
    "a:b",
    "p%20q",
    "p%zz",
    "p%25q",
    "p%C3%BC",
    "ü.example",
    "HOST",
    "a<b>",
    "a\"b",
    "a\\b",
    "a^b",
    "a|b",
    "a`b",
    "a{b}",
    "a!b",
    "+",
    "*",
    "-",
    ".",
    "host.",
    "%",
    "a\u{7f}b",
    "a\tb",
    "1",
    "0x7f.1",
];

const PORTS: &[&str] = &[
    "", "", "", "", ":3128", ":6443", ":80", ":", ":0", ":65535", ":65536", ":99999", ":x", ":-1", ":+1", ":080",
    ":8 ", "::1", ":%31",
];

const PATHS: &[&str] = &[
    "", "", "", "", "/", "/x", "/a/b/", "?q", "?", "#f", "#", "#%zz", "/%zz", "/%7Ea", " ", "\n", "/a b", "/ü", "/a@b",
    "/a:b", "//x", "?%zz", "/x?y#z", "/\"", "/<", "\\x", "/x\u{1}", "#\u{1}",
];
