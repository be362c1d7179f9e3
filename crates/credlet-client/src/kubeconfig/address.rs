//! The two addresses in a cluster.

use super::mistake::Problem;
use crate::conn::{Proxy, Server, proxy, server};

/// What is known of a server's address once it is seen to be one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// As the client and its plugins use it.
    pub(super) url: String,
    pub(super) https: bool,
}

/// Checks a `server`. Go makes plain http of an address without a scheme and then drops all credentials without a word
/// (W32); here that is a mistake.
pub(super) fn server(text: &str) -> Result<Address, Problem> {
    let server = Server::read(text).map_err(|unusable| match unusable {
        server::Unusable::NoScheme => Problem::ServerWithoutScheme,
        server::Unusable::Scheme => Problem::ServerScheme,
        server::Unusable::User => Problem::ServerUserInfo,
        server::Unusable::Host | server::Unusable::Port | server::Unusable::Form => Problem::ServerAddress,
    })?;
    // With a path, query and fragment are dropped; without one nobody looks at them.
    let begin = text.find("://").map_or(0, |scheme| scheme + 3);
    let end = text[begin..].find(['?', '#']).map_or(text.len(), |end| begin + end);
    let has_path = text[begin..end].find('/').is_some_and(|slash| begin + slash + 1 < end);
    Ok(Address { url: text[..if has_path { end } else { text.len() }].to_owned(), https: server.is_https() })
}

/// Checks a `proxy-url`.
pub(super) fn proxy(text: &str) -> Result<(), Problem> {
    Proxy::read(text).map(drop).map_err(|unusable| match unusable {
        proxy::Unusable::Scheme => Problem::ProxyScheme,
        proxy::Unusable::Form => Problem::ProxyAddress,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_a_scheme_and_a_host() {
        for good in ["https://h", "HTTPS://h:6443", "https://[::1]:6443/", "https://10.0.0.1/k8s/c-1", "https://h:"] {
            assert_eq!(server(good), Ok(Address { url: good.to_owned(), https: true }), "{good}");
        }
        assert!(!server("http://h").unwrap().https);
        for bad in ["example.com", "example.com:6443", "localhost:8080", "//example.com", "://h", "", "/x"] {
            assert_eq!(server(bad), Err(Problem::ServerWithoutScheme), "{bad}");
        }
        assert_eq!(server("ftp://h"), Err(Problem::ServerScheme));
        for bad in
            ["https://", "https:///x", "https://:6443", "https://h:66000", "https://h:x", "https://a b", "https://[]"]
        {
            assert_eq!(server(bad), Err(Problem::ServerAddress), "{bad}");
        }
        assert_eq!(server("https://u:p@h"), Err(Problem::ServerUserInfo));
        assert_eq!(server("https://h/a@b").map(|address| address.url).as_deref(), Ok("https://h/a@b"));
    }

    #[test]
    fn behind_a_path_query_and_fragment_are_dropped() {
        let url = |text| server(text).unwrap().url;
        assert_eq!(url("https://h/p?x=1"), "https://h/p");
        assert_eq!(url("https://h/p/#x"), "https://h/p/");
        assert_eq!(url("https://h/?x=1"), "https://h/?x=1");
        assert_eq!(url("https://h?x=/y"), "https://h?x=/y");
    }

    #[test]
    fn a_proxy_has_one_of_three_schemes() {
        for good in ["http://p", "https://u:p@p:1", "SOCKS5://p:1080", "socks5://[::1]:1"] {
            assert_eq!(proxy(good), Ok(()), "{good}");
        }
        for bad in ["ftp://p", "p:1", "socks5h://p", "", "://p"] {
            assert_eq!(proxy(bad), Err(Problem::ProxyScheme), "{bad}");
        }
        for bad in ["http://", "http://p:66000", "http://a b", "http://p\n"] {
            assert_eq!(proxy(bad), Err(Problem::ProxyAddress), "{bad}");
        }
    }
}
