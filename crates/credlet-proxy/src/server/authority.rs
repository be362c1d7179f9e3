//! Whom a request is for.

use credlet_client::conn::Server;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};

use super::rescue::Trouble;

/// The names by which the API server may be called on one listener.
#[derive(Debug)]
pub(super) struct Authorities {
    server: Server,
    scheme: Scheme,
    /// As the API server is told it: without a port that goes without saying.
    authority: Authority,
    /// The port of this machine on which it may also be called by the machine's own names.
    loopback: Option<u16>,
}

impl Authorities {
    pub(super) fn new(server: &Server, loopback: Option<u16>) -> Result<Self, http::Error> {
        let scheme = if server.is_https() { Scheme::HTTPS } else { Scheme::HTTP };
        let target = server.target().to_string();
        let usual = if server.is_https() { ":443" } else { ":80" };
        let authority = target.strip_suffix(usual).unwrap_or(&target).parse::<Authority>()?;
        Ok(Self { server: server.clone(), scheme, authority, loopback })
    }

    /// Whether the request names one of them: in its target if that is a whole URL, else in `Host`.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Trouble> {
        let asked = match request.uri().authority() {
            Some(authority) => authority.as_str(),
            None => {
                let mut hosts = request.headers().get_all(HOST).iter();
                match (hosts.next().map(|host| host.to_str()), hosts.next()) {
                    (Some(Ok(host)), None) => host,
                    _ => return Err(Trouble::malformed("a request names the server it is for, once")),
                }
            }
        };
        if self.allows(asked) { Ok(()) } else { Err(Trouble::other_server(asked, &self.server)) }
    }

    /// The API server itself.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Whether this is one of them.
    pub(super) fn allows(&self, asked: &str) -> bool {
        if asked == self.authority.as_str() {
            return true;
        }
        let Ok(asked) = asked.parse::<Authority>() else { return false };
        if asked.as_str().contains('@') {
            return false;
        }
        let host = asked.host().trim_start_matches('[').trim_end_matches(']');
        let usual = if self.server.is_https() { 443 } else { 80 };
        let port = match asked.as_str().strip_prefix(asked.host()).and_then(|rest| rest.strip_prefix(':')) {
            // `host:` is as good as `host`.
            None | Some("") => usual,
            Some(port) => match port.parse() {
                Ok(port) => port,
                Err(_) => return false,
            },
        };
        let is_server = host.eq_ignore_ascii_case(self.server.host()) && port == self.server.port();
        let is_here = ["127.0.0.1", "localhost", "::1"].iter().any(|name| host.eq_ignore_ascii_case(name));
        is_server || (is_here && self.loopback == Some(port))
    }

    /// The same path and query at the API server.
    pub(super) fn addressed(&self, uri: &Uri) -> Result<Uri, Trouble> {
        let wrong = || Trouble::malformed("the target of a request begins with a slash");
        let mut path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        if path.as_str().starts_with('?') {
            // A whole URL may leave the slash out.
            path = format!("/{}", path.as_str()).parse().map_err(|_| wrong())?;
        }
        if !path.as_str().starts_with('/') {
            return Err(wrong());
        }
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorities(server: &str, loopback: Option<u16>) -> Authorities {
        Authorities::new(&Server::parse(server).unwrap(), loopback).unwrap()
    }

    #[test]
    fn the_server_is_known_by_its_own_name_and_port_in_any_case_and_by_no_other() {
        let at = authorities("https://api.example:6443/prefix", None);
        for good in ["api.example:6443", "API.Example:6443"] {
            assert!(at.allows(good), "{good}");
        }
        for bad in [
            "api.example",
            "api.example:443",
            "evil.example:6443",
            "api.example:6443@evil",
            "ada@api.example:6443",
            "api.example:6443.evil",
            "api.example:",
            "",
            "127.0.0.1:6443",
            "api.example.:6443",
            "a b",
        ] {
            assert!(!at.allows(bad), "{bad}");
        }
        let usual = authorities("https://api.example", None);
        assert!(usual.allows("api.example") && usual.allows("api.example:443") && !usual.allows("api.example:80"));
        assert!(usual.allows("api.example:") && authorities("https://api.example:", None).allows("api.example"));
        let six = authorities("https://[2001:db8::1]:6443", None);
        assert!(six.allows("[2001:db8::1]:6443") && !six.allows("[2001:db8::2]:6443"));
    }

    #[test]
    fn a_port_of_this_machine_is_known_by_the_machines_own_names_only() {
        let at = authorities("https://api.example", Some(37443));
        for good in ["127.0.0.1:37443", "localhost:37443", "[::1]:37443", "api.example"] {
            assert!(at.allows(good), "{good}");
        }
        for bad in ["127.0.0.1", "127.0.0.1:1", "rebound.example:37443", "127.0.0.2:37443"] {
            assert!(!at.allows(bad), "{bad}");
        }
    }

    #[test]
    fn the_path_goes_on_to_the_byte() {
        let at = authorities("https://api.example:443/k8s", None);
        for path in ["/k8s/api//v1/%2e%2E/../x?watch=1&&labelSelector=a%3Db+c", "/", "/?", "/a;b?c=%zz"] {
            let uri = at.addressed(&path.parse().unwrap()).unwrap();
            assert_eq!(uri.to_string(), format!("https://api.example{path}"));
        }
        assert_eq!(at.addressed(&Uri::from_static("https://api.example?a=b")).unwrap(), "https://api.example/?a=b");
        assert!(at.addressed(&Uri::from_static("*")).is_err());
    }
}
