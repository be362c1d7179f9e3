//! Host and path of a registry, parsed like Go's `net/url`, which the kubelet uses.
//!
//! A WHATWG URL parser does not fit: it lower-cases hosts, rejects `*` and `_`, drops default ports and normalises paths, so that
//! patterns would match other images than in the kubelet.

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Host and path of `https://` followed by a text. User, query and fragment are dropped, as by the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistryLocation<'a> {
    /// Host with port, percent-decoded to bytes as in Go.
    pub(crate) host: Cow<'a, [u8]>,
    /// Percent-decoded path with a leading `/`, or empty.
    pub(crate) path: Cow<'a, [u8]>,
}

/// Invalid registry location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// The text contains a control character.
    #[error("invalid control character")]
    Control,
    /// A `%` is not followed by two hexadecimal digits, or the escape is not allowed in a host.
    #[error("invalid percent escape")]
    Escape,
    /// The host has a character that is not allowed.
    #[error("invalid character {0:?} in the host")]
    HostCharacter(char),
    /// The port is not a number.
    #[error("invalid port: not a number")]
    Port,
    /// Brackets do not enclose an IPv6 address.
    #[error("invalid brackets: not an IPv6 address")]
    Brackets,
    /// The user name before `@` has a character that is not allowed.
    #[error("invalid user name before `@`")]
    User,
}

impl<'a> RegistryLocation<'a> {
    /// Parses `https://` followed by `text`. Borrows parts without escapes.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, LocationError> {
        let (text, fragment) = cut(text, b'#');
        unescape(fragment, UrlPart::Other)?;
        if text.iter().any(u8::is_ascii_control) {
            return Err(LocationError::Control);
        }
        let (text, _query) = cut(text, b'?');
        let slash = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
        let (authority, path) = text.split_at(slash);
        let host = match authority.iter().rposition(|byte| *byte == b'@') {
            Some(at) => {
                check_user(&authority[..at])?;
                &authority[at + 1..]
            }
            None => authority,
        };
        Ok(Self { host: parse_host(host)?, path: unescape(path, UrlPart::Other)? })
    }

    pub(crate) fn into_owned(self) -> RegistryLocation<'static> {
        RegistryLocation { host: self.host.into_owned().into(), path: self.path.into_owned().into() }
    }

    /// Splits host and port like Go's `net.SplitHostPort`. If that fails, returns the whole text as the host.
    pub(crate) fn host_and_port(&self) -> (&[u8], &[u8]) {
        split_host_port(&self.host).unwrap_or((&self.host, b""))
    }
}

fn cut(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == at) {
        Some(index) => (&text[..index], &text[index + 1..]),
        None => (text, b""),
    }
}

fn check_user(user: &[u8]) -> Result<(), LocationError> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !user.iter().all(allowed) {
        return Err(LocationError::User);
    }
    unescape(user, UrlPart::Other).map(drop)
}

fn parse_host(host: &[u8]) -> Result<Cow<'_, [u8]>, LocationError> {
    match host.iter().rposition(|byte| *byte == b'[') {
        Some(0) => return parse_ip_literal(host).map(Cow::Owned),
        Some(_) => return Err(LocationError::Brackets),
        None => {}
    }
    // `check_port` rejects a second colon.
    let colon = host.iter().position(|byte| *byte == b':').unwrap_or(host.len());
    check_port(&host[colon..])?;
    unescape(host, UrlPart::Host)
}

fn parse_ip_literal(host: &[u8]) -> Result<Vec<u8>, LocationError> {
    let close = host.iter().rposition(|byte| *byte == b']').ok_or(LocationError::Brackets)?;
    check_port(&host[close + 1..])?;
    let inside = &host[1..close];
    let zone = inside.windows(3).position(|window| window == b"%25").unwrap_or(inside.len());
    let mut address = unescape(&inside[..zone], UrlPart::Host)?.into_owned();
    let is_ipv6 = std::str::from_utf8(&address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok());
    let zone = unescape(&inside[zone..], UrlPart::Zone)?;
    // A zone is `%` and at least one character.
    if !is_ipv6 || zone.len() == 1 {
        return Err(LocationError::Brackets);
    }
    address.extend_from_slice(&zone);
    Ok([b"[", &address[..], b"]", &host[close + 1..]].concat())
}

fn check_port(port: &[u8]) -> Result<(), LocationError> {
    match port {
        [] => Ok(()),
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => Ok(()),
        _ => Err(LocationError::Port),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlPart {
    Host,
    Zone,
    Other,
}

fn unescape(text: &[u8], part: UrlPart) -> Result<Cow<'_, [u8]>, LocationError> {
    let check = |byte: u8| match part == UrlPart::Other || !byte.is_ascii() || may_be_in_host(byte) {
        true => Ok(()),
        false => Err(LocationError::HostCharacter(char::from(byte))),
    };
    if !text.contains(&b'%') {
        text.iter().try_for_each(|byte| check(*byte))?;
        return Ok(Cow::Borrowed(text));
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        if *first != b'%' {
            check(*first)?;
            plain.push(*first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return Err(LocationError::Escape) };
        let (Some(high), Some(low)) = (hex(*high), hex(*low)) else { return Err(LocationError::Escape) };
        let byte = high << 4 | low;
        let allowed = match part {
            // Only non-ASCII bytes and `%` itself.
            UrlPart::Host => !byte.is_ascii() || byte == b'%',
            UrlPart::Zone => byte == b'%' || byte == b' ' || may_be_in_host(byte),
            UrlPart::Other => true,
        };
        if !allowed {
            return Err(LocationError::Escape);
        }
        plain.push(byte);
        rest = after;
    }
    Ok(Cow::Owned(plain))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn may_be_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

fn split_host_port(host_port: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = host_port.iter().rposition(|byte| *byte == b':')?;
    let (host, after) = if host_port.first() == Some(&b'[') {
        let close = host_port.iter().position(|byte| *byte == b']')?;
        if close + 1 != colon {
            return None;
        }
        (&host_port[1..close], &host_port[colon..])
    } else {
        (&host_port[..colon], host_port)
    };
    let plain = !host.contains(&b'[') && !after.contains(&b'[') && !after.contains(&b']');
    let bracketed = host_port.first() == Some(&b'[');
    (plain && (bracketed || !host.contains(&b':'))).then_some((host, &host_port[colon + 1..]))
}
