//! The way through a proxy.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::route::{Connecting, Direct, Forwarding, Route, Wire};
use super::{Error, Proxy, ProxyScheme, Target, words};

/// Through a proxy: a tunnel to an https server, one request after the other to an http server.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) direct: Direct,
    pub(super) proxy: Proxy,
    /// For a proxy that is reached by TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// The proxy passes requests on, each for itself.
    pub(super) forwards: bool,
}

impl Route for Tunnel {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move {
            let wire = self.direct.connect(self.proxy.target()).await?;
            let wire = match &self.tls {
                Some(config) => self.protect(wire, config.clone()).await?,
                None => wire,
            };
            let result = match self.proxy.scheme() {
                ProxyScheme::Socks5 => socks5(wire, &self.proxy, target).await,
                _ if self.forwards => Ok(wire),
                _ => connect(wire, &self.proxy, target).await,
            };
            result.map_err(|why| match why {
                Refusal::Lost(error) => Error::Unreachable { host: self.proxy.shared_name(), source: Arc::new(error) },
                Refusal::Said(reason) => {
                    Error::ProxyRefused { proxy: self.proxy.shared_name(), host: target.to_string().into(), reason }
                }
            })
        })
    }

    fn via(&self) -> Option<&str> {
        Some(self.proxy.name())
    }

    fn forwarding(&self) -> Option<Forwarding> {
        self.forwards.then(|| Forwarding { authorization: self.proxy.authorization() })
    }
}

impl Tunnel {
    async fn protect(&self, wire: Wire, config: Arc<ClientConfig>) -> Result<Wire, Error> {
        let name = ServerName::try_from(self.proxy.target().host().to_owned()).map_err(|_| Error::ProxyUrl {
            origin: "proxy-url",
            reason: "has a host that no certificate can be for",
        })?;
        match TlsConnector::from(config).connect(name, wire).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(words::handshake(&self.proxy.shared_name(), &error)),
        }
    }
}

enum Refusal {
    Lost(io::Error),
    Said(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Said("it closed the connection".into()),
            _ => Self::Lost(error),
        }
    }
}

/// Asks for a tunnel by `CONNECT` (RFC 9110, 9.3.6).
async fn connect(mut wire: Wire, proxy: &Proxy, target: &Target) -> Result<Wire, Refusal> {
    /// More than any proxy says.
    const LONGEST_HEAD: usize = 64 * 1024;

    let mut head = zeroize::Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes());
    if let Some(value) = proxy.authorization() {
        head.extend([b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    wire.write_all(&head).await?;
    wire.flush().await?;

    // Byte by byte would be safe but slow; what comes after the head is looked at below.
    let mut answer = Vec::with_capacity(1024);
    let end = loop {
        if let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if answer.len() > LONGEST_HEAD {
            return Err(Refusal::Said("its answer has no end".into()));
        }
        if wire.read_buf(&mut answer).await? == 0 {
            return Err(Refusal::Said("it closed the connection".into()));
        }
    };
    // Only the number: a proxy may repeat in words what it was sent.
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let number = line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    match number.and_then(|number| StatusCode::from_bytes(number).ok()) {
        Some(status) if status.is_success() && answer.len() == end => Ok(wire),
        Some(status) if status.is_success() => Err(Refusal::Said("it spoke before the server could".into())),
        Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED) if proxy.user().is_none() => {
            Err(Refusal::Said("it wants a user name and a password (407)".into()))
        }
        Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
            Err(Refusal::Said("it does not accept the user name or the password (407)".into()))
        }
        Some(status) => Err(Refusal::Said(status.to_string())),
        None => Err(Refusal::Said("it does not speak HTTP".into())),
    }
}

/// SOCKS 5 (RFC 1928) with or without a password (RFC 1929).
async fn socks5(mut wire: Wire, proxy: &Proxy, target: &Target) -> Result<Wire, Refusal> {
    const NO_PASSWORD: u8 = 0;
    const PASSWORD: u8 = 2;
    let said = |reason: &str| Refusal::Said(reason.to_owned());

    let methods: &[u8] = if proxy.user().is_some() { &[5, 2, NO_PASSWORD, PASSWORD] } else { &[5, 1, NO_PASSWORD] };
    wire.write_all(methods).await?;
    wire.flush().await?;
    let mut answer = [0; 2];
    wire.read_exact(&mut answer).await?;
    match (answer, proxy.user()) {
        ([5, NO_PASSWORD], _) => {}
        ([5, PASSWORD], Some((name, password))) => {
            let mut message = zeroize::Zeroizing::new(vec![1]);
            for part in [name, password] {
                let length = u8::try_from(part.expose().len());
                message.push(length.map_err(|_| said("the user name or the password is too long for it"))?);
                message.extend(part.expose().as_bytes());
            }
            wire.write_all(&message).await?;
            wire.flush().await?;
            wire.read_exact(&mut answer).await?;
            if answer[1] != 0 {
                return Err(said("it does not accept the user name or the password"));
            }
        }
        ([5, _], None) => return Err(said("it wants a user name and a password")),
        ([5, _], Some(_)) => return Err(said("it knows no way to log in that we know")),
        _ => return Err(said("it does not speak SOCKS 5")),
    }

    let mut request = vec![5, 1, 0];
    match target.host().parse() {
        Ok(IpAddr::V4(ip)) => request.extend([&[1], &ip.octets()[..]].concat()),
        Ok(IpAddr::V6(ip)) => request.extend([&[4], &ip.octets()[..]].concat()),
        Err(_) => {
            let length = u8::try_from(target.host().len()).map_err(|_| said("the name is too long for it"))?;
            request.extend([&[3, length], target.host().as_bytes()].concat());
        }
    }
    request.extend(target.port().to_be_bytes());
    wire.write_all(&request).await?;
    wire.flush().await?;

    let mut answer = [0; 4];
    wire.read_exact(&mut answer).await?;
    let reason = match answer {
        [5, 0, ..] => None,
        [5, 1, ..] => Some("it failed"),
        [5, 2, ..] => Some("its rules forbid it"),
        [5, 3, ..] => Some("the network cannot be reached"),
        [5, 4, ..] => Some("the host cannot be reached"),
        [5, 5, ..] => Some("the connection was refused"),
        [5, 6, ..] => Some("it took too long"),
        [5, ..] => Some("it cannot do that"),
        _ => Some("it does not speak SOCKS 5"),
    };
    if let Some(reason) = reason {
        return Err(said(reason));
    }
    // The address it connected from, which is of no use to us.
    let length = match answer[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(wire.read_u8().await?),
        _ => return Err(said("it does not speak SOCKS 5")),
    };
    wire.read_exact(&mut vec![0; length + 2]).await?;
    Ok(wire)
}
