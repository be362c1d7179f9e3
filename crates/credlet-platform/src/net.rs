//! TCP listeners on an exact address.

use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};

const BACKLOG: i32 = 1024;

/// Listens on `address` and on nothing else. The listener is in non-blocking mode.
///
/// - `IPV6_V6ONLY` is set: an IPv6 listener never accepts IPv4 connections, and a listener of another user on the IPv4
///   address of the same port is not mistaken for ours.
/// - `SO_REUSEADDR` is set, because connections of the last listener may still be in `TIME_WAIT`. On Linux it never allows
///   a second listener: `bind` fails with `EADDRINUSE` if any user listens on this address or on the wildcard address
///   of the port, and neither can be taken later while this listener is open. On macOS that holds between different users, except
///   root; sockets of one user can share a port if one of them has the wildcard address.
/// - `SO_REUSEPORT` is not set.
///
/// # Errors
/// `AddrInUse` if the port is in use; see [`is_family_missing`] for a missing address or address family.
pub fn listen_exactly(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(not(target_vendor = "apple"))]
fn socket(family: AddressFamily) -> io::Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

#[cfg(target_vendor = "apple")]
fn socket(family: AddressFamily) -> io::Result<std::os::fd::OwnedFd> {
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::empty(), Some(ipproto::TCP))?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Whether [`listen_exactly`] failed because this machine lacks the address or address family, rather than because the port
/// is in use.
pub fn is_family_missing(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    errno == Some(rustix::io::Errno::ADDRNOTAVAIL) || errno == Some(rustix::io::Errno::AFNOSUPPORT)
}

/// Whether `address` is assigned to this machine.
pub fn is_local(address: std::net::IpAddr) -> bool {
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    fn has_ipv6() -> bool {
        TcpListener::bind("[::1]:0").is_ok()
    }

    #[test]
    fn second_listener_is_refused() {
        let first = listen_exactly("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        assert_eq!(listen_exactly(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // Neither the wildcard nor a dual-stack listener takes connections away. On macOS they can be had by the same user.
        #[cfg(target_os = "linux")]
        for wildcard in ["0.0.0.0", "[::]"] {
            let taken = TcpListener::bind(format!("{wildcard}:{}", address.port()));
            assert!(taken.is_err() || wildcard == "[::]" && !has_ipv6(), "{wildcard}");
        }
    }

    #[test]
    fn bound_socket_cannot_listen_later() {
        let bound = socket(AddressFamily::INET).unwrap();
        sockopt::set_socket_reuseaddr(&bound, true).unwrap();
        bind(&bound, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(rustix::net::getsockname(&bound).unwrap()).unwrap();
        // Whether the port can be had at all is up to the system; it never has two listeners.
        let ours = listen_exactly(address);
        assert_eq!(ours.is_ok(), listen(&bound, 1).is_err());
    }

    // macOS refuses the port to other users only.
    #[cfg(target_os = "linux")]
    #[test]
    fn wildcard_listener_blocks_the_port() {
        let wildcards: &[&str] = if has_ipv6() { &["0.0.0.0:0", "[::]:0"] } else { &["0.0.0.0:0"] };
        for wildcard in wildcards {
            let taken = TcpListener::bind(wildcard).unwrap();
            let address = SocketAddr::new("127.0.0.1".parse().unwrap(), taken.local_addr().unwrap().port());
            assert_eq!(listen_exactly(address).unwrap_err().kind(), io::ErrorKind::AddrInUse, "{wildcard}");
        }
    }

    #[test]
    fn ipv6_wildcard_accepts_no_ipv4() {
        let Ok(listener) = listen_exactly("[::]:0".parse().unwrap()) else {
            println!("skipped: no IPv6");
            return;
        };
        let port = listener.local_addr().unwrap().port();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }

    #[test]
    fn missing_address_is_recognised() {
        let error = listen_exactly("192.0.2.1:0".parse().unwrap()).unwrap_err();
        assert!(is_family_missing(&error), "{error}");
        assert!(!is_family_missing(&io::ErrorKind::AddrInUse.into()));
    }

    #[test]
    fn own_addresses_are_local() {
        assert!(is_local("127.0.0.1".parse().unwrap()));
        assert!(!is_local("192.0.2.1".parse().unwrap()));
    }
}
