//! Parser and matcher for `NO_PROXY`, with the rules of `golang.org/x/net/http/httpproxy`.
//!
//! One difference: Go compares internationalized names in their encoded form. Here an entry must have the same form as the
//! server address.

use std::net::IpAddr;

/// The entries of `NO_PROXY`.
#[derive(Debug, Default)]
pub(super) struct NoProxy {
    all: bool,
    entries: Vec<NoProxyEntry>,
}

#[derive(Debug)]
enum NoProxyEntry {
    /// CIDR block, for all ports.
    Network { address: IpAddr, prefix: u32 },
    /// `None`: all ports.
    Address { address: IpAddr, port: Option<String> },
    /// `suffix` starts with a dot and matches subdomains. `apex`: also matches the domain.
    Domain { suffix: String, apex: bool, port: Option<String> },
}

impl NoProxy {
    /// Parses the list. Invalid entries are ignored, as in Go.
    pub(super) fn parse(list: &str) -> Self {
        let mut entries = Vec::new();
        for item in list.split(',').map(|item| item.trim().to_lowercase()) {
            if item == "*" {
                return Self { all: true, entries };
            }
            entries.extend(NoProxyEntry::parse(&item));
        }
        Self { all: false, entries }
    }

    /// Whether connections to this host bypass the proxy. Those to this machine always do.
    pub(super) fn exempts(&self, host: &str, port: u16) -> bool {
        if host == "localhost" {
            return true;
        }
        // An address may have a zone: fe80::1%eth0.
        let bare = if host.contains(':') { host.split('%').next().unwrap_or(host) } else { host };
        let address = bare.parse().ok().map(|address: IpAddr| address.to_canonical());
        if address.is_some_and(|address| address.is_loopback()) || self.all {
            return true;
        }
        let (host, port) = (host.trim().to_lowercase(), port.to_string());
        self.entries.iter().any(|entry| entry.matches(&host, &port, address))
    }
}

impl NoProxyEntry {
    fn parse(item: &str) -> Option<Self> {
        if let Some(network) = parse_network(item) {
            return Some(network);
        }
        let (host, port) = split_host_port(item).unwrap_or((item, ""));
        let port = Some(port.to_owned()).filter(|port| !port.is_empty());
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address { address: address.to_canonical(), port });
        }
        // `*.example` is equivalent to `.example`.
        let host = if host.starts_with("*.") { &host[1..] } else { host };
        match host.strip_prefix('.') {
            _ if host.is_empty() => None,
            Some(_) => Some(Self::Domain { suffix: host.to_owned(), apex: false, port }),
            None => Some(Self::Domain { suffix: format!(".{host}"), apex: true, port }),
        }
    }

    fn matches(&self, host: &str, at: &str, ip: Option<IpAddr>) -> bool {
        let same_port = |port: &Option<String>| port.as_deref().is_none_or(|port| port == at);
        match self {
            Self::Network { address, prefix } => ip.is_some_and(|ip| masked(ip, *prefix) == Some(*address)),
            Self::Address { address, port } => ip == Some(*address) && same_port(port),
            Self::Domain { suffix, apex, port } => {
                ip.is_none() && (host.ends_with(suffix) || (*apex && host == &suffix[1..])) && same_port(port)
            }
        }
    }
}

/// Parses a CIDR block such as `10.0.0.0/8`. A block of IPv4-mapped IPv6 addresses becomes an IPv4 block.
fn parse_network(item: &str) -> Option<NoProxyEntry> {
    let (address, prefix) = item.split_once('/')?;
    if prefix.is_empty() || !prefix.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let prefix = prefix.parse().ok()?;
    let address = masked(address.parse().ok()?, prefix)?;
    Some(match (address, address.to_canonical()) {
        (IpAddr::V6(_), v4 @ IpAddr::V4(_)) => NoProxyEntry::Network { address: v4, prefix: prefix.saturating_sub(96) },
        _ => NoProxyEntry::Network { address, prefix },
    })
}

/// The first `prefix` bits of an address, or `None` if `prefix` is too large.
fn masked(address: IpAddr, prefix: u32) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(ip) => {
            let rest = 32_u32.checked_sub(prefix)?;
            IpAddr::V4((ip.to_bits() & u32::MAX.checked_shl(rest).unwrap_or(0)).into())
        }
        IpAddr::V6(ip) => {
            let rest = 128_u32.checked_sub(prefix)?;
            IpAddr::V6((ip.to_bits() & u128::MAX.checked_shl(rest).unwrap_or(0)).into())
        }
    })
}

/// Go's `net.SplitHostPort`. Returns `None` without a port, or if the brackets do not match.
fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let stray = |text: &str| text.contains(['[', ']']);
    (!stray(host) && !stray(port)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_hosts_as_go_does() {
        // Made by golang.org/x/net/http/httpproxy: see tests/vectors/no-proxy/README.md.
        let table = include_str!("../tests/vectors/no-proxy/table.tsv");
        let mut rows = 0;
        for row in table.lines().skip(1) {
            let cells: Vec<&str> = row.split('\t').collect();
            let [list, host, port, proxied] = cells[..] else { panic!("{row}") };
            let exempt = NoProxy::parse(list).exempts(host, port.parse().unwrap());
            assert_eq!(exempt, proxied == "direct", "NO_PROXY={list:?} {host} {port}");
            rows += 1;
        }
        assert!(rows > 1000, "{rows}");
    }
}
