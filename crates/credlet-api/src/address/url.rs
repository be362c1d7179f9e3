//! URLs by the rules of Go's `net/url`. Kubeconfigs and proxy variables are written for Go programs, so what Go rejects
//! is rejected here, and what Go accepts is parsed to the same parts.

use std::net::Ipv6Addr;

use zeroize::Zeroizing;

use crate::percent_decode;

/// A parsed URL. It does not implement `Debug`, because the user info may hold a password.
#[derive(Default)]
pub struct GoUrl<'a> {
    pub(super) scheme: String,
    /// Everything before the last `@`, percent-encoded.
    pub(super) user: Option<&'a str>,
    /// Without brackets. Empty for a URL without `//`.
    pub(super) host: String,
    /// Digits, or empty.
    pub(super) port: &'a str,
    /// Host and port as written.
    authority: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    fragment: &'a str,
}

impl<'a> GoUrl<'a> {
    /// Parses as Go's `url.Parse`. Returns `None` where that returns an error.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        percent_decode(fragment)?;
        Some(Self { fragment, ..Self::parse_request(text)? })
    }

    /// Parses as Go's `url.ParseRequestURI`: there is no fragment, `#` is part of the path.
    pub fn parse_request(text: &'a str) -> Option<Self> {
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), path: rest, query, ..Self::default() };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                return Some(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return None;
            }
        }
        let has_authority = !scheme.is_empty() || !rest.starts_with("///");
        if let Some(rest) = rest.strip_prefix("//").filter(|_| has_authority) {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (url.user, url.authority) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            url.path = path;
            (url.host, url.port) = host_and_port(&url.scheme, url.authority)?;
        }
        let valid = url.user.is_none_or(is_user_info) && percent_decode(url.path).is_some();
        valid.then_some(url)
    }

    /// The scheme in lower case; empty if there is none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The host without brackets; empty for a URL without `//`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port: digits, or empty.
    pub fn port(&self) -> &str {
        self.port
    }

    /// Whether the path is longer than a slash.
    pub fn has_path(&self) -> bool {
        percent_decode(self.path).is_some_and(|path| path.len() > 1)
    }

    /// The URL without its query.
    #[must_use]
    pub fn without_query(self) -> Self {
        // client-go clears `RawQuery` but not `ForceQuery`, so a question mark with nothing behind it stays.
        Self { query: self.query.filter(|query| query.is_empty()), ..self }
    }

    /// Formats as Go's `URL.String`, which is what plugins receive. For a URL with a host.
    pub fn format(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(format!("{}://", self.scheme));
        if let Some(user) = self.user {
            for (index, part) in user.splitn(2, ':').enumerate() {
                text.push_str(if index > 0 { ":" } else { "" });
                text.push_str(&escaped(part, "-._~$&+,;="));
            }
            text.push('@');
        }
        text.push_str(&escaped(self.authority, "-_.~!$&'()*+,;=:[]<>\""));
        text.push_str(&escape_unless_valid(self.path, "-._~$&+,/:;=@", "!'()*[]%"));
        if let Some(query) = self.query {
            text.push('?');
            text.push_str(query);
        }
        if !self.fragment.is_empty() {
            text.push('#');
            text.push_str(&escape_unless_valid(self.fragment, "-._~!$&()*+,/:;=?@", "'[]%"));
        }
        text
    }
}

/// Percent-encodes again; letters, digits and the characters of `plain` stay.
fn escaped(text: &str, plain: &str) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::new());
    for &byte in percent_decode(text).unwrap_or_default().iter() {
        if byte.is_ascii_alphanumeric() || plain.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The same, but returns the text unchanged if it consists of letters, digits, `plain` and `others`.
fn escape_unless_valid(text: &str, plain: &str, others: &str) -> Zeroizing<String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || plain.contains(c) || others.contains(c);
    if text.chars().all(valid) { text.to_owned().into() } else { escaped(text, plain) }
}

/// Splits off the scheme.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(text.len());
    match text[end..].strip_prefix(':') {
        Some(_) if end == 0 => None,
        Some(rest) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => Some((&text[..end], rest)),
        _ => Some(("", text)),
    }
}

fn host_and_port<'a>(scheme: &str, authority: &'a str) -> Option<(String, &'a str)> {
    if let Some(open) = authority.rfind('[') {
        let (address, port) = authority.get(1..)?.rsplit_once(']').filter(|_| open == 0)?;
        return Some((ipv6(address)?, digits(port)?));
    }
    // For http and https Go rejects a second colon; for other schemes the last one counts.
    let web = matches!(scheme, "http" | "https");
    let colon = if web { authority.find(':') } else { authority.rfind(':') };
    let (host, port) = authority.split_at(colon.unwrap_or(authority.len()));
    let port = digits(port)?;
    Some((host_name(host)?, port))
}

