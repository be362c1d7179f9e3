//! Validation of the request's target authority (`Host` or absolute URI).

use credlet_http::ServerAddr;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};

use super::error_response::ProxyError;

/// Authorities that requests on one listener may name.
#[derive(Debug)]
pub(super) struct AllowedAuthorities {
    server: ServerAddr,
    scheme: Scheme,
    /// Authority for requests to the API server, without a default port.
    authority: Authority,
    /// Loopback port whose local names are also accepted.
    loopback: Option<u16>,
}

impl AllowedAuthorities {
    pub(super) fn new(server: &ServerAddr, loopback: Option<u16>) -> Result<Self, http::Error> {
        let scheme = if server.is_https() { Scheme::HTTPS } else { Scheme::HTTP };
        let target = server.target().to_string();
        let usual = if server.is_https() { ":443" } else { ":80" };
        let authority = target.strip_suffix(usual).unwrap_or(&target).parse::<Authority>()?;
        Ok(Self { server: server.clone(), scheme, authority, loopback })
    }

    /// Checks the authority of the request: that of an absolute URI, else `Host`.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), ProxyError> {
        let requested = match request.uri().authority() {
            Some(authority) => authority.as_str(),
            None => {
                let mut hosts = request.headers().get_all(HOST).iter();
                match (hosts.next().map(|host| host.to_str()), hosts.next()) {
                    (Some(Ok(host)), None) => host,
                    _ => return Err(ProxyError::malformed("the request must have exactly one Host header")),
                }
            }
        };
        if self.allows(requested) { Ok(()) } else { Err(ProxyError::other_server(requested, &self.server)) }
    }

    /// Address of the API server.
    pub(super) fn server(&self) -> &ServerAddr {
        &self.server
    }

    /// Whether this authority is allowed.
    pub(super) fn allows(&self, requested: &str) -> bool {
        if requested == self.authority.as_str() {
            return true;
        }
        let Ok(requested) = requested.parse::<Authority>() else { return false };
        if requested.as_str().contains('@') {
            return false;
        }
        let host = requested.host().trim_start_matches('[').trim_end_matches(']');
        let usual = if self.server.is_https() { 443 } else { 80 };
        let port = match requested.as_str().strip_prefix(requested.host()).and_then(|rest| rest.strip_prefix(':')) {
            // `host:` is equivalent to `host`.
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

    /// Returns the URI with the API server's authority and unchanged path and query.
    pub(super) fn addressed(&self, uri: &Uri) -> Result<Uri, ProxyError> {
        let invalid = || ProxyError::malformed("invalid request target: must begin with a slash");
        let mut path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        if path.as_str().starts_with('?') {
            // The path of an absolute URI may be empty.
            path = format!("/{}", path.as_str()).parse().map_err(|_| invalid())?;
        }
        if !path.as_str().starts_with('/') {
            return Err(invalid());
        }
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| invalid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorities(server: &str, loopback: Option<u16>) -> AllowedAuthorities {
        AllowedAuthorities::new(&ServerAddr::parse(server).unwrap(), loopback).unwrap()
    }

    #[test]
    fn accepts_only_the_server_authority() {
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
    fn loopback_accepts_only_local_names() {
        let at = authorities("https://api.example", Some(37443));
        for good in ["127.0.0.1:37443", "localhost:37443", "[::1]:37443", "api.example"] {
            assert!(at.allows(good), "{good}");
        }
        for bad in ["127.0.0.1", "127.0.0.1:1", "rebound.example:37443", "127.0.0.2:37443"] {
            assert!(!at.allows(bad), "{bad}");
        }
    }

    #[test]
    fn path_is_unchanged() {
        let at = authorities("https://api.example:443/k8s", None);
        for path in ["/k8s/api//v1/%2e%2E/../x?watch=1&&labelSelector=a%3Db+c", "/", "/?", "/a;b?c=%zz"] {
            let uri = at.addressed(&path.parse().unwrap()).unwrap();
            assert_eq!(uri.to_string(), format!("https://api.example{path}"));
        }
        assert_eq!(at.addressed(&Uri::from_static("https://api.example?a=b")).unwrap(), "https://api.example/?a=b");
        assert!(at.addressed(&Uri::from_static("*")).is_err());
    }
}
