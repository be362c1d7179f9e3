use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::{Authority, Scheme};
use http::{Request, Uri};

use super::Error;
use super::url::Url;

/// The API server: where connections go, and the only place where credentials go.
///
/// ```
/// use credlet_client::conn::Server;
///
/// let server = Server::parse("https://api.example/k8s/clusters/c-1")?;
/// assert_eq!(server.to_string(), "api.example:443");
/// assert!(Server::parse("api.example:6443").is_err());
/// # Ok::<(), credlet_client::conn::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    scheme: Scheme,
    authority: Authority,
    host: Arc<str>,
    port: u16,
    name: Arc<str>,
}

impl Server {
    /// Reads the address. Its path is the caller's business; anything but scheme, host and port is ignored.
    ///
    /// # Errors
    /// [`Error::Server`], which does not repeat the address.
    pub fn parse(url: &str) -> Result<Self, Error> {
        Self::read(url).map_err(|unusable| Error::Server { reason: unusable.reason() })
    }

    pub(crate) fn read(url: &str) -> Result<Self, Unusable> {
        let scheme = match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
            Some("https") => Scheme::HTTPS,
            Some("http") => Scheme::HTTP,
            Some("") | None => return Err(Unusable::NoScheme),
            Some(_) => return Err(Unusable::Scheme),
        };
        let read = Url::parse(url).ok_or(Unusable::Form)?;
        if read.user.is_some() {
            return Err(Unusable::User);
        }
        if read.host.is_empty() {
            return Err(Unusable::Host);
        }
        let port = match read.port {
            "" => default_port(&scheme),
            port => port.parse().map_err(|_| Unusable::Port)?,
        };
        // Where requests are made of it, it must be one of theirs too.
        let uri: Uri = url.parse().map_err(|_| Unusable::Form)?;
        let authority = uri.authority().ok_or(Unusable::Host)?;
        let target = Target::new(&read.host, port);
        Ok(Self { name: target.to_string().into(), host: target.host, port, authority: authority.clone(), scheme })
    }

    /// Host and port, for a route to connect to.
    pub fn target(&self) -> Target {
        Target { host: self.host.clone(), port: self.port }
    }

    /// Whether the connection is to be protected by TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// The host alone, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also if the address leaves it to the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a request of HTTP/1.1 says in `Host`: as the address has it, without a port that goes without saying.
    pub(super) fn host_header(&self) -> &str {
        let authority = self.authority.as_str();
        if self.port == default_port(&self.scheme) { self.authority.host() } else { authority }
    }

    /// Host and port as error messages show them.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Puts scheme and authority on a request that has none, and refuses one that is for somebody else.
    pub(super) fn address<B>(&self, request: &mut Request<B>) -> Result<(), Error> {
        let uri = request.uri();
        if let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) {
            let port = authority.port_u16().unwrap_or(default_port(scheme));
            let host = authority.host().trim_start_matches('[').trim_end_matches(']');
            // One with escapes in it is only compared as it is written.
            let same = *authority == self.authority || port == self.port && host.eq_ignore_ascii_case(&self.host);
            if *scheme == self.scheme && same {
                return Ok(());
            }
        } else if uri.authority().is_none() {
            let mut parts = std::mem::take(request.uri_mut()).into_parts();
            parts.scheme = Some(self.scheme.clone());
            parts.authority = Some(self.authority.clone());
            parts.path_and_query.get_or_insert(http::uri::PathAndQuery::from_static("/"));
            *request.uri_mut() =
                Uri::from_parts(parts).map_err(|_| Error::Server { reason: "does not fit the path" })?;
            return Ok(());
        }
        // Neither the query nor a user name is anybody's business.
        let asked = uri.host().unwrap_or("nobody").to_owned();
        Err(Error::OtherServer { asked: credlet_api::visible(&asked), host: self.name.clone() })
    }
}

/// Why an address cannot be a server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    NoScheme,
    Scheme,
    User,
    Host,
    Port,
    Form,
}

impl Unusable {
    fn reason(self) -> &'static str {
        match self {
            Self::NoScheme => "does not begin with https://",
            Self::Scheme => "has a scheme other than https and http",
            Self::User => "has a user name in it",
            Self::Host => "has no host",
            Self::Port => "has no usable port",
            Self::Form => "is not a URL",
        }
    }
}

fn default_port(scheme: &Scheme) -> u16 {
    if *scheme == Scheme::HTTPS { 443 } else { 80 }
}

/// `host:port`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.name)
    }
}

/// Whether this host is this machine, by its name or address.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The far end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: Arc<str>,
    port: u16,
}

impl Target {
    /// A name, or an address without brackets.
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// A name, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// `host:port`, with brackets where they are needed.
impl fmt::Display for Target {
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
        match Server::parse(url) {
            Ok(server) => server.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_address_is_read_with_its_default_port() {
        assert_eq!(name("https://api.example"), "api.example:443");
        assert_eq!(name("HTTPS://api.example:6443/prefix?x"), "api.example:6443");
        assert_eq!(name("http://10.0.0.1/"), "10.0.0.1:80");
        assert_eq!(name("https://[2001:db8::1]:6443"), "[2001:db8::1]:6443");
    }

    #[test]
    fn what_is_no_address_is_said_without_repeating_it() {
        assert_eq!(name("api.example:6443"), "the server's address does not begin with https://");
        assert_eq!(name("unix:///run/x"), "the server's address has a scheme other than https and http");
        assert_eq!(name("https://jane:hunter2@api"), "the server's address has a user name in it");
        assert_eq!(name("https://a b"), "the server's address is not a URL");
        assert_eq!(name("https://:6443"), "the server's address has no host");
        assert_eq!(name("https://api:66443"), "the server's address has no usable port");
    }

    #[test]
    fn a_request_gets_the_servers_authority_or_is_refused() {
        let server = Server::parse("https://api.example:6443").unwrap();
        let address = |uri: &str| {
            let mut request = Request::get(uri).body(()).unwrap();
            server.address(&mut request).map(|()| request.uri().to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(address("/version?x=1").unwrap(), "https://api.example:6443/version?x=1");
        assert_eq!(address("https://API.example:6443/a").unwrap(), "https://API.example:6443/a");
        let refused = "a request for evil.example does not belong on a connection to api.example:6443";
        assert_eq!(address("https://evil.example:6443/a?token=x").unwrap_err(), refused);
        assert!(address("http://api.example:6443/a").is_err());
        let server = Server::parse("https://[fe80::1%25eth0]:6443").unwrap();
        assert_eq!(server.host(), "fe80::1%eth0");
        let mut request = Request::get("https://[fe80::1%25eth0]:6443/a").body(()).unwrap();
        assert!(server.address(&mut request).is_ok());
        assert!(address("https://api.example/a").is_err());
    }
}
