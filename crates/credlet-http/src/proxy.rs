use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::address::ProxyAddrError;
use credlet_platform::Env;
use http::HeaderValue;

use super::no_proxy::NoProxy;
use super::{HttpError, ProxyAddr, ServerAddr};

/// The proxy to use for a server, by Go's rules: `configured` takes precedence over everything. Without it the
/// environment decides: `HTTPS_PROXY` (`HTTP_PROXY` for an http server), except what `NO_PROXY` exempts, except local
/// addresses; the upper-case name before the lower-case one.
///
/// ```
/// use credlet_http::{ServerAddr, proxy_for};
/// use credlet_platform::FixedEnv;
///
/// let env = FixedEnv::new([("HTTPS_PROXY", "proxy.example:3128"), ("NO_PROXY", "10.0.0.0/8")]);
/// let proxy = |url: &str| proxy_for(None, &ServerAddr::parse(url).expect("a server"), &env);
/// assert_eq!(proxy("https://api.example")?.unwrap().name(), "proxy.example:3128");
/// assert!(proxy("https://10.1.2.3:6443")?.is_none());
/// # Ok::<(), credlet_http::HttpError>(())
/// ```
///
/// # Errors
/// [`HttpError::InvalidProxy`], without the URL: it may hold a password.
pub fn proxy_for(
    configured: Option<&Secret>,
    server: &ServerAddr,
    env: &dyn Env,
) -> Result<Option<ProxyAddr>, HttpError> {
    let failed = |origin| move |error: ProxyAddrError| HttpError::InvalidProxy { origin, reason: error.reason() };
    if let Some(url) = configured {
        return ProxyAddr::parse(url.expose()).map(Some).map_err(failed("proxy-url"));
    }
    let text = |name: &str| Some(env.var(name)?.to_string_lossy().into_owned()).filter(|text| !text.is_empty());
    let names = if server.is_https() { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let Some((origin, url)) = names.into_iter().find_map(|name| Some((name, Secret::new(text(name)?)))) else {
        return Ok(None);
    };
    let proxy = match ProxyAddr::parse_variable(&url) {
        Err(ProxyAddrError::Syntax) => {
            tracing::warn!(variable = origin, "ignored invalid proxy URL");
            return Ok(None);
        }
        parsed => parsed.map_err(failed(origin)),
    };
    if !server.is_https() && text("REQUEST_METHOD").is_some() {
        // In a CGI program HTTP_PROXY holds the `Proxy` header of the client's request (CVE-2016-5386).
        return Err(HttpError::InvalidProxy { origin, reason: "cannot be trusted in a CGI program" });
    }
    let no_proxy = text("NO_PROXY").or_else(|| text("no_proxy")).unwrap_or_default();
    if NoProxy::parse(&no_proxy).exempts(server.host(), server.port()) {
        return Ok(None);
    }
    proxy.map(Some)
}

/// The value of `Proxy-Authorization`: `Basic …`, marked sensitive. `None` without user info.
pub(super) fn authorization(proxy: &ProxyAddr) -> Option<HeaderValue> {
    let (name, password) = proxy.user()?;
    let pair = Secret::new(format!("{}:{}", name.expose(), password.expose()));
    let value = Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())));
    let mut value = HeaderValue::from_str(value.expose()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use credlet_platform::FixedEnv;

    use super::*;

    fn chosen(server: &str, vars: &[(&str, &str)]) -> Result<Option<String>, String> {
        let server = ServerAddr::parse(server).unwrap();
        proxy_for(None, &server, &FixedEnv::new(vars.iter().copied()))
            .map(|proxy| proxy.map(|proxy| format!("{proxy:?}")))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn configured_proxy_wins_over_no_proxy() {
        let server = ServerAddr::parse("https://127.0.0.1:6443").unwrap();
        let env = FixedEnv::new([("HTTPS_PROXY", "http://other:1"), ("NO_PROXY", "*")]);
        let proxy = proxy_for(Some(&Secret::new("socks5://p")), &server, &env).unwrap().unwrap();
        assert_eq!(format!("{proxy:?}"), "ProxyAddr(Socks5 p:1080)");
    }

    #[test]
    fn upper_case_variable_comes_first() {
        let both = [("HTTPS_PROXY", "https://upper"), ("https_proxy", "http://lower")];
        assert_eq!(chosen("https://api", &both).unwrap().unwrap(), "ProxyAddr(Https upper:443)");
        let empty = [("HTTPS_PROXY", ""), ("https_proxy", "lower:3128")];
        assert_eq!(chosen("https://api", &empty).unwrap().unwrap(), "ProxyAddr(Http lower:3128)");
        assert_eq!(chosen("https://api", &[("HTTP_PROXY", "http://p")]).unwrap(), None);
        assert_eq!(chosen("http://api", &[("http_proxy", "http://p")]).unwrap().unwrap(), "ProxyAddr(Http p:80)");
        assert_eq!(chosen("https://localhost", &[("HTTPS_PROXY", "http://p")]).unwrap(), None);
        assert_eq!(chosen("https://[::1]:6443", &[("HTTPS_PROXY", "http://p")]).unwrap(), None);
        let lower = [("https_proxy", "http://p"), ("no_proxy", "api")];
        assert_eq!(chosen("https://api", &lower).unwrap(), None);
    }

    #[test]
    fn cgi_program_ignores_http_proxy() {
        let vars = [("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")];
        assert_eq!(
            chosen("http://api", &vars).unwrap_err(),
            "invalid HTTP_PROXY: it cannot be trusted in a CGI program"
        );
    }

    #[test]
    fn variable_is_parsed_as_go_does() {
        let chosen = |value| chosen("https://api", &[("HTTPS_PROXY", value)]);
        // Not a URL, even with a scheme in front: ignored.
        for bad in ["http://u%zz@p", "p%zz", "p\n"] {
            assert_eq!(chosen(bad), Ok(None), "{bad}");
        }
        // A URL, but not a proxy's: an error.
        for bad in ["ftp://p", "y:+", "p%20q", " "] {
            assert_eq!(
                chosen(bad).unwrap_err(),
                "invalid HTTPS_PROXY: it has a scheme other than http, https and socks5",
                "{bad}"
            );
        }
        for bad in ["http://p:99999", "http://p:x", "http://", "://p", "/x", "socks5://a:b:1", "http://p%25"] {
            assert_eq!(chosen(bad).unwrap_err(), "invalid HTTPS_PROXY: it has an invalid host or port", "{bad}");
        }
        assert_eq!(chosen("[::1]:080").unwrap().unwrap(), "ProxyAddr(Http [::1]:80)");
    }

    #[test]
    fn authorization_is_sensitive() {
        let proxy = ProxyAddr::parse("http://jane%40corp:p%3Ass%2Fword@[2001:db8::1]:8080/path").unwrap();
        let header = authorization(&proxy).unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic amFuZUBjb3JwOnA6c3Mvd29yZA==");
        assert!(header.is_sensitive() && !format!("{header:?}").contains("amFu"));
    }
}
