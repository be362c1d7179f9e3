//! Owner of a loopback TCP connection.

use std::collections::HashMap;
use std::net::SocketAddr;

/// The user at the other end of a loopback TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerOwner {
    /// The connection belongs to a process of this user id.
    User(u32),
    /// The peer has closed its socket, so the owner is no longer known. Treat it as another user.
    Closed,
    /// Not supported on this system.
    Unknown,
}

impl PeerOwner {
    /// Whether the connection may come from the effective user: its owner is that user or root, or unknown.
    pub fn may_be_this_user(self) -> bool {
        match self {
            Self::User(uid) => uid == 0 || uid == rustix::process::geteuid().as_raw(),
            Self::Closed => false,
            Self::Unknown => true,
        }
    }
}

/// Looks up the owner of the socket at `remote` that is connected to our socket at `local`, both on this machine and in the
/// same network namespace.
///
/// On Linux, queries the kernel with `SOCK_DIAG`, or reads `/proc/net/tcp` and `/proc/net/tcp6`; on macOS, reads
/// `sysctl net.inet.tcp.pcblist64`. Without any of them the result is [`PeerOwner::Unknown`]. Call it while the connection is
/// open: the kernel reports no useful owner for a socket that its process has closed.
pub fn tcp_peer_owner(local: SocketAddr, remote: SocketAddr) -> PeerOwner {
    if let Some(owner) = query_tcp_peer_owner(local, remote) {
        return owner;
    }
    match tcp_peer_owners(local) {
        Some(owners) => owners.get(&normalize(remote)).copied().unwrap_or(PeerOwner::Closed),
        None => PeerOwner::Unknown,
    }
}

/// Like [`tcp_peer_owner`], without the fallback to a table of all sockets: does not block and takes some microseconds, where
/// the tables take milliseconds or more. Returns `None` if the system does not support the query.
pub fn query_tcp_peer_owner(local: SocketAddr, remote: SocketAddr) -> Option<PeerOwner> {
    #[cfg(target_os = "linux")]
    return crate::sock_diag::peer_owner(local, remote);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (local, remote);
        None
    }
}

/// Returns the owners of all sockets that are connected to our socket at `local`, by address (IPv4 addresses never in IPv6
/// form). `None` if the system does not support it.
///
/// The kernel generates the table in pieces, so a row may be missing while other connections open and close.
pub fn tcp_peer_owners(local: SocketAddr) -> Option<HashMap<SocketAddr, PeerOwner>> {
    let mut owners = HashMap::new();
    for (remote, owner) in connected_sockets(normalize(local))? {
        // A closed connection may have had the same addresses as an open one.
        if owners.get(&remote).is_none_or(|known| *known == PeerOwner::Closed) {
            owners.insert(remote, owner);
        }
    }
    Some(owners)
}

/// Address and owner of each socket that is connected to `local`.
#[cfg(target_os = "macos")]
fn connected_sockets(local: SocketAddr) -> Option<Vec<(SocketAddr, PeerOwner)>> {
    let table = crate::macos::sysctl_bytes(c"net.inet.tcp.pcblist64").ok()?;
    crate::tcp_pcblist::connected_to(local, &table)
}

/// Address and owner of each socket that is connected to `local`.
#[cfg(not(target_os = "macos"))]
fn connected_sockets(local: SocketAddr) -> Option<Vec<(SocketAddr, PeerOwner)>> {
    // Without IPv6 the second table is missing.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    if tables.iter().all(Result::is_err) {
        return None;
    }
    let rows = tables.iter().flatten().flat_map(|table| table.lines().skip(1));
    Some(rows.filter_map(|row| parse_row(row, local)).collect())
}

/// Columns of `/proc/net/tcp`: `sl local_address rem_address st tx:rx tr:tm->when retrnsmt uid timeout inode …`. Returns the
/// socket's address and owner if it is connected to `local`.
#[cfg(not(target_os = "macos"))]
fn parse_row(row: &str, local: SocketAddr) -> Option<(SocketAddr, PeerOwner)> {
    let mut columns = row.split_ascii_whitespace();
    let (from, to) = (columns.nth(1)?, columns.next()?);
    if parse_address(to)? != local {
        return None;
    }
    let (uid, inode) = (columns.nth(4)?.parse().ok()?, columns.nth(1)?);
    Some((parse_address(from)?, if inode == "0" { PeerOwner::Closed } else { PeerOwner::User(uid) }))
}

/// Converts IPv4-mapped IPv6 addresses to IPv4: the IPv6 table lists dual-stack clients.
fn normalize(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Parses `0100007F:1F40`: 32-bit groups in host byte order, then the port, all in hexadecimal.
#[cfg(not(target_os = "macos"))]
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |start: usize| u32::from_str_radix(ip.get(start..start + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => std::net::IpAddr::from(word(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index * 8)?);
            }
            std::net::IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some(normalize(SocketAddr::new(ip, port)))
}

#[cfg(test)]
#[cfg(any(target_os = "linux", target_os = "macos"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn owner_of_own_connection(bind: &str) -> Option<PeerOwner> {
        let listener = TcpListener::bind(bind).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, remote) = listener.accept().unwrap();
        let local = accepted.local_addr().unwrap();
        let owner = tcp_peer_owner(local, remote);
        // Both methods agree.
        assert_eq!(tcp_peer_owners(local).unwrap()[&remote], owner);
        assert!(query_tcp_peer_owner(local, remote).is_none_or(|queried| queried == owner));
        drop(client);
        Some(owner)
    }

    #[test]
    fn own_connection_is_this_users() {
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(owner_of_own_connection("127.0.0.1:0"), Some(PeerOwner::User(uid)));
        // Not every machine has IPv6.
        if let Some(owner) = owner_of_own_connection("[::1]:0") {
            assert_eq!(owner, PeerOwner::User(uid));
        }
    }

    #[test]
    fn closed_peer_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, remote) = listener.accept().unwrap();
        drop(client);
        let owner = tcp_peer_owner(accepted.local_addr().unwrap(), remote);
        assert_eq!(owner, PeerOwner::Closed);
        assert!(!owner.may_be_this_user());
    }

    #[test]
    fn owners_of_all_peers_are_listed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let clients = [TcpStream::connect(local).unwrap(), TcpStream::connect(local).unwrap()];
        let owners = tcp_peer_owners(local).unwrap();
        for client in &clients {
            let uid = rustix::process::geteuid().as_raw();
            assert_eq!(owners.get(&client.local_addr().unwrap()), Some(&PeerOwner::User(uid)));
        }
        // The listener itself and our own ends are not among them.
        assert_eq!(owners.len(), clients.len());
    }

    // The format of `/proc/net/tcp`.
    #[cfg(target_os = "linux")]
    #[test]
    fn addresses_are_parsed_in_host_byte_order() {
        if cfg!(target_endian = "little") {
            assert_eq!(parse_address("0100007F:1F40"), Some("127.0.0.1:8000".parse().unwrap()));
            let mapped = "0000000000000000FFFF00000100007F:1F40";
            assert_eq!(parse_address(mapped), Some("127.0.0.1:8000".parse().unwrap()));
            let v6 = "00000000000000000000000001000000:0050";
            assert_eq!(parse_address(v6), Some("[::1]:80".parse().unwrap()));
        }
        assert_eq!(parse_address("xyz"), None);
        assert_eq!(parse_address("é100007:1F40"), None);
    }
}
