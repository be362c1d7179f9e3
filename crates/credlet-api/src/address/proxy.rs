use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::{GoUrl, HostPort};
use crate::{Secret, percent_decode};

/// Address of a proxy on the way to the API server, with user name and password if it has them.
#[derive(Clone)]
pub struct ProxyAddr {
    scheme: ProxyScheme,
    target: HostPort,
    name: Arc<str>,
    user: Option<(Secret, Secret)>,
}

/// Protocol of a [`ProxyAddr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyScheme {
    /// `CONNECT` in plain text.
    Http,
    /// `CONNECT` inside TLS.
    Https,
    /// SOCKS 5. The proxy resolves names, for `socks5` as for `socks5h`, as in Go.
    Socks5,
}

impl ProxyAddr {
    /// Parses the `proxy-url` of a kubeconfig cluster: http, https or socks5.
    ///
    /// # Errors
    /// When it is not such a URL. The error does not repeat it: it may hold a password.
    pub fn parse(url: &str) -> Result<Self, ProxyAddrError> {
        let url = GoUrl::parse(url).ok_or(ProxyAddrError::Syntax)?;
        // Variables may say socks5h, a kubeconfig may not.
        if url.scheme == "socks5h" { Err(ProxyAddrError::UnsupportedScheme) } else { Self::from_url(&url) }
    }

    /// Parses the value of `HTTPS_PROXY` or `HTTP_PROXY`, in which the scheme is optional.
    ///
    /// # Errors
    /// As [`ProxyAddr::parse`]. Go ignores a value with [`ProxyAddrError::Syntax`].
    pub fn parse_variable(value: &Secret) -> Result<Self, ProxyAddrError> {
        let with_scheme = Secret::new(format!("http://{}", value.expose()));
        let is_complete = |url: &GoUrl<'_>| !url.scheme.is_empty() && !url.host.is_empty();
        // `http://` alone: Go would connect to a host named `http`.
        let scheme_as_host = |url: &GoUrl<'_>| value.expose().starts_with(&format!("{}://", url.host));
        match (GoUrl::parse(value.expose()), GoUrl::parse(with_scheme.expose())) {
            (Some(url), _) if is_complete(&url) => Self::from_url(&url),
            (_, Some(url)) if scheme_as_host(&url) => Err(ProxyAddrError::InvalidHost),
            (_, Some(url)) | (Some(url), None) => Self::from_url(&url),
            (None, None) => Err(ProxyAddrError::Syntax),
        }
    }

    fn from_url(url: &GoUrl<'_>) -> Result<Self, ProxyAddrError> {
        let (scheme, default_port) = match &*url.scheme {
            "http" => (ProxyScheme::Http, 80),
            "https" => (ProxyScheme::Https, 443),
            "socks5" | "socks5h" => (ProxyScheme::Socks5, 1080),
            _ => return Err(ProxyAddrError::UnsupportedScheme),
        };
        let user = match url.user {
            Some(user) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                let decode = |text| decode_utf8(text).ok_or(ProxyAddrError::InvalidUserInfo);
                Some((decode(name)?, decode(password)?))
            }
            None => None,
        };
        let port = match url.port {
            "" => default_port,
            port => port.parse().map_err(|_| ProxyAddrError::InvalidHost)?,
        };
        // Colons, and `%` before a zone, occur in IPv6 addresses only.
        let is_ipv6 = url.host.split('%').next().is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
        let is_invalid = |byte: u8| !byte.is_ascii_graphic() || (!is_ipv6 && b":%".contains(&byte));
        if url.host.is_empty() || url.host.bytes().any(is_invalid) {
            return Err(ProxyAddrError::InvalidHost);
        }
        let target = HostPort::new(&url.host, port);
        Ok(Self { scheme, name: target.to_string().into(), target, user })
    }

    /// The protocol to speak.
    pub fn scheme(&self) -> ProxyScheme {
        self.scheme
    }

    /// Host and port.
    pub fn target(&self) -> &HostPort {
        &self.target
    }

    /// `host:port`, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same, shared.
    pub fn shared_name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// User name and password, if the URL has them. They are sent to the proxy only.
    pub fn user(&self) -> Option<(&Secret, &Secret)> {
        self.user.as_ref().map(|(name, password)| (name, password))
    }
}

/// Shows scheme and address, never user name and password.
impl fmt::Debug for ProxyAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyAddr({:?} {})", self.scheme, self.name)
    }
}

/// Why a URL is not a proxy's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum ProxyAddrError {
    /// It is not a URL.
    Syntax,
    /// The scheme is none of http, https and socks5.
    UnsupportedScheme,
    /// Host or port is missing or invalid. Go would report it when it connects.
    InvalidHost,
    /// User name or password is not UTF-8. Go would send any bytes.
    InvalidUserInfo,
}

impl ProxyAddrError {
    /// The message, which continues a sentence about the address.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Syntax => "is not a URL",
            Self::UnsupportedScheme => "has a scheme other than http, https and socks5",
            Self::InvalidHost => "has an invalid host or port",
            Self::InvalidUserInfo => "has a user name or password that is not UTF-8",
        }
    }
}

fn decode_utf8(text: &str) -> Option<Secret> {
    std::str::from_utf8(&percent_decode(text)?).ok().map(Secret::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_proxy_url_is_an_error() {
        let error = |url: &str| ProxyAddr::parse(url).unwrap_err();
        for bad in ["p:3128", "socks5h://p", "//p"] {
            assert_eq!(error(bad), ProxyAddrError::UnsupportedScheme, "{bad}");
        }
        for bad in ["http://p:x", "http://[::1", "http://u%zz@p", "http://a b", "://p"] {
            assert_eq!(error(bad), ProxyAddrError::Syntax, "{bad}");
        }
        for bad in ["http://", "http://p:99999"] {
            assert_eq!(error(bad), ProxyAddrError::InvalidHost, "{bad}");
        }
    }

    #[test]
    fn decodes_and_redacts_user_info() {
        let proxy = ProxyAddr::parse("http://jane%40corp:p%3Ass%2Fword@[2001:db8::1]:8080/path").unwrap();
        let (name, password) = proxy.user().unwrap();
        assert_eq!((name.expose(), password.expose()), ("jane@corp", "p:ss/word"));
        assert_eq!(proxy.name(), "[2001:db8::1]:8080");
        assert!(!format!("{proxy:?}").contains("jane"));
    }
}
