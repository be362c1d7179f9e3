//! Connections through an HTTP, HTTPS or SOCKS5 proxy.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use http::StatusCode;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::route::{BoxedStream, ConnectFuture, DirectRoute, ProxyForwarding, Route};
use super::{HostPort, HttpError, ProxyAddr, ProxyScheme, proxy, tls_error};

/// Route through a proxy: a tunnel to an https server, single forwarded requests to an http server.
#[derive(Debug)]
pub(super) struct ProxyTunnel {
    pub(super) direct: DirectRoute,
    pub(super) proxy: ProxyAddr,
    /// TLS configuration for an HTTPS proxy.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// The proxy forwards single requests.
    pub(super) forwarding: bool,
}

impl Route for ProxyTunnel {
    fn connect<'a>(&'a self, target: &'a HostPort) -> ConnectFuture<'a> {
        Box::pin(async move {
            let stream = self.direct.connect(self.proxy.target()).await?;
            let stream = match &self.tls {
                Some(config) => self.start_tls(stream, config.clone()).await?,
                None => stream,
            };
            let result = match self.proxy.scheme() {
                ProxyScheme::Socks5 => socks5(stream, &self.proxy, target).await,
                _ if self.forwarding => Ok(stream),
                _ => connect(stream, &self.proxy, target).await,
            };
            result.map_err(|error| match error {
                TunnelError::Io(error) => {
                    HttpError::Unreachable { host: self.proxy.shared_name(), source: Arc::new(error) }
                }
                TunnelError::Refused(reason) => {
                    HttpError::ProxyRefused { proxy: self.proxy.shared_name(), host: target.to_string().into(), reason }
                }
            })
        })
    }

    fn via(&self) -> Option<&str> {
        Some(self.proxy.name())
    }

    fn forwarding(&self) -> Option<ProxyForwarding> {
        self.forwarding.then(|| ProxyForwarding { authorization: proxy::authorization(&self.proxy) })
    }
}

impl ProxyTunnel {
    async fn start_tls(&self, stream: BoxedStream, config: Arc<ClientConfig>) -> Result<BoxedStream, HttpError> {
        let name = ServerName::try_from(self.proxy.target().host().to_owned()).map_err(|_| {
            HttpError::InvalidProxy { origin: "proxy-url", reason: "has a host that is not a valid TLS server name" }
        })?;
        match TlsConnector::from(config).connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(tls_error::handshake_error(&self.proxy.shared_name(), &error)),
        }
    }
}

enum TunnelError {
    Io(io::Error),
    /// The proxy rejected the tunnel, or its response is invalid.
    Refused(String),
}

impl From<io::Error> for TunnelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Refused(CLOSED.into()),
            _ => Self::Io(error),
        }
    }
}

/// Opens a tunnel on a connection to the proxy. Returns the text of the error on failure.
#[cfg(feature = "fuzzing")]
pub(super) async fn open(stream: BoxedStream, proxy: &ProxyAddr, target: &HostPort) -> Result<BoxedStream, String> {
    let opened = match proxy.scheme() {
        ProxyScheme::Socks5 => socks5(stream, proxy, target).await,
        _ => connect(stream, proxy, target).await,
    };
    opened.map_err(|error| match error {
        TunnelError::Io(error) => error.to_string(),
        TunnelError::Refused(reason) => reason,
    })
}

const CLOSED: &str = "connection closed by the proxy";

