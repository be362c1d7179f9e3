//! Lookup of one TCP socket by `NETLINK_SOCK_DIAG`, see sock_diag(7).
//!
//! `/proc/net/tcp` has a row for each socket of the machine. Another user can make it long, and rows can be missing
//! while connections come and go. This lookup takes the same time for any number of sockets.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::peer::PeerOwner;

const NLMSG_ERROR: u16 = 2;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const IPPROTO_TCP: u8 = 6;
const ALL_STATES: u32 = u32::MAX;
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// `struct nlmsghdr`, then `struct inet_diag_req_v2` or `struct inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// `struct inet_diag_sockid` in the response: ports, addresses, interface, cookie.
const ID: usize = HEADER + 4;
/// `idiag_uid` and `idiag_inode`, behind the id and three other numbers.
const UID: usize = ID + 48 + 12;
const INODE: usize = UID + 4;

/// The owner of the socket at `remote` that is connected to our socket at `local`. `None` if this lookup is not
/// available: the kernel may have been built without it, or a sandbox may forbid it.
pub(crate) fn peer_owner(local: SocketAddr, remote: SocketAddr) -> Option<PeerOwner> {
    match find(remote, local).ok()? {
        Some(owner) => Some(owner),
        // The kernel reports a missing lookup and a missing socket by the same error. Ours is not missing.
        None => find(local, remote).ok()?.map(|_| PeerOwner::Closed),
    }
}

/// The owner of the socket with these addresses, if there is one.
fn find(socket: SocketAddr, connected_to: SocketAddr) -> Result<Option<PeerOwner>, Errno> {
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    sendto(&netlink, &request(socket, connected_to), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = [0; 1024];
    // The kernel has queued the response before `sendto` returns.
    let (length, _) = recv(&netlink, &mut buffer, RecvFlags::DONTWAIT)?;
    parse(buffer.get(..length).unwrap_or_default(), socket, connected_to)
}

fn request(socket: SocketAddr, connected_to: SocketAddr) -> Vec<u8> {
    let [socket, connected_to] = [socket, connected_to].map(canonical);
    let mut message = Vec::with_capacity(REQUEST);
    message.extend((REQUEST as u32).to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender: one request per socket.
    message.extend([0; 8]);
    let family = if socket.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    message.extend([family.as_raw().to_le_bytes()[0], IPPROTO_TCP, 0, 0]);
    message.extend(ALL_STATES.to_ne_bytes());
    message.extend(id(socket, connected_to));
    message.extend([0; 4]);
    message.extend(NO_COOKIE);
    message
}

/// The first fields of `struct inet_diag_sockid`: ports and addresses in network byte order.
fn id(socket: SocketAddr, connected_to: SocketAddr) -> Vec<u8> {
    let mut id = [socket.port().to_be_bytes(), connected_to.port().to_be_bytes()].concat();
    for ip in [socket.ip(), connected_to.ip()] {
        match ip {
            IpAddr::V4(ip) => id.extend([ip.octets().as_slice(), &[0; 12]].concat()),
            IpAddr::V6(ip) => id.extend(ip.octets()),
        }
    }
    id
}

fn parse(message: &[u8], socket: SocketAddr, connected_to: SocketAddr) -> Result<Option<PeerOwner>, Errno> {
    let word = |at: usize| Some(u32::from_ne_bytes(message.get(at..at + 4)?.try_into().ok()?));
    let kind = message.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(NLMSG_ERROR) if word(HEADER) == Some(Errno::NOENT.raw_os_error().wrapping_neg().cast_unsigned()) => {
            Ok(None)
        }
        Some(SOCK_DIAG_BY_FAMILY) => {
            // Where no connection matches, the kernel reports a listener on the same port.
            if addresses(message) != Some([socket, connected_to].map(canonical)) {
                return Ok(None);
            }
            match (word(UID), word(INODE)) {
                (Some(_), Some(0)) => Ok(Some(PeerOwner::Closed)),
                (Some(uid), Some(_)) => Ok(Some(PeerOwner::User(uid))),
                _ => Err(Errno::PROTO),
            }
        }
        _ => Err(Errno::PROTO),
    }
}

/// The addresses in a response, of the socket itself and of its peer. IPv4 addresses of an IPv6 socket are IPv4 addresses.
fn addresses(message: &[u8]) -> Option<[SocketAddr; 2]> {
    let is_ipv6 = u16::from(*message.get(HEADER)?) == AddressFamily::INET6.as_raw();
    let address = |port: usize, ip: usize| {
        let port = u16::from_be_bytes(message.get(port..port + 2)?.try_into().ok()?);
        let ip: [u8; 16] = message.get(ip..ip + 16)?.try_into().ok()?;
        let [a, b, c, d, ..] = ip;
        let ip = if is_ipv6 { IpAddr::from(ip) } else { IpAddr::from([a, b, c, d]) };
        Some(canonical(SocketAddr::new(ip, port)))
    };
    Some([address(ID, ID + 4)?, address(ID + 2, ID + 20)?])
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connection(bind: &str) -> Option<(TcpListener, TcpStream, TcpStream)> {
        let listener = TcpListener::bind(bind).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        Some((listener, client, accepted))
    }

    #[test]
    fn own_connection_is_this_users() {
        let uid = rustix::process::geteuid().as_raw();
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let Some((_listener, client, accepted)) = connection(bind) else { continue };
            let (local, remote) = (accepted.local_addr().unwrap(), accepted.peer_addr().unwrap());
            let owner = peer_owner(local, remote);
            if owner.is_none() {
                println!("skipped: this kernel has no sock_diag");
                return;
            }
            assert_eq!(owner, Some(PeerOwner::User(uid)), "{bind}");
            drop(client);
            assert_eq!(peer_owner(local, remote), Some(PeerOwner::Closed), "{bind}");
        }
    }

    #[test]
    fn ipv4_connection_of_an_ipv6_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let Ok(client) = TcpStream::connect(format!("[::ffff:127.0.0.1]:{}", local.port())) else {
            println!("skipped: no IPv6");
            return;
        };
        let (accepted, remote) = listener.accept().unwrap();
        let owner = peer_owner(accepted.local_addr().unwrap(), remote);
        let uid = rustix::process::geteuid().as_raw();
        assert!(owner.is_none_or(|owner| owner == PeerOwner::User(uid)), "{owner:?}");
        drop(client);
    }

    #[test]
    fn listener_is_not_taken_for_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let nobody = SocketAddr::new(address.ip(), 1);
        assert_eq!(peer_owner(nobody, address), None);
    }

    #[test]
    fn malformed_response_is_an_error() {
        let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let mut message = vec![0; INODE + 4];
        message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        assert_eq!(parse(&message, address, address), Ok(None), "another socket");
        message[HEADER] = 2;
        message[ID..ID + 36].copy_from_slice(&id(address, address));
        assert_eq!(parse(&message, address, address), Ok(Some(PeerOwner::Closed)));
        assert_eq!(parse(&message[..UID], address, address), Err(Errno::PROTO));
        assert_eq!(parse(&[], address, address), Err(Errno::PROTO));
        message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        message[HEADER..HEADER + 4].copy_from_slice(&(-13_i32).to_ne_bytes());
        assert_eq!(parse(&message, address, address), Err(Errno::PROTO), "not permitted");
    }
}
