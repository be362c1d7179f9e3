use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_core::Env;
use http::HeaderValue;

use super::no_proxy::NoProxy;
use super::{Error, Server, Target};

/// A proxy between us and the server.
#[derive(Clone)]
pub struct Proxy {
    scheme: ProxyScheme,
    target: Target,
    name: Arc<str>,
    user: Option<(Secret, Secret)>,
}

/// How to talk to a [`Proxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyScheme {
    /// `CONNECT` in the clear.
    Http,
    /// `CONNECT` inside TLS.
    Https,
    /// SOCKS 5. The proxy looks up names, under `socks5` as under `socks5h`, as with Go.
    Socks5,
}

impl Proxy {
    /// The proxy to use for a server, by Go's rules: `configured` wins over everything. Without it the environment
    /// decides: `HTTPS_PROXY` (`HTTP_PROXY` for an http server), less what `NO_PROXY` exempts, less local addresses;
    /// the upper-case name before the lower-case one.
    ///
    /// ```
    /// use credlet_client::conn::{Proxy, Server};
    /// use credlet_core::FixedEnv;
    ///
    /// let env = FixedEnv::new([("HTTPS_PROXY", "proxy.example:3128"), ("NO_PROXY", "10.0.0.0/8")]);
    /// let through = |url: &str| Proxy::choose(None, &Server::parse(url)?, &env);
    /// assert_eq!(through("https://api.example")?.unwrap().name(), "proxy.example:3128");
    /// assert!(through("https://10.1.2.3:6443")?.is_none());
    /// # Ok::<(), credlet_client::conn::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ProxyUrl`], without the URL: there may be a password in it.
    pub fn choose(configured: Option<&Secret>, server: &Server, env: &dyn Env) -> Result<Option<Self>, Error> {
        if let Some(url) = configured {
            return Self::parse(url).map(Some);
        }
        let text = |name: &str| Some(env.var(name)?.to_string_lossy().into_owned()).filter(|text| !text.is_empty());
        let names = if server.is_https() { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
        let Some((origin, url)) = names.into_iter().find_map(|name| Some((name, Secret::new(text(name)?)))) else {
            return Ok(None);
        };
        if !server.is_https() && text("REQUEST_METHOD").is_some() {
            // A CGI program finds the header `Proxy:` of its visitor in HTTP_PROXY.
            return Err(Error::ProxyUrl { origin, reason: "cannot be trusted in a CGI program" });
        }
        let no_proxy = text("NO_PROXY").or_else(|| text("no_proxy")).unwrap_or_default();
        if NoProxy::parse(&no_proxy).exempts(server.host(), server.port()) {
            return Ok(None);
        }
        // A value without a scheme is a proxy of the plain kind.
        let whole = match url.expose().contains("://") {
            true => url,
            false => Secret::new(format!("http://{}", url.expose())),
        };
        match read(whole.expose()) {
            Ok(proxy) => Ok(Some(proxy)),
            Err(Unusable::Scheme) => Err(Error::ProxyUrl { origin, reason: UNKNOWN_SCHEME }),
            Err(Unusable::Form) => {
                tracing::warn!("{origin} is no URL and goes unused");
                Ok(None)
            }
        }
    }

    /// Reads the `proxy-url` of a kubeconfig cluster: http, https or socks5.
    ///
    /// # Errors
    /// [`Error::ProxyUrl`], without the URL: there may be a password in it.
    pub fn parse(url: &Secret) -> Result<Self, Error> {
        let origin = "proxy-url";
        Self::read(url.expose()).map_err(|unusable| match unusable {
            Unusable::Scheme => Error::ProxyUrl { origin, reason: UNKNOWN_SCHEME },
            Unusable::Form => Error::ProxyUrl { origin, reason: "is not a URL with a scheme and a host" },
        })
    }

    /// A kubeconfig knows one scheme less than the environment.
    pub(crate) fn read(url: &str) -> Result<Self, Unusable> {
        match url.split_once("://") {
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case("socks5h") => read(url),
            _ => Err(Unusable::Scheme),
        }
    }

    /// How to talk to it.
    pub fn scheme(&self) -> ProxyScheme {
        self.scheme
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// `host:port`, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// User name and password, if the URL has them.
    pub(super) fn user(&self) -> Option<(&Secret, &Secret)> {
        self.user.as_ref().map(|(name, password)| (name, password))
    }

    /// `Basic …`, marked sensitive.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        let (name, password) = self.user()?;
        let pair = Secret::new(format!("{}:{}", name.expose(), password.expose()));
        let value = Secret::new(format!("Basic {}", STANDARD.encode(pair.expose())));
        let mut value = HeaderValue::from_str(value.expose()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Where it is, never as whom we go there.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({:?} {})", self.scheme, self.name)
    }
}

const UNKNOWN_SCHEME: &str = "has a scheme other than http, https and socks5";

/// Why a URL cannot be a proxy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    Scheme,
    Form,
}

fn read(url: &str) -> Result<Proxy, Unusable> {
    let (scheme, rest) = url.split_once("://").ok_or(Unusable::Form)?;
    let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (ProxyScheme::Http, 80),
        "https" => (ProxyScheme::Https, 443),
        "socks5" | "socks5h" => (ProxyScheme::Socks5, 1080),
        _ => return Err(Unusable::Scheme),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (Some((decoded(name).ok_or(Unusable::Form)?, decoded(password).ok_or(Unusable::Form)?)), place)
        }
        None => (None, authority),
    };
    let (host, port) = match place.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').ok_or(Unusable::Form)?,
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    let port = match port.strip_prefix(':') {
        None if !port.is_empty() => return Err(Unusable::Form),
        None | Some("") => default_port,
        // Rust would also take `+1`.
        Some(port) if port.starts_with('+') => return Err(Unusable::Form),
        Some(port) => port.parse().map_err(|_| Unusable::Form)?,
    };
    // Only an address in brackets has a use for `%`: it may name an interface.
    let odd = |byte: u8| !byte.is_ascii_graphic() || (byte == b'%' && !place.starts_with('['));
    if host.is_empty() || host.bytes().any(odd) {
        return Err(Unusable::Form);
    }
    let target = Target::new(host, port);
    Ok(Proxy { scheme, name: target.to_string().into(), target, user })
}

