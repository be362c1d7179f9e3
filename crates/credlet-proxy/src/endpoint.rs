//! Address of a proxy as in `status.proxyConfig.url`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use credlet_api::percent_decode;
use credlet_platform::fs::path_from_bytes;
use credlet_platform::local_socket;

/// Maximum length of a socket path in bytes.
pub const MAX_SOCKET_PATH: usize = local_socket::MAX_PATH_LEN;

/// Address of a proxy.
///
/// ```
/// use credlet_proxy::endpoint::ProxyEndpoint;
///
/// let endpoint = ProxyEndpoint::parse("unix:///run/user/1000/my%20proxy/s.sock")?;
/// assert_eq!(endpoint, ProxyEndpoint::Unix("/run/user/1000/my proxy/s.sock".into()));
/// assert_eq!(endpoint.to_string(), "unix:///run/user/1000/my%20proxy/s.sock");
/// assert!(ProxyEndpoint::parse("http://127.0.0.1:8001").is_err());
/// # Ok::<(), credlet_proxy::endpoint::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyEndpoint {
    /// Unix socket with an absolute path of at most [`MAX_SOCKET_PATH`] bytes.
    Unix(PathBuf),
    /// `https` on a loopback port. Every local user can reach the port, so client and server both need a certificate.
    Loopback(SocketAddr),
}

impl ProxyEndpoint {
    /// Parses a URL.
    ///
    /// # Errors
    /// If the URL is invalid or not supported. The error does not quote the URL.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = url.split_once(':').ok_or(EndpointError::NoUrl)?;
        match scheme.to_ascii_lowercase().as_str() {
            "unix" => unix(rest),
            "https" => loopback(rest),
            "http" => Err(EndpointError::Http),
            _ => Err(EndpointError::Scheme),
        }
    }

    /// Returns the endpoint of this Unix socket.
    ///
    /// # Errors
    /// If the path cannot be a socket path.
    pub fn unix(path: impl AsRef<Path>) -> Result<Self, EndpointError> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.contains(&0) {
            return Err(EndpointError::Abstract);
        }
        if !path.is_absolute() {
            return Err(EndpointError::Relative);
        }
        if path.file_name().is_none() || bytes.ends_with(b"/") {
            return Err(EndpointError::NoFile);
        }
        if bytes.len() > MAX_SOCKET_PATH {
            return Err(EndpointError::TooLong { bytes: bytes.len() });
        }
        Ok(Self::Unix(path.to_owned()))
    }
}

/// `rest` follows `unix:`.
fn unix(rest: &str) -> Result<ProxyEndpoint, EndpointError> {
    let path = rest.strip_prefix("//").ok_or(EndpointError::Relative)?;
    if path.contains(['?', '#']) {
        return Err(EndpointError::Surplus);
    }
    match path.as_bytes().first() {
        Some(b'/') => {}
        Some(b'@') => return Err(EndpointError::Abstract),
        Some(_) => return Err(EndpointError::Host),
        None => return Err(EndpointError::NoFile),
    }
    if path.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(EndpointError::NoUrl);
    }
    let path = percent_decode(path).ok_or(EndpointError::Percent)?;
    ProxyEndpoint::unix(path_from_bytes(path.to_vec()))
}

/// `rest` follows `https:`.
fn loopback(rest: &str) -> Result<ProxyEndpoint, EndpointError> {
    let address = rest.strip_prefix("//").ok_or(EndpointError::NoUrl)?;
    let address = address.strip_suffix('/').unwrap_or(address);
    if address.contains(['/', '?', '#', '@']) {
        return Err(EndpointError::Surplus);
    }
    // Only IP addresses: a host name could resolve to another machine.
    let address: SocketAddr = address.parse().map_err(|_| EndpointError::NotLoopback)?;
    let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match here.contains(&address.ip()) && address.port() != 0 {
        true => Ok(ProxyEndpoint::Loopback(address)),
        false => Err(EndpointError::NotLoopback),
    }
}

/// Formats a URL that [`parse`](ProxyEndpoint::parse) accepts.
impl fmt::Display for ProxyEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => write!(f, "https://{address}"),
            Self::Unix(path) => {
                f.write_str("unix://")?;
                path.as_os_str().as_encoded_bytes().iter().try_for_each(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                        write!(f, "{}", char::from(*byte))
                    }
                    byte => write!(f, "%{byte:02X}"),
                })
            }
        }
    }
}

