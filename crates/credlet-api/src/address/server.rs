use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use http::uri::{Authority, Scheme};

use super::GoUrl;

/// Address of an API server: scheme, host and port. Credentials are sent to no other address.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddr {
    scheme: Scheme,
    authority: Authority,
    target: HostPort,
    name: Arc<str>,
}

impl ServerAddr {
    /// Parses a URL. Its path, query and fragment are ignored.
    ///
    /// # Errors
    /// When it is not an http or https URL with a host. The error does not repeat the URL, which may hold a password.
    pub fn parse(url: &str) -> Result<Self, ServerAddrError> {
        let scheme = match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("https") => Scheme::HTTPS,
            Some("http") => Scheme::HTTP,
            Some("") | None => return Err(ServerAddrError::MissingScheme),
            Some(_) => return Err(ServerAddrError::UnsupportedScheme),
        };
        let parsed = GoUrl::parse(url).ok_or(ServerAddrError::Syntax)?;
        if parsed.user.is_some() {
            return Err(ServerAddrError::UserInfo);
        }
        if parsed.host.is_empty() {
            return Err(ServerAddrError::MissingHost);
        }
        let port = match parsed.port {
            "" => default_port(&scheme),
            port => port.parse().map_err(|_| ServerAddrError::InvalidPort)?,
        };
        // Requests are built from it, so it must be valid for the `http` crate as well.
        let uri: Uri = url.parse().map_err(|_| ServerAddrError::Syntax)?;
        let authority = uri.authority().ok_or(ServerAddrError::MissingHost)?.clone();
        let target = HostPort::new(&parsed.host, port);
        Ok(Self { name: target.to_string().into(), target, authority, scheme })
    }

    /// Host and port, for a route to connect to.
    pub fn target(&self) -> HostPort {
        self.target.clone()
    }

    /// Whether the scheme is https.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The host alone, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        self.target.host()
    }

    /// The port; the scheme's default if the URL has none.
    pub fn port(&self) -> u16 {
        self.target.port()
    }

    /// The scheme for request URIs.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// The authority for request URIs, as the URL has it.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Value of the `Host` header: the authority as the URL has it, without the scheme's default port.
    pub fn host_header(&self) -> &str {
        let is_default = self.port() == default_port(&self.scheme);
        if is_default { self.authority.host() } else { self.authority.as_str() }
    }

    /// `host:port` for messages, shared.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether a request URI with this scheme and authority is for this server.
    pub fn matches(&self, scheme: &Scheme, authority: &Authority) -> bool {
        let port = authority.port_u16().unwrap_or(default_port(scheme));
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        // A host with percent-encoded characters is compared as written.
        let same = *authority == self.authority || port == self.port() && host.eq_ignore_ascii_case(self.host());
        *scheme == self.scheme && same
    }
}

/// Why a URL is not an API server's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum ServerAddrError {
    /// The URL lacks a scheme.
    MissingScheme,
    /// The scheme is neither https nor http.
    UnsupportedScheme,
    /// There is a user name, and perhaps a password.
    UserInfo,
    /// The URL lacks a host.
    MissingHost,
    /// The port is not a number up to 65535.
    InvalidPort,
    /// It is not a URL.
    Syntax,
}

impl ServerAddrError {
    /// The message, which continues a sentence about the address.
    pub fn reason(self) -> &'static str {
        match self {
            Self::MissingScheme => "does not begin with https://",
            Self::UnsupportedScheme => "has a scheme other than https and http",
            Self::UserInfo => "has a user name in it",
            Self::MissingHost => "has no host",
            Self::InvalidPort => "has an invalid port",
            Self::Syntax => "is not a URL",
        }
    }
}

fn default_port(scheme: &Scheme) -> u16 {
    if *scheme == Scheme::HTTPS { 443 } else { 80 }
}

/// Writes `host:port`, without scheme and path. The port is written even if it is the scheme's default.
impl fmt::Display for ServerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for ServerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.name)
    }
}

/// Whether the host is this machine, by name or address.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Host and port of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    host: Arc<str>,
    port: u16,
}

impl HostPort {
    /// `host` is a name, or an address without brackets.
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// A name, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, as given to [`new`](Self::new).
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// `host:port`, an IPv6 address in brackets.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(url: &str) -> String {
        match ServerAddr::parse(url) {
            Ok(server) => server.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn default_port_follows_the_scheme() {
        assert_eq!(name("https://api.example"), "api.example:443");
        assert_eq!(name("HTTPS://api.example:6443/prefix?x"), "api.example:6443");
        assert_eq!(name("http://10.0.0.1/"), "10.0.0.1:80");
        assert_eq!(name("https://[2001:db8::1]:6443"), "[2001:db8::1]:6443");
    }

    #[test]
    fn errors_do_not_repeat_the_url() {
        assert_eq!(name("api.example:6443"), "does not begin with https://");
        assert_eq!(name("unix:///run/x"), "has a scheme other than https and http");
        assert_eq!(name("https://jane:hunter2@api"), "has a user name in it");
        assert_eq!(name("https://a b"), "is not a URL");
        assert_eq!(name("https://:6443"), "has no host");
        assert_eq!(name("https://api:66443"), "has an invalid port");
    }
}
