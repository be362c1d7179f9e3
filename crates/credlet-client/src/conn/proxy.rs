use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_core::Env;
use http::HeaderValue;

use super::no_proxy::NoProxy;
use super::url::{Url, unescaped};
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
        let proxy = match read_variable(&url) {
            Err(Unusable::Form) => {
                tracing::warn!("{origin} is no URL and goes unused");
                return Ok(None);
            }
            read => read.map_err(|unusable| Error::ProxyUrl { origin, reason: unusable.reason() }),
        };
        if !server.is_https() && text("REQUEST_METHOD").is_some() {
            // A CGI program finds the header `Proxy:` of its visitor in HTTP_PROXY.
            return Err(Error::ProxyUrl { origin, reason: "cannot be trusted in a CGI program" });
        }
        let no_proxy = text("NO_PROXY").or_else(|| text("no_proxy")).unwrap_or_default();
        if NoProxy::parse(&no_proxy).exempts(server.host(), server.port()) {
            return Ok(None);
        }
        proxy.map(Some)
    }

    /// Reads the `proxy-url` of a kubeconfig cluster: http, https or socks5.
    ///
    /// # Errors
    /// [`Error::ProxyUrl`], without the URL: there may be a password in it.
    pub fn parse(url: &Secret) -> Result<Self, Error> {
        Self::read(url.expose()).map_err(|unusable| Error::ProxyUrl { origin: "proxy-url", reason: unusable.reason() })
    }

    /// A kubeconfig knows one scheme less than the environment.
    pub(crate) fn read(url: &str) -> Result<Self, Unusable> {
        let url = Url::parse(url).ok_or(Unusable::Form)?;
        if url.scheme == "socks5h" { Err(Unusable::Scheme) } else { proxy(&url) }
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

    /// User name and password, if the URL has them. They are sent to the proxy and to nobody else.
    pub fn user(&self) -> Option<(&Secret, &Secret)> {
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

/// Why a URL cannot be a proxy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Not a URL.
    Form,
    Scheme,
    /// Go would find out when it connects there.
    Place,
    /// Go would send any bytes.
    User,
}

impl Unusable {
    fn reason(self) -> &'static str {
        match self {
            Self::Form => "is not a URL",
            Self::Scheme => "has a scheme other than http, https and socks5",
            Self::Place => "has no usable host and port",
            Self::User => "has a user name or password that is not UTF-8",
        }
    }
}

/// A value without a scheme is a proxy of the plain kind, if that makes a URL of it.
fn read_variable(value: &Secret) -> Result<Proxy, Unusable> {
    let whole = Secret::new(format!("http://{}", value.expose()));
    let complete = |url: &Url<'_>| !url.scheme.is_empty() && !url.host.is_empty();
    // Go would look for a proxy on a host that is called `http`.
    let mistaken = |url: &Url<'_>| value.expose().starts_with(&format!("{}://", url.host));
    match (Url::parse(value.expose()), Url::parse(whole.expose())) {
        (Some(url), _) if complete(&url) => proxy(&url),
        (_, Some(url)) if mistaken(&url) => Err(Unusable::Place),
        (_, Some(url)) | (Some(url), None) => proxy(&url),
        (None, None) => Err(Unusable::Form),
    }
}

fn proxy(url: &Url<'_>) -> Result<Proxy, Unusable> {
    let (scheme, default_port) = match &*url.scheme {
        "http" => (ProxyScheme::Http, 80),
        "https" => (ProxyScheme::Https, 443),
        "socks5" | "socks5h" => (ProxyScheme::Socks5, 1080),
        _ => return Err(Unusable::Scheme),
    };
    let user = match url.user {
        Some(user) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            Some((decoded(name).ok_or(Unusable::User)?, decoded(password).ok_or(Unusable::User)?))
        }
        None => None,
    };
    let port = match url.port {
        "" => default_port,
        port => port.parse().map_err(|_| Unusable::Place)?,
    };
    // Only an IPv6 address has a use for colons, and for `%`: it may name an interface.
    let ipv6 = url.host.split('%').next().is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let odd = |byte: u8| !byte.is_ascii_graphic() || (!ipv6 && b":%".contains(&byte));
    if url.host.is_empty() || url.host.bytes().any(odd) {
        return Err(Unusable::Place);
    }
    let target = Target::new(&url.host, port);
    Ok(Proxy { scheme, name: target.to_string().into(), target, user })
}

/// `None`: no UTF-8.
fn decoded(text: &str) -> Option<Secret> {
    std::str::from_utf8(&unescaped(text)?).ok().map(Secret::from)
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
    fn a_variable_is_what_go_makes_of_it() {
        let chosen = |value| chosen("https://api", &[("HTTPS_PROXY", value)]);
        // What is no URL even with a scheme goes unused.
        for bad in ["http://u%zz@p", "p%zz", "p\n"] {
            assert_eq!(chosen(bad), Ok(None), "{bad}");
        }
        // What is one, but not a proxy's, fails.
        for bad in ["ftp://p", "y:+", "p%20q", " "] {
            assert_eq!(chosen(bad).unwrap_err(), "HTTPS_PROXY has a scheme other than http, https and socks5", "{bad}");
        }
        for bad in ["http://p:99999", "http://p:x", "http://", "://p", "/x", "socks5://a:b:1", "http://p%25"] {
            assert_eq!(chosen(bad).unwrap_err(), "HTTPS_PROXY has no usable host and port", "{bad}");
        }
        assert_eq!(chosen("[::1]:080").unwrap().unwrap(), "Proxy(Http [::1]:80)");
    }

    #[test]
    fn a_configured_proxy_that_cannot_be_one_is_an_error() {
        for bad in ["p:3128", "socks5h://p", "//p"] {
            let error = Proxy::parse(&Secret::new(bad)).unwrap_err();
            assert_eq!(error.to_string(), "proxy-url has a scheme other than http, https and socks5", "{bad}");
        }
        for bad in ["http://p:x", "http://[::1", "http://u%zz@p", "http://a b", "://p"] {
            let error = Proxy::parse(&Secret::new(bad)).unwrap_err();
            assert_eq!(error.to_string(), "proxy-url is not a URL", "{bad}");
        }
        for bad in ["http://", "http://p:99999"] {
            let error = Proxy::parse(&Secret::new(bad)).unwrap_err();
            assert_eq!(error.to_string(), "proxy-url has no usable host and port", "{bad}");
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
