//! The two addresses in a cluster.

use credlet_api::Secret;

use super::mistake::Problem;
use crate::conn::url::Url;
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
    // With a path it is written anew, without its query; without one nobody looks at the rest.
    let anew = Url::parse_request(text).filter(Url::has_path).map(|url| url.without_query().written().to_string());
    let read = match (Server::read(text), &anew) {
        // What is escaped or left out on the way, such as a space, was no mistake.
        (Err(server::Unusable::Form), Some(anew)) => Server::read(anew),
        (read, _) => read,
    };
    let server = read.map_err(|unusable| match unusable {
        server::Unusable::NoScheme => Problem::ServerWithoutScheme,
        server::Unusable::Scheme => Problem::ServerScheme,
        server::Unusable::User => Problem::ServerUserInfo,
        server::Unusable::Host | server::Unusable::Port | server::Unusable::Form => Problem::ServerAddress,
    })?;
    Ok(Address { url: anew.unwrap_or_else(|| text.to_owned()), https: server.is_https() })
}

/// Checks a `proxy-url`, and writes it as plugins see it.
pub(super) fn proxy(text: &str) -> Result<Secret, Problem> {
    Proxy::read(text).map_err(|unusable| match unusable {
        proxy::Unusable::Scheme => Problem::ProxyScheme,
        proxy::Unusable::Form | proxy::Unusable::Place | proxy::Unusable::User => Problem::ProxyAddress,
    })?;
    Ok(Url::parse(text).map(|url| Secret::from(&**url.written())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_a_scheme_and_a_host() {
        for good in ["https://h", "HTTPS://h:6443", "https://[::1]:6443/", "https://10.0.0.1/k8s/c-1", "https://h:"] {
            assert!(server(good).unwrap().https, "{good}");
        }
        assert!(!server("http://h").unwrap().https);
        for bad in ["example.com", "example.com:6443", "localhost:8080", "//example.com", "://h", "", "/x"] {
            assert_eq!(server(bad), Err(Problem::ServerWithoutScheme), "{bad}");
        }
        assert_eq!(server("ftp://h"), Err(Problem::ServerScheme));
        for bad in [
            "https://",
            "https:///x",
            "https://:6443",
            "https://h:66000",
            "https://h:x",
            "https://a b",
            "https://[]",
            "https://[1]",
        ] {
            assert_eq!(server(bad), Err(Problem::ServerAddress), "{bad}");
        }
        assert_eq!(server("https://u:p@h"), Err(Problem::ServerUserInfo));
        assert_eq!(server("https://h/a@b").map(|address| address.url).as_deref(), Ok("https://h/a@b"));
    }

    #[test]
    fn with_a_path_it_is_written_as_go_writes_it() {
        let url = |text| server(text).unwrap().url;
        assert_eq!(url("https://h/p?x=1"), "https://h/p");
        assert_eq!(url("https://h/p/#x"), "https://h/p/%23x");
        assert_eq!(url("HTTPS://h/p"), "https://h/p");
        assert_eq!(url("HTTPS://h/"), "HTTPS://h/");
        assert_eq!(url("https://h/?x=1"), "https://h/?x=1");
        assert_eq!(url("https://h?x=/y"), "https://h?x=/y");
        assert_eq!(url("https://h/a b"), "https://h/a%20b");
        assert_eq!(url("https://h/p?#%zz"), "https://h/p");
        for bad in ["https://h/%zz", "https://h#%zz", "https://h? ", "https://h / "] {
            assert_eq!(server(bad), Err(Problem::ServerAddress), "{bad}");
        }
    }

    #[test]
    fn a_proxy_has_one_of_three_schemes() {
        for good in ["http://p", "https://u:p@p:1", "socks5://[::1]:1"] {
            assert_eq!(proxy(good).unwrap().expose(), good);
        }
        assert_eq!(proxy("SOCKS5://p:1080").unwrap().expose(), "socks5://p:1080");
        for bad in ["ftp://p", "p:1", "socks5h://p", ""] {
            assert_eq!(proxy(bad), Err(Problem::ProxyScheme), "{bad}");
        }
        for bad in ["http://", "http://p:66000", "http://a b", "http://p\n", "://p"] {
            assert_eq!(proxy(bad), Err(Problem::ProxyAddress), "{bad}");
        }
    }
}