/// An IPv6 address, optionally with a zone behind `%25` (RFC 6874).
fn ipv6(text: &str) -> Option<String> {
    let (address, zone) = text.split_at(text.find("%25").unwrap_or(text.len()));
    let address = host_name(address)?;
    address.parse::<Ipv6Addr>().ok()?;
    let valid = |byte: u8| is_host_byte(byte) || byte == b' ';
    let zone = percent_decode(zone).filter(|zone| **zone != b"%" && zone.iter().copied().all(valid))?;
    (!text.contains(' ')).then(|| address + &String::from_utf8_lossy(&zone))
}

/// The port behind the host: empty, or a colon and digits.
fn digits(port: &str) -> Option<&str> {
    if port.is_empty() {
        return Some(port);
    }
    port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// In a host only the percent sign and non-ASCII bytes may be percent-encoded.
fn host_name(text: &str) -> Option<String> {
    let plain = text.bytes().all(|byte| !byte.is_ascii() || is_host_byte(byte));
    let escaped = |text: &str| text.starts_with("25") || !text.starts_with(|c: char| matches!(c, '0'..='7'));
    let text = Some(text).filter(|text| plain && text.split('%').skip(1).all(escaped))?;
    Some(String::from_utf8_lossy(&percent_decode(text)?).into_owned())
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
}

fn is_user_info(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte))
        && percent_decode(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scheme|user|host|port`, or `-`.
    fn read(text: &str) -> String {
        GoUrl::parse(text).map_or("-".to_owned(), |GoUrl { scheme, user, host, port, .. }| {
            format!("{scheme}|{}|{host}|{port}", user.unwrap_or_default())
        })
    }

    #[test]
    fn parses_what_go_parses() {
        for (text, wanted) in [
            ("HTTPS://Host:6443/a?b#c", "https||Host|6443"),
            ("http://u:p%40@h:", "http|u:p%40|h|"),
            ("http://u@p@h", "http|u@p|h|"),
            ("http://[2001:db8::1]:80", "http||2001:db8::1|80"),
            ("http://[fe80::1%25eth0]", "http||fe80::1%eth0|"),
            ("http://[fe80::1%25%41%20b]", "http||fe80::1%A b|"),
            ("http://b%C3%BCcher", "http||bücher|"),
            ("socks5://a:b:1", "socks5||a:b|1"),
            ("y:+", "y|||"),
            ("host:80", "host|||"),
            ("host", "|||"),
            ("//host/x", "||host|"),
            ("///x", "|||"),
            ("http:///x", "http|||"),
            ("", "|||"),
            ("http://h/#\n", "http||h|"),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn rejects_what_go_rejects() {
        for text in [
            "://h",
            "1.2.3.4:80",
            "a_b:80",
            "http://[1]",
            "http://[1.2.3.4]",
            "http://[::1",
            "http://x[::1]",
            "http://[::1]x",
            "http://[::1%25]",
            "http://a:b:1",
            "http://::1",
            "http://h:+1",
            "http://h:x",
            "http://a b",
            "http://a%20b",
            "http://a%zz",
            "http://h/%zz",
            "http://h#%zz",
            "http://u%zz@h",
            "http://u x@h",
            "http://h/\n",
        ] {
            assert_eq!(read(text), "-", "{text}");
        }
    }

    #[test]
    fn formats_as_go_does() {
        for (text, wanted) in [
            ("HTTP://Host:080", "http://Host:080"),
            ("http://h:", "http://h:"),
            ("http://u@v:p:q!@h", "http://u%40v:p%3Aq%21@h"),
            ("http://:@h", "http://:@h"),
            ("http://[fe80::1%25eth0]:1/", "http://[fe80::1%25eth0]:1/"),
            ("http://\u{fc}.example", "http://%C3%BC.example"),
            ("http://h/a b", "http://h/a%20b"),
            ("http://h/(a)%7e[b]", "http://h/(a)%7e[b]"),
            ("http://h/(a)\"", "http://h/%28a%29%22"),
            ("http://h?", "http://h?"),
            ("http://h?a b#", "http://h?a b"),
            ("http://h#a b", "http://h#a%20b"),
        ] {
            assert_eq!(&*GoUrl::parse(text).unwrap().format(), wanted, "{text}");
        }
        assert_eq!(&*GoUrl::parse_request("https://h/a#b?c").unwrap().without_query().format(), "https://h/a%23b");
        assert_eq!(&*GoUrl::parse_request("https://h/a?").unwrap().without_query().format(), "https://h/a?");
    }
}