/// Opens a tunnel with `CONNECT` (RFC 9110, section 9.3.6).
async fn connect(mut stream: BoxedStream, proxy: &ProxyAddr, target: &HostPort) -> Result<BoxedStream, TunnelError> {
    const MAX_HEAD_SIZE: usize = 64 * 1024;

    let mut head = zeroize::Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes());
    if let Some(value) = proxy::authorization(proxy) {
        head.extend([b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    stream.write_all(&head).await?;
    stream.flush().await?;

    // Data after the head is rejected below, so the head need not be read byte by byte.
    let mut response = Vec::with_capacity(1024);
    let end = loop {
        if let Some(end) = response.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if response.len() > MAX_HEAD_SIZE {
            return Err(TunnelError::Refused("response head too large".into()));
        }
        if stream.read_buf(&mut response).await? == 0 {
            return Err(TunnelError::Refused(CLOSED.into()));
        }
    };
    // Only the status code: a proxy may repeat the request, with its credentials, in the reason phrase.
    let line = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let code = line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    match code.and_then(|code| StatusCode::from_bytes(code).ok()) {
        Some(status) if status.is_success() && response.len() == end => Ok(stream),
        Some(status) if status.is_success() => {
            Err(TunnelError::Refused("unexpected data after the response head".into()))
        }
        Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED) if proxy.user().is_none() => {
            Err(TunnelError::Refused("user name and password required (407)".into()))
        }
        Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED) => {
            Err(TunnelError::Refused("user name or password rejected (407)".into()))
        }
        Some(status) => Err(TunnelError::Refused(status.to_string())),
        None => Err(TunnelError::Refused("invalid HTTP response".into())),
    }
}

/// Opens a tunnel with SOCKS 5 (RFC 1928), with or without a password (RFC 1929).
async fn socks5(mut stream: BoxedStream, proxy: &ProxyAddr, target: &HostPort) -> Result<BoxedStream, TunnelError> {
    const NO_PASSWORD: u8 = 0;
    const PASSWORD: u8 = 2;
    let refused = |reason: &str| TunnelError::Refused(reason.to_owned());

    let methods: &[u8] = if proxy.user().is_some() { &[5, 2, NO_PASSWORD, PASSWORD] } else { &[5, 1, NO_PASSWORD] };
    stream.write_all(methods).await?;
    stream.flush().await?;
    let mut reply = [0; 2];
    stream.read_exact(&mut reply).await?;
    match (reply, proxy.user()) {
        ([5, NO_PASSWORD], _) => {}
        ([5, PASSWORD], Some((name, password))) => {
            let mut message = zeroize::Zeroizing::new(vec![1]);
            for part in [name, password] {
                let length = u8::try_from(part.expose().len());
                message.push(length.map_err(|_| refused("user name or password too long"))?);
                message.extend(part.expose().as_bytes());
            }
            stream.write_all(&message).await?;
            stream.flush().await?;
            stream.read_exact(&mut reply).await?;
            if reply[1] != 0 {
                return Err(refused("user name or password rejected"));
            }
        }
        ([5, _], None) => return Err(refused("user name and password required")),
        ([5, _], Some(_)) => return Err(refused("unsupported authentication method")),
        _ => return Err(refused("invalid SOCKS 5 reply")),
    }

    let mut request = vec![5, 1, 0];
    match target.host().parse() {
        Ok(IpAddr::V4(ip)) => request.extend([&[1], &ip.octets()[..]].concat()),
        Ok(IpAddr::V6(ip)) => request.extend([&[4], &ip.octets()[..]].concat()),
        Err(_) => {
            let length = u8::try_from(target.host().len()).map_err(|_| refused("host name too long"))?;
            request.extend([&[3, length], target.host().as_bytes()].concat());
        }
    }
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;

    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await?;
    let reason = match reply {
        [5, 0, ..] => None,
        [5, 1, ..] => Some("general failure"),
        [5, 2, ..] => Some("not allowed by its rules"),
        [5, 3, ..] => Some("network unreachable"),
        [5, 4, ..] => Some("host unreachable"),
        [5, 5, ..] => Some("connection refused"),
        [5, 6, ..] => Some("timed out"),
        [5, ..] => Some("unsupported command or address type"),
        _ => Some("invalid SOCKS 5 reply"),
    };
    if let Some(reason) = reason {
        return Err(refused(reason));
    }
    // Skips the bound address.
    let length = match reply[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Err(refused("invalid SOCKS 5 reply")),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(stream)
}
