//! Validation of the two addresses of a cluster, `server` and `proxy-url`.

use credlet_api::Secret;
use credlet_api::address::{GoUrl, ProxyAddr, ProxyAddrError, ServerAddr, ServerAddrError};

use super::validation::ConfigProblem;

/// A valid `server` address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerUrl {
    /// The URL as the client and its plugins use it.
    pub(super) url: String,
    pub(super) https: bool,
}

/// Validates a cluster's `server`. For an address without a scheme client-go uses plain http and silently drops all
/// credentials; here it is an error.
pub(super) fn server(text: &str) -> Result<ServerUrl, ConfigProblem> {
    // client-go formats an address with a path again, without its query, and leaves one without a path as it is.
    let formatted = GoUrl::parse_request(text).filter(GoUrl::has_path);
    let formatted = formatted.map(|url| url.without_query().format().to_string());
    let parsed = match (ServerAddr::parse(text), &formatted) {
        // Formatting escapes or removes what made it invalid, such as a space.
        (Err(ServerAddrError::Syntax), Some(formatted)) => ServerAddr::parse(formatted),
        (parsed, _) => parsed,
    };
    let server = parsed.map_err(|error| match error {
        ServerAddrError::MissingScheme => ConfigProblem::ServerWithoutScheme,
        ServerAddrError::UnsupportedScheme => ConfigProblem::ServerScheme,
        ServerAddrError::UserInfo => ConfigProblem::ServerUserInfo,
        _ => ConfigProblem::ServerAddress,
    })?;
    Ok(ServerUrl { url: formatted.unwrap_or_else(|| text.to_owned()), https: server.is_https() })
}

/// Validates a `proxy-url` and formats it as plugins receive it.
pub(super) fn proxy(text: &str) -> Result<Secret, ConfigProblem> {
    ProxyAddr::parse(text).map_err(|error| match error {
        ProxyAddrError::UnsupportedScheme => ConfigProblem::ProxyScheme,
        _ => ConfigProblem::ProxyAddress,
    })?;
    Ok(GoUrl::parse(text).map(|url| Secret::from(&**url.format())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_server_address() {
        for good in ["https://h", "HTTPS://h:6443", "https://[::1]:6443/", "https://10.0.0.1/k8s/c-1", "https://h:"] {
            assert!(server(good).unwrap().https, "{good}");
        }
        assert!(!server("http://h").unwrap().https);
        for bad in ["example.com", "example.com:6443", "localhost:8080", "//example.com", "://h", "", "/x"] {
            assert_eq!(server(bad), Err(ConfigProblem::ServerWithoutScheme), "{bad}");
        }
        assert_eq!(server("ftp://h"), Err(ConfigProblem::ServerScheme));
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
            assert_eq!(server(bad), Err(ConfigProblem::ServerAddress), "{bad}");
        }
        assert_eq!(server("https://u:p@h"), Err(ConfigProblem::ServerUserInfo));
        assert_eq!(server("https://h/a@b").map(|address| address.url).as_deref(), Ok("https://h/a@b"));
    }

    #[test]
    fn server_with_path_is_formatted_as_in_go() {
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
            assert_eq!(server(bad), Err(ConfigProblem::ServerAddress), "{bad}");
        }
    }

    #[test]
    fn validates_proxy_scheme() {
        for good in ["http://p", "https://u:p@p:1", "socks5://[::1]:1"] {
            assert_eq!(proxy(good).unwrap().expose(), good);
        }
        assert_eq!(proxy("SOCKS5://p:1080").unwrap().expose(), "socks5://p:1080");
        for bad in ["ftp://p", "p:1", "socks5h://p", ""] {
            assert_eq!(proxy(bad), Err(ConfigProblem::ProxyScheme), "{bad}");
        }
        for bad in ["http://", "http://p:66000", "http://a b", "http://p\n", "://p"] {
            assert_eq!(proxy(bad), Err(ConfigProblem::ProxyAddress), "{bad}");
        }
    }
}