/// An invalid proxy URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL.
    #[error("invalid proxyConfig.url: not a URL")]
    NoUrl,
    /// Plain HTTP on a port, which every local user could use.
    #[error(
        "unsupported proxyConfig.url: http is open to all local users, use unix:///… or https on a loopback address"
    )]
    Http,
    /// A scheme other than `unix` and `https`.
    #[error("unsupported proxyConfig.url: the scheme must be unix or https")]
    Scheme,
    /// A `unix` URL with a host.
    #[error("invalid proxyConfig.url: unexpected host, write unix:///path with three slashes")]
    Host,
    /// A `unix` URL without an absolute path.
    #[error("invalid proxyConfig.url: missing absolute path, write unix:///path")]
    Relative,
    /// An abstract socket, which has no permissions.
    #[error("unsupported proxyConfig.url: an abstract socket is open to all local users")]
    Abstract,
    /// The path is empty, or ends with a slash or `..`.
    #[error("invalid proxyConfig.url: not a path of a file")]
    NoFile,
    /// Longer than [`MAX_SOCKET_PATH`].
    #[error("invalid proxyConfig.url: the path has {bytes} bytes, a socket path at most {MAX_SOCKET_PATH}")]
    TooLong {
        /// Length of the path.
        bytes: usize,
    },
    /// A user, path, query or fragment where none is allowed.
    #[error("invalid proxyConfig.url: unexpected user, path, query or fragment")]
    Surplus,
    /// `%` that is not followed by two hexadecimal digits.
    #[error("invalid proxyConfig.url: invalid percent-encoding")]
    Percent,
    /// An `https` URL of another machine, or without a port.
    #[error("unsupported proxyConfig.url: https requires 127.0.0.1 or [::1] and a port")]
    NotLoopback,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> Result<String, EndpointError> {
        ProxyEndpoint::parse(url).map(|endpoint| match endpoint {
            ProxyEndpoint::Unix(path) => path.into_os_string().into_string().unwrap(),
            ProxyEndpoint::Loopback(address) => address.to_string(),
        })
    }

    #[test]
    fn parses_percent_encoded_socket_path() {
        assert_eq!(path("unix:///run/s.sock").unwrap(), "/run/s.sock");
        assert_eq!(path("UNIX:///run/a%20b%2Fc/%c3%A9").unwrap(), "/run/a b/c/é");
        assert_eq!(path("unix:///run/a b/é").unwrap(), "/run/a b/é");
        let longest = format!("unix:///{}", "a".repeat(MAX_SOCKET_PATH - 1));
        assert_eq!(path(&longest).unwrap().len(), MAX_SOCKET_PATH);
        assert_eq!(path(&format!("{longest}b")), Err(EndpointError::TooLong { bytes: MAX_SOCKET_PATH + 1 }));
        // The limit applies to the decoded path.
        assert!(path(&format!("unix:///{}", "%61".repeat(MAX_SOCKET_PATH - 1))).is_ok());
    }

    #[test]
    fn socket_path_becomes_valid_url() {
        let url = |path: &str| ProxyEndpoint::Unix(path.into()).to_string();
        assert_eq!(url("/run/user/1000/credlet/0a/s.sock"), "unix:///run/user/1000/credlet/0a/s.sock");
        assert_eq!(url("/tmp/a b%?#é"), "unix:///tmp/a%20b%25%3F%23%C3%A9");
    }

    #[test]
    fn parses_loopback_address() {
        assert_eq!(path("https://127.0.0.1:6443").unwrap(), "127.0.0.1:6443");
        assert_eq!(path("HTTPS://[::1]:6443/").unwrap(), "[::1]:6443");
    }

    #[test]
    fn rejects_invalid_urls() {
        use EndpointError::*;
        let refused = [
            ("", NoUrl),
            ("/run/s.sock", NoUrl),
            ("unix:/run/s.sock", Relative),
            ("unix:s.sock", Relative),
            ("unix://run/s.sock", Host),
            ("unix://localhost/run/s.sock", Host),
            ("unix://user@/run/s.sock", Host),
            ("unix://@acme", Abstract),
            ("unix:///%00acme", Abstract),
            ("unix:///run/a%00b", Abstract),
            ("unix://", NoFile),
            ("unix:///", NoFile),
            ("unix:///run/", NoFile),
            ("unix:///run/..", NoFile),
            ("unix:///run/s.sock?a", Surplus),
            ("unix:///run/s.sock#a", Surplus),
            ("unix:///run/%", Percent),
            ("unix:///run/%4", Percent),
            ("unix:///run/%zz", Percent),
            ("unix:///run/%+1", Percent),
            ("unix:///run/a\nb", NoUrl),
            ("http://127.0.0.1:8001", Http),
            ("HTTP://[::1]", Http),
            ("npipe:////./pipe/acme", Scheme),
            ("tcp://127.0.0.1:1", Scheme),
            ("https:127.0.0.1:1", NoUrl),
            ("https://localhost:6443", NotLoopback),
            ("https://127.0.0.1", NotLoopback),
            ("https://127.0.0.1:0", NotLoopback),
            ("https://127.0.0.2:1", NotLoopback),
            ("https://0.0.0.0:1", NotLoopback),
            ("https://[::ffff:127.0.0.1]:1", NotLoopback),
            ("https://10.0.0.1:6443", NotLoopback),
            ("https://127.0.0.1:1@evil.example:1", Surplus),
            ("https://127.0.0.1:1/prefix", Surplus),
            ("https://127.0.0.1:1?a", Surplus),
        ];
        for (url, reason) in refused {
            assert_eq!(ProxyEndpoint::parse(url), Err(reason), "{url}");
        }
    }

    proptest::proptest! {
        #[test]
        fn display_round_trips(
            name in proptest::collection::vec(1_u8..=255, 1..120), noise in ".{0,200}",
        ) {
            let _ = ProxyEndpoint::parse(&noise);
            let _ = ProxyEndpoint::parse(&format!("unix://{noise}"));
            let mut bytes = b"/".to_vec();
            bytes.extend(name);
            if let Ok(endpoint) = ProxyEndpoint::unix(path_from_bytes(bytes)) {
                proptest::prop_assert_eq!(ProxyEndpoint::parse(&endpoint.to_string()), Ok(endpoint));
            }
        }
    }
}
