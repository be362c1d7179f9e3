//! The table of TCP sockets of macOS, the value of `sysctl net.inet.tcp.pcblist64`, which every user may read.
//!
//! It consists of records that begin with their length: a `struct xinpgen`, a `struct xtcpcb64` for each socket, and another
//! `xinpgen`. The structures are declared in `netinet/in_pcb.h`, `netinet/tcp_var.h` and `sys/socketvar.h`, with an
//! alignment of four bytes.

use std::net::{IpAddr, SocketAddr};

use crate::peer::PeerOwner;

/// Size of `struct xinpgen`.
const XINPGEN_LEN: usize = 24;

/// Offsets in `struct xtcpcb64`: `inp_fport` and `inp_lport` in network byte order, `inp_vflag`, `inp_dependfaddr` and
/// `inp_dependladdr`.
const REMOTE_PORT: usize = 20;
const LOCAL_PORT: usize = 22;
const FAMILY: usize = 96;
const REMOTE_ADDRESS: usize = 100;
const LOCAL_ADDRESS: usize = 116;
/// `struct xsocket64` in it: `xso_len`, `so_state` and `so_uid`, which is the last field.
const SOCKET: usize = 148;
const SOCKET_LEN: u32 = 108;
const SOCKET_STATE: usize = SOCKET + 18;
const SOCKET_UID: usize = SOCKET + 104;

/// `INP_IPV4`. The address is then in the last four of its sixteen bytes.
const IPV4: u8 = 1;
/// `SS_NOFDREF`: the process has closed the socket.
const NO_FD: u16 = 1;

/// Returns address and owner of each socket that is connected to `local`, which is not an IPv4 address in IPv6 form. `None` if the
/// table has another layout.
pub(crate) fn connected_to(local: SocketAddr, table: &[u8]) -> Option<Vec<(SocketAddr, PeerOwner)>> {
    let mut found = Vec::new();
    let mut rest = table.get(XINPGEN_LEN..)?;
    loop {
        let length = usize::try_from(word(rest, 0)?).ok()?;
        if length == XINPGEN_LEN {
            return Some(found);
        }
        let record = rest.get(..length)?;
        let (remote_address, owner) = (address(record, REMOTE_ADDRESS, REMOTE_PORT)?, owner(record)?);
        if remote_address == local {
            found.push((address(record, LOCAL_ADDRESS, LOCAL_PORT)?, owner));
        }
        rest = rest.get(length..)?;
    }
}

fn owner(record: &[u8]) -> Option<PeerOwner> {
    let state = u16::from_ne_bytes(record.get(SOCKET_STATE..SOCKET_STATE + 2)?.try_into().ok()?);
    let uid = word(record, SOCKET_UID)?;
    match word(record, SOCKET)? {
        // No socket is left.
        0 => Some(PeerOwner::Closed),
        SOCKET_LEN if state & NO_FD != 0 => Some(PeerOwner::Closed),
        SOCKET_LEN => Some(PeerOwner::User(uid)),
        _ => None,
    }
}

fn address(record: &[u8], ip: usize, port: usize) -> Option<SocketAddr> {
    let bytes: [u8; 16] = record.get(ip..ip + 16)?.try_into().ok()?;
    let port = u16::from_be_bytes(record.get(port..port + 2)?.try_into().ok()?);
    let [.., a, b, c, d] = bytes;
    let is_ipv4 = record.get(FAMILY)? & IPV4 != 0;
    let ip = if is_ipv4 { IpAddr::from([a, b, c, d]) } else { IpAddr::from(bytes).to_canonical() };
    Some(SocketAddr::new(ip, port))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of `struct xtcpcb64`.
    const RECORD_LEN: usize = 472;

    fn record(from: &str, to: &str, uid: u32, state: u16) -> Vec<u8> {
        let mut record = vec![0; RECORD_LEN];
        record[..4].copy_from_slice(&(RECORD_LEN as u32).to_ne_bytes());
        for (address, ip, port) in [(from, LOCAL_ADDRESS, LOCAL_PORT), (to, REMOTE_ADDRESS, REMOTE_PORT)] {
            let address: SocketAddr = address.parse().unwrap();
            record[port..port + 2].copy_from_slice(&address.port().to_be_bytes());
            match address.ip() {
                IpAddr::V4(v4) => {
                    record[FAMILY] = IPV4;
                    record[ip + 12..ip + 16].copy_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    record[FAMILY] = 2;
                    record[ip..ip + 16].copy_from_slice(&v6.octets());
                }
            }
        }
        record[SOCKET..SOCKET + 4].copy_from_slice(&SOCKET_LEN.to_ne_bytes());
        record[SOCKET_STATE..SOCKET_STATE + 2].copy_from_slice(&state.to_ne_bytes());
        record[SOCKET_UID..SOCKET_UID + 4].copy_from_slice(&uid.to_ne_bytes());
        record
    }

    fn table(records: &[Vec<u8>]) -> Vec<u8> {
        let mut end = vec![0; XINPGEN_LEN];
        end[..4].copy_from_slice(&(XINPGEN_LEN as u32).to_ne_bytes());
        [end.clone(), records.concat(), end].concat()
    }

    #[test]
    fn finds_peers_of_the_address() {
        let local: SocketAddr = "127.0.0.1:8443".parse().unwrap();
        let table = table(&[
            // Our own end, and a connection to the same port of another address.
            record("127.0.0.1:8443", "127.0.0.1:50000", 501, 2),
            record("127.0.0.1:50009", "127.0.0.2:8443", 503, 2),
            record("127.0.0.1:50000", "127.0.0.1:8443", 501, 2),
            record("[::ffff:127.0.0.1]:50001", "[::ffff:127.0.0.1]:8443", 502, 2),
            record("127.0.0.1:50002", "127.0.0.1:8443", 501, 2 | NO_FD),
        ]);
        let found = connected_to(local, &table).unwrap();
        let expected = [(50000, PeerOwner::User(501)), (50001, PeerOwner::User(502)), (50002, PeerOwner::Closed)];
        assert_eq!(found, expected.map(|(port, owner)| (SocketAddr::new(local.ip(), port), owner)));
        let local: SocketAddr = "[::1]:8443".parse().unwrap();
        assert_eq!(connected_to(local, &table), Some(Vec::new()));
    }

    #[test]
    fn unknown_layout_has_no_owners() {
        let local: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let good = record("127.0.0.1:2", "127.0.0.1:1", 501, 2);
        let whole = table(std::slice::from_ref(&good));
        for length in 0..whole.len() - XINPGEN_LEN {
            assert_eq!(connected_to(local, &whole[..length]), None, "{length}");
        }
        let mut other = good;
        other[SOCKET] += 4;
        assert_eq!(connected_to(local, &table(&[other.clone()])), None);
        other[..4].fill(0);
        assert_eq!(connected_to(local, &table(&[other])), None);
    }
}
