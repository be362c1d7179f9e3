//! Where a proxy listens, as `status.proxyConfig.url` says it.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::percent;

/// The longest path a socket can have: what the system keeps it in, without the NUL at its end.
pub const LONGEST_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Where a proxy listens.
///
/// ```
/// use credlet_proxy::endpoint::Endpoint;
///
/// let endpoint = Endpoint::parse("unix:///run/user/1000/my%20proxy/s.sock")?;
/// assert_eq!(endpoint, Endpoint::Unix("/run/user/1000/my proxy/s.sock".into()));
/// assert_eq!(endpoint.to_string(), "unix:///run/user/1000/my%20proxy/s.sock");
/// assert!(Endpoint::parse("http://127.0.0.1:8001").is_err());
/// # Ok::<(), credlet_proxy::endpoint::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// At a Unix socket: an absolute path of a file, short enough for one.
    Unix(PathBuf),
    /// At a port of this machine, by `https`. Both sides must show a certificate: anybody here can reach a port.
    Loopback(SocketAddr),
}

impl Endpoint {
    /// Reads it.
    ///
    /// # Errors
    /// The plugin's author must act. The URL is not repeated.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = url.split_once(':').ok_or(EndpointError::NoUrl)?;
        match scheme.to_ascii_lowercase().as_str() {
            "unix" => unix(rest),
            "https" => loopback(rest),
            "http" => Err(EndpointError::Http),
            _ => Err(EndpointError::Scheme),
        }
    }

    /// At this Unix socket.
    ///
    /// # Errors
    /// When no socket can be there.
    pub fn unix(path: impl AsRef<Path>) -> Result<Self, EndpointError> {
        let path = path.as_ref();
        let bytes = path.as_os_str().as_bytes();
        if bytes.contains(&0) {
            return Err(EndpointError::Abstract);
        }
        if !path.is_absolute() {
            return Err(EndpointError::Relative);
        }
        if path.file_name().is_none() || bytes.ends_with(b"/") {
            return Err(EndpointError::NoFile);
        }
        if bytes.len() > LONGEST_PATH {
            return Err(EndpointError::TooLong { bytes: bytes.len() });
        }
        Ok(Self::Unix(path.to_owned()))
    }
}

/// `rest` is what follows `unix:`.
fn unix(rest: &str) -> Result<Endpoint, EndpointError> {
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
    let path = percent::decoded(path).ok_or(EndpointError::Percent)?;
    Endpoint::unix(PathBuf::from(OsString::from_vec(path)))
}

/// `rest` is what follows `https:`.
fn loopback(rest: &str) -> Result<Endpoint, EndpointError> {
    let address = rest.strip_prefix("//").ok_or(EndpointError::NoUrl)?;
    let address = address.strip_suffix('/').unwrap_or(address);
    if address.contains(['/', '?', '#', '@']) {
        return Err(EndpointError::Surplus);
    }
    // `host:port` with the address itself: a name could lead anywhere.
    let address: SocketAddr = address.parse().map_err(|_| EndpointError::NotLoopback)?;
    let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match here.contains(&address.ip()) && address.port() != 0 {
        true => Ok(Endpoint::Loopback(address)),
        false => Err(EndpointError::NotLoopback),
    }
}

/// As a URL, which [`parse`](Endpoint::parse) reads.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => write!(f, "https://{address}"),
            Self::Unix(path) => {
                f.write_str("unix://")?;
                path.as_os_str().as_bytes().iter().try_for_each(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                        write!(f, "{}", char::from(*byte))
                    }
                    byte => write!(f, "%{byte:02X}"),
                })
            }
        }
    }
}

/// Why nobody can be reached there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// It is no URL.
    #[error("its url is no URL")]
    NoUrl,
    /// Anybody on this machine could listen in.
    #[error(
        "its url is http, which everybody on this machine could use: it must be unix:///… or https on a loopback address"
    )]
    Http,
    /// Some other scheme.
    #[error("its url has a scheme other than unix and https")]
    Scheme,
    /// A Unix socket on another machine makes no sense.
    #[error("its url has a host: a Unix socket is written unix:///path, with three slashes")]
    Host,
    /// From where?
    #[error("its url has no absolute path: a Unix socket is written unix:///path")]
    Relative,
    /// Linux's sockets without a file have no permissions either.
    #[error("its url is that of an abstract socket, which everybody on this machine could use")]
    Abstract,
    /// A directory is no socket.
    #[error("its url names no file")]
    NoFile,
    /// No socket has such a path.
    #[error("the path in its url has {bytes} bytes, and that of a socket has at most {LONGEST_PATH}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// What no address of a proxy has.
    #[error("its url has more than a scheme and an address: a user, a path, a query or a fragment")]
    Surplus,
    /// `%` without two digits.
    #[error("its url has a % that is not followed by two hexadecimal digits")]
    Percent,
    /// Elsewhere it would be out of this user's hands.
    #[error("its url is https, but not with 127.0.0.1 or [::1] and a port")]
    NotLoopback,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> Result<String, EndpointError> {
        Endpoint::parse(url).map(|endpoint| match endpoint {
            Endpoint::Unix(path) => path.into_os_string().into_string().unwrap(),
            Endpoint::Loopback(address) => address.to_string(),
        })
    }

    #[test]
    fn a_socket_is_an_absolute_path_in_percent_encoding() {
        assert_eq!(path("unix:///run/s.sock").unwrap(), "/run/s.sock");
        assert_eq!(path("UNIX:///run/a%20b%2Fc/%c3%A9").unwrap(), "/run/a b/c/é");
        assert_eq!(path("unix:///run/a b/é").unwrap(), "/run/a b/é");
        let longest = format!("unix:///{}", "a".repeat(LONGEST_PATH - 1));
        assert_eq!(path(&longest).unwrap().len(), LONGEST_PATH);
        assert_eq!(path(&format!("{longest}b")), Err(EndpointError::TooLong { bytes: LONGEST_PATH + 1 }));
        // The limit is that of the path, not of the way it is written.
        assert!(path(&format!("unix:///{}", "%61".repeat(LONGEST_PATH - 1))).is_ok());
    }

    #[test]
    fn a_port_is_one_of_this_machine_by_its_number() {
        assert_eq!(path("https://127.0.0.1:6443").unwrap(), "127.0.0.1:6443");
        assert_eq!(path("HTTPS://[::1]:6443/").unwrap(), "[::1]:6443");
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
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
            assert_eq!(Endpoint::parse(url), Err(reason), "{url}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again_and_nothing_crashes(
            name in proptest::collection::vec(1_u8..=255, 1..120), noise in ".{0,200}",
        ) {
            let _ = Endpoint::parse(&noise);
            let _ = Endpoint::parse(&format!("unix://{noise}"));
            let mut bytes = b"/".to_vec();
            bytes.extend(name);
            if let Ok(endpoint) = Endpoint::unix(Path::new(&OsString::from_vec(bytes))) {
                proptest::prop_assert_eq!(Endpoint::parse(&endpoint.to_string()), Ok(endpoint));
            }
        }
    }
}
