//! Listening sockets for the browser, and the check of the connections' owners.
//!
//! A browser that is redirected to `http://localhost:8000` tries `::1` and `127.0.0.1` in either order. If one of them were left
//! unbound, another local user could listen on it and receive the authorization code. Therefore all addresses of the redirect
//! host are bound, or the port is not used.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::Poll;

use credlet_http::ServerAddr;
use credlet_platform::net::{is_family_missing, is_local, listen_exactly};
use credlet_platform::peer::{PeerOwner, tcp_peer_owner};
use tokio::net::{TcpListener, TcpStream};

use super::OidcError;
use super::settings::RedirectTarget;

/// How many random ports are tried until one is free on all addresses.
const RANDOM_PORTS: usize = 64;

/// The listening sockets of one login, all on the same port.
#[derive(Debug)]
pub(super) struct LoopbackListener {
    sockets: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    /// The socket that is polled first by the next `accept`, so that a flood on one does not starve the others.
    next: usize,
}

impl LoopbackListener {
    /// Listens on the first of the configured addresses with a port that is free on every address of the redirect host.
    pub(super) async fn bind(listen: &[SocketAddr], redirect: &RedirectTarget) -> Result<Self, OidcError> {
        let host = RedirectHost::new(redirect).await;
        let (mut tried, mut source) = (Vec::new(), io::ErrorKind::AddrNotAvailable.into());
        for address in listen {
            match Self::bind_all(*address, &host) {
                Ok(listener) => return Ok(listener),
                Err((failed, error)) => {
                    tried.push(failed.to_string());
                    source = error;
                }
            }
        }
        Err(OidcError::Listen { tried: tried.join(" and "), source })
    }

    /// Listens on `address` and on the redirect host's other addresses, on all of them or on none.
    fn bind_all(address: SocketAddr, host: &RedirectHost) -> Result<Self, (SocketAddr, io::Error)> {
        let attempts = if address.port() == 0 { RANDOM_PORTS } else { 1 };
        let mut failure = (address, io::ErrorKind::AddrInUse.into());
        for _ in 0..attempts {
            match Self::bind_once(address, host) {
                Err((failed, error)) if error.kind() == io::ErrorKind::AddrInUse => failure = (failed, error),
                outcome => return outcome,
            }
        }
        Err(failure)
    }

    fn bind_once(address: SocketAddr, host: &RedirectHost) -> Result<Self, (SocketAddr, io::Error)> {
        let first = open(address).map_err(|error| (address, error))?;
        let port = first.local_addr().map_err(|error| (address, error))?.port();
        let mut listener = Self { sockets: vec![first], addresses: vec![SocketAddr::new(address.ip(), port)], next: 0 };
        for other in host.addresses(address) {
            let other = SocketAddr::new(other, port);
            match open(other) {
                Ok(socket) => {
                    listener.sockets.push(socket);
                    listener.addresses.push(other);
                }
                // The machine has no IPv6 or not this address, so no other local user can bind it either.
                Err(error) if is_family_missing(&error) => {}
                Err(error) => return Err((other, error)),
            }
        }
        Ok(listener)
    }