/// Undoes percent-encoding. `None`: a broken escape, or no UTF-8.
fn decoded(text: &str) -> Option<Secret> {
    let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let (high, low) = (char::from(rest.next()?).to_digit(16)?, char::from(rest.next()?).to_digit(16)?);
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    std::str::from_utf8(&bytes).ok().map(Secret::from)
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::*;

    fn chosen(server: &str, vars: &[(&str, &str)]) -> Result<Option<String>, String> {
        let server = Server::parse(server).unwrap();
        Proxy::choose(None, &server, &FixedEnv::new(vars.iter().copied()))
            .map(|proxy| proxy.map(|proxy| format!("{proxy:?}")))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_configured_proxy_wins_over_every_exemption() {
        let server = Server::parse("https://127.0.0.1:6443").unwrap();
        let env = FixedEnv::new([("HTTPS_PROXY", "http://other:1"), ("NO_PROXY", "*")]);
        let proxy = Proxy::choose(Some(&Secret::new("socks5://p")), &server, &env).unwrap().unwrap();
        assert_eq!(format!("{proxy:?}"), "Proxy(Socks5 p:1080)");
    }

    #[test]
    fn the_environment_is_read_in_gos_order() {
        let both = [("HTTPS_PROXY", "https://upper"), ("https_proxy", "http://lower")];
        assert_eq!(chosen("https://api", &both).unwrap().unwrap(), "Proxy(Https upper:443)");
        let empty = [("HTTPS_PROXY", ""), ("https_proxy", "lower:3128")];
        assert_eq!(chosen("https://api", &empty).unwrap().unwrap(), "Proxy(Http lower:3128)");
        assert_eq!(chosen("https://api", &[("HTTP_PROXY", "http://p")]).unwrap(), None);
        assert_eq!(chosen("http://api", &[("http_proxy", "http://p")]).unwrap().unwrap(), "Proxy(Http p:80)");
        assert_eq!(chosen("https://localhost", &[("HTTPS_PROXY", "http://p")]).unwrap(), None);
        assert_eq!(chosen("https://[::1]:6443", &[("HTTPS_PROXY", "http://p")]).unwrap(), None);
        let lower = [("https_proxy", "http://p"), ("no_proxy", "api")];
        assert_eq!(chosen("https://api", &lower).unwrap(), None);
    }

    #[test]
    fn a_cgi_program_does_not_believe_http_proxy() {
        let vars = [("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")];
        assert_eq!(chosen("http://api", &vars).unwrap_err(), "HTTP_PROXY cannot be trusted in a CGI program");
    }

    #[test]
    fn an_unknown_scheme_is_an_error_and_nonsense_goes_unused_as_in_go() {
        let unknown = chosen("https://api", &[("HTTPS_PROXY", "ftp://p")]).unwrap_err();
        assert_eq!(unknown, "HTTPS_PROXY has a scheme other than http, https and socks5");
        assert_eq!(chosen("https://api", &[("HTTPS_PROXY", "http://p:99999")]).unwrap(), None);
        for bad in ["p:3128", "socks5h://p"] {
            let error = Proxy::parse(&Secret::new(bad)).unwrap_err();
            assert_eq!(error.to_string(), "proxy-url has a scheme other than http, https and socks5", "{bad}");
        }
        for bad in ["http://", "http://p:x", "http://[::1", "http://u%zz@p", "http://a b"] {
            let error = Proxy::parse(&Secret::new(bad)).unwrap_err();
            assert_eq!(error.to_string(), "proxy-url is not a URL with a scheme and a host", "{bad}");
        }
    }

    #[test]
    fn user_and_password_are_decoded_and_never_shown() {
        let proxy = Proxy::parse(&Secret::new("http://jane%40corp:p%3Ass%2Fword@[2001:db8::1]:8080/path")).unwrap();
        let (name, password) = proxy.user().unwrap();
        assert_eq!((name.expose(), password.expose()), ("jane@corp", "p:ss/word"));
        assert_eq!(proxy.name(), "[2001:db8::1]:8080");
        let header = proxy.authorization().unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic amFuZUBjb3JwOnA6c3Mvd29yZA==");
        assert!(header.is_sensitive());
        let shown = format!("{proxy:?} {header:?}");
        assert!(!shown.contains("jane") && !shown.contains("amFu"), "{shown}");
    }
}
