//! Web addresses as Go reads them. Kubeconfigs and variables are written for Go: what it refuses, or takes for something
//! else, must be refused or taken so here.

use std::net::Ipv6Addr;

use zeroize::Zeroizing;

/// A scheme, who is found where, and the rest, which is looked at for whether it can be an address at all.
// Not `Debug`: there may be a password in it.
#[derive(Default)]
pub(crate) struct Url<'a> {
    /// In lower case; empty if there is none.
    pub(super) scheme: String,
    /// Before the last `@`, still with its escapes.
    pub(super) user: Option<&'a str>,
    /// Without brackets. Empty for what has no `//`.
    pub(super) host: String,
    /// Digits, or nothing.
    pub(super) port: &'a str,
    /// Host and port as they stand there.
    place: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    fragment: &'a str,
}

impl<'a> Url<'a> {
    /// `None` where Go's `url.Parse` is an error.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        unescaped(fragment)?;
        Some(Self { fragment, ..Self::parse_request(text)? })
    }

    /// The same for an address that has no fragment: `#` is a character of its path.
    pub(crate) fn parse_request(text: &'a str) -> Option<Self> {
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
            (url.user, url.place) = match authority.rsplit_once('@') {
                Some((user, place)) => (Some(user), place),
                None => (None, authority),
            };
            url.path = path;
            (url.host, url.port) = host_and_port(&url.scheme, url.place)?;
        }
        let fine = url.user.is_none_or(is_user_info) && unescaped(url.path).is_some();
        fine.then_some(url)
    }

    /// Whether there is more of a path than a slash.
    pub(crate) fn has_path(&self) -> bool {
        unescaped(self.path).is_some_and(|path| path.len() > 1)
    }

    /// Without what stands behind the question mark.
    #[must_use]
    pub(crate) fn without_query(self) -> Self {
        // Go forgets to take away a question mark behind which nothing stands.
        Self { query: self.query.filter(|query| query.is_empty()), ..self }
    }

    /// As Go writes it, which is what plugins see. For an address with a host.
    pub(crate) fn written(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(format!("{}://", self.scheme));
        if let Some(user) = self.user {
            for (index, part) in user.splitn(2, ':').enumerate() {
                text.push_str(if index > 0 { ":" } else { "" });
                text.push_str(&escaped(part, "-._~$&+,;="));
            }
            text.push('@');
        }
        text.push_str(&escaped(self.place, "-_.~!$&'()*+,;=:[]<>\""));
        text.push_str(&unless_fine(self.path, "-._~$&+,/:;=@", "!'()*[]%"));
        if let Some(query) = self.query {
            text.push('?');
            text.push_str(query);
        }
        if !self.fragment.is_empty() {
            text.push('#');
            text.push_str(&unless_fine(self.fragment, "-._~!$&()*+,/:;=?@", "'[]%"));
        }
        text
    }
}

/// Escaped anew, with these characters and letters and digits left as they are.
fn escaped(text: &str, plain: &str) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::new());
    for &byte in unescaped(text).unwrap_or_default().iter() {
        if byte.is_ascii_alphanumeric() || plain.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The same, but left alone if these others are all that is in it besides.
fn unless_fine(text: &str, plain: &str, others: &str) -> Zeroizing<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || plain.contains(c) || others.contains(c);
    if text.chars().all(fine) { text.to_owned().into() } else { escaped(text, plain) }
}

/// What stands before the first colon, if it can be a scheme.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(text.len());
    match text[end..].strip_prefix(':') {
        Some(_) if end == 0 => None,
        Some(rest) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => Some((&text[..end], rest)),
        _ => Some(("", text)),
    }
}

fn host_and_port<'a>(scheme: &str, place: &'a str) -> Option<(String, &'a str)> {
    if let Some(open) = place.rfind('[') {
        let (address, port) = place.get(1..)?.rsplit_once(']').filter(|_| open == 0)?;
        return Some((ipv6(address)?, digits(port)?));
    }
    // A web address has one colon, others have been seen with several.
    let web = matches!(scheme, "http" | "https");
    let colon = if web { place.find(':') } else { place.rfind(':') };
    let (host, port) = place.split_at(colon.unwrap_or(place.len()));
    let port = digits(port)?;
    Some((host_name(host)?, port))
}

/// An address, possibly with the interface that it is on, before which the percent sign is escaped.
fn ipv6(text: &str) -> Option<String> {
    let (address, zone) = text.split_at(text.find("%25").unwrap_or(text.len()));
    let address = host_name(address)?;
    address.parse::<Ipv6Addr>().ok()?;
    let fine = |byte: u8| is_host_byte(byte) || byte == b' ';
    let zone = unescaped(zone).filter(|zone| **zone != b"%" && zone.iter().copied().all(fine))?;
    (!text.contains(' ')).then(|| address + &String::from_utf8_lossy(&zone))
}

/// Behind the host: nothing, or a colon and digits.
fn digits(port: &str) -> Option<&str> {
    if port.is_empty() {
        return Some(port);
    }
    port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// In a host only the percent sign and what is not ASCII may be escaped.
fn host_name(text: &str) -> Option<String> {
    let plain = text.bytes().all(|byte| !byte.is_ascii() || is_host_byte(byte));
    let escaped = |text: &str| text.starts_with("25") || !text.starts_with(|c: char| matches!(c, '0'..='7'));
    let text = Some(text).filter(|text| plain && text.split('%').skip(1).all(escaped))?;
    Some(String::from_utf8_lossy(&unescaped(text)?).into_owned())
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
}

fn is_user_info(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte))
        && unescaped(text).is_some()
}

/// Undoes percent-encoding. `None`: a broken escape.
pub(super) fn unescaped(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let (high, low) = (char::from(rest.next()?).to_digit(16)?, char::from(rest.next()?).to_digit(16)?);
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `scheme|user|host|port`, or `-`.
    fn read(text: &str) -> String {
        Url::parse(text).map_or("-".to_owned(), |Url { scheme, user, host, port, .. }| {
            format!("{scheme}|{}|{host}|{port}", user.unwrap_or_default())
        })
    }

    #[test]
    fn what_go_takes_is_taken_alike() {
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
    fn what_go_refuses_is_refused() {
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
    fn it_is_written_as_go_writes_it() {
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
            assert_eq!(&*Url::parse(text).unwrap().written(), wanted, "{text}");
        }
        assert_eq!(&*Url::parse_request("https://h/a#b?c").unwrap().without_query().written(), "https://h/a%23b");
        assert_eq!(&*Url::parse_request("https://h/a?").unwrap().without_query().written(), "https://h/a?");
    }
}