    pub(super) fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }

    /// The literal address at which a browser on this machine reaches these sockets.
    pub(super) fn browser_address(&self) -> SocketAddr {
        let port = self.port();
        let reachable = |ip: IpAddr| self.addresses.iter().any(|bound| covers(bound.ip(), ip));
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let bound = self.addresses.first().map_or(loopback[0], SocketAddr::ip);
        SocketAddr::new(loopback.into_iter().find(|ip| reachable(*ip)).unwrap_or(bound), port)
    }

    /// Waits for the next connection of any user. After an error of `accept(2)` the listener stays usable.
    pub(super) async fn accept(&mut self) -> io::Result<TcpStream> {
        poll_fn(|context| {
            for offset in 0..self.sockets.len() {
                let index = (self.next + offset) % self.sockets.len();
                if let Poll::Ready(accepted) = self.sockets[index].poll_accept(context) {
                    self.next = index + 1;
                    return Poll::Ready(accepted.map(|(stream, _)| stream));
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::from_std(listen_exactly(address)?)
}

/// Whether a socket bound to `bound` also receives connections to `ip`.
fn covers(bound: IpAddr, ip: IpAddr) -> bool {
    bound == ip || (bound.is_unspecified() && bound.is_ipv4() == ip.is_ipv4())
}

/// The addresses at which a browser looks for the redirect host.
struct RedirectHost {
    ips: Vec<IpAddr>,
    /// The port in the redirect URL, if it is fixed.
    port: Option<u16>,
}

impl RedirectHost {
    async fn new(redirect: &RedirectTarget) -> Self {
        let (host, port) = match redirect {
            RedirectTarget::Host(host) => (host.clone(), None),
            RedirectTarget::Url(url) => match ServerAddr::parse(url) {
                Ok(server) if !server.is_https() => (server.host().to_owned(), Some(server.port())),
                // TLS ends at a reverse proxy, to which the redirect URL leads: the browser does not connect to this process.
                _ => return Self { ips: Vec::new(), port: None },
            },
        };
        let literal = host.trim_matches(['[', ']']).parse();
        let ips = match literal {
            Ok(ip) => vec![ip],
            // Browsers resolve these without DNS.
            Err(_) if is_localhost(&host) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Err(_) => {
                tokio::net::lookup_host((host.as_str(), 0)).await.into_iter().flatten().map(|at| at.ip()).collect()
            }
        };
        Self { ips, port }
    }

    /// The addresses that must be bound besides `listen`: none if a forwarder listens on the port of the redirect URL.
    /// Only `--listen-address` opens a port to the network, never a host name in the redirect URL.
    fn addresses(&self, listen: SocketAddr) -> impl Iterator<Item = IpAddr> {
        let forwarded = self.port.is_some_and(|port| port != listen.port());
        let allowed = move |ip: &IpAddr| ip.is_loopback() || !listen.ip().is_loopback();
        self.ips.iter().copied().filter(move |ip| !forwarded && !covers(listen.ip(), *ip) && allowed(ip))
    }
}

/// `localhost` and the names below it (RFC 6761).
fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

/// A connection that may be served.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopbackPeer {
    local: SocketAddr,
    remote: SocketAddr,
}

impl LoopbackPeer {
    /// Returns the peer if its connection comes from a process of this user or of root, else the owner of the connection,
    /// which must not be served.
    pub(super) fn check(stream: &TcpStream) -> Result<Self, PeerOwner> {
        let (Ok(local), Ok(remote)) = (stream.local_addr(), stream.peer_addr()) else { return Err(PeerOwner::Closed) };
        let peer = Self { local, remote };
        peer.check_owner()?;
        // After a reset, the same addresses may belong to a new connection, and the check above found the owner of that one.
        if stream.peer_addr().is_ok() { Ok(peer) } else { Err(PeerOwner::Closed) }
    }

    /// Looks up the owner of the connection, which must be open.
    ///
    /// Connections from other machines pass: they exist only if `--listen-address` is not a loopback address, which is the
    /// user's decision. All connections pass on systems that do not report owners.
    ///
    /// # Errors
    /// The owner, if it is neither this user nor root.
    pub(super) fn check_owner(self) -> Result<(), PeerOwner> {
        let owner = tcp_peer_owner(self.local, self.remote);
        let is_loopback = self.local.ip().to_canonical().is_loopback();
        let is_remote = || owner == PeerOwner::Closed && !is_loopback && !is_local(self.remote.ip().to_canonical());
        if owner.may_be_this_user() || is_remote() { Ok(()) } else { Err(owner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listener(listen: &str, host: &str) -> LoopbackListener {
        LoopbackListener::bind(&[listen.parse().unwrap()], &RedirectTarget::Host(host.to_owned())).await.unwrap()
    }

    fn ips(listener: &LoopbackListener) -> Vec<String> {
        listener.addresses.iter().map(|address| address.ip().to_string()).collect()
    }

    /// Not every machine has IPv6.
    #[expect(clippy::print_stdout, reason = "a skipped test says so")]
    fn has_ipv6() -> bool {
        let there = std::net::TcpListener::bind("[::1]:0").is_ok();
        if !there {
            println!("skipped: no IPv6");
        }
        there
    }

    #[tokio::test]
    async fn localhost_is_bound_in_both_families() {
        let v6 = has_ipv6();
        for host in ["localhost", "LOCALHOST.", "login.localhost"] {
            let listener = listener("127.0.0.1:0", host).await;
            let expected: &[&str] = if v6 { &["127.0.0.1", "::1"] } else { &["127.0.0.1"] };
            assert_eq!(ips(&listener), expected, "{host}");
            let ports: Vec<_> = listener.sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
            assert!(ports.iter().all(|port| *port == listener.port()), "{ports:?}");
        }
        if v6 {
            assert_eq!(ips(&listener("[::1]:0", "localhost").await), ["::1", "127.0.0.1"]);
            assert_eq!(ips(&listener("0.0.0.0:0", "localhost").await), ["0.0.0.0", "::1"]);
            assert_eq!(ips(&listener("[::]:0", "localhost").await), ["::", "127.0.0.1"]);
        }
    }

    #[tokio::test]
    async fn literal_address_is_bound_alone() {
        assert_eq!(ips(&listener("127.0.0.1:0", "127.0.0.1").await), ["127.0.0.1"]);
        if has_ipv6() {
            assert_eq!(ips(&listener("[::1]:0", "[::1]").await), ["::1"]);
            // The redirect must arrive here, whatever else was configured.
            assert_eq!(ips(&listener("127.0.0.1:0", "[::1]").await), ["127.0.0.1", "::1"]);
        }
    }

    #[tokio::test]
    async fn forwarded_port_is_left_to_the_forwarder() {
        let bind = async |url: &str| {
            let redirect = RedirectTarget::Url(url.to_owned());
            ips(&LoopbackListener::bind(&["127.0.0.1:0".parse().unwrap()], &redirect).await.unwrap())
        };
        assert_eq!(bind("http://localhost:1").await, ["127.0.0.1"]);
        assert_eq!(bind("https://login.example/back").await, ["127.0.0.1"]);
    }

    #[tokio::test]
    async fn taken_ipv6_address_leads_to_the_next_port() {
        if !has_ipv6() {
            return;
        }
        for squatter in ["[::1]:0", "[::]:0"] {
            let squatter = std::net::TcpListener::bind(squatter).unwrap();
            let taken = squatter.local_addr().unwrap().port();
            let redirect = RedirectTarget::Host("localhost".to_owned());
            let taken = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), taken);
            let free = "127.0.0.1:0".parse().unwrap();
            let listener = LoopbackListener::bind(&[taken, free], &redirect).await.unwrap();
            assert_ne!(listener.port(), taken.port());
            assert_eq!(ips(&listener), ["127.0.0.1", "::1"]);

            let error = LoopbackListener::bind(&[taken], &redirect).await.unwrap_err().to_string();
            assert!(error.contains(&format!(":{}", taken.port())), "{error}");
            // The other family is free again for the next attempt.
            drop(squatter);
            LoopbackListener::bind(&[taken], &redirect).await.unwrap();
        }
    }

    #[tokio::test]
    async fn browser_is_given_a_literal_address() {
        assert!(listener("127.0.0.1:0", "localhost").await.browser_address().to_string().starts_with("127.0.0.1:"));
        assert!(listener("0.0.0.0:0", "localhost").await.browser_address().to_string().starts_with("127.0.0.1:"));
        if has_ipv6() {
            assert!(listener("[::1]:0", "[::1]").await.browser_address().to_string().starts_with("[::1]:"));
        }
    }

    // Other systems do not report owners.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    #[tokio::test]
    async fn own_connection_passes_and_closed_one_does_not() {
        let mut listener = listener("127.0.0.1:0", "localhost").await;
        let client = TcpStream::connect(listener.browser_address()).await.unwrap();
        let accepted = listener.accept().await.unwrap();
        let peer = LoopbackPeer::check(&accepted).unwrap();
        assert_eq!(peer.check_owner(), Ok(()));
        drop(client);
        assert_eq!(LoopbackPeer::check(&accepted).unwrap_err(), PeerOwner::Closed);
        assert_eq!(peer.check_owner(), Err(PeerOwner::Closed));
    }
}
