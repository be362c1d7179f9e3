//! `CONNECT` handling on a port that clients use as an HTTP proxy (`proxy-url`). Only the API server is a valid target.
//!
//! No connection is made for the tunnel: it carries TLS that ends at this proxy, and the requests in it are processed
//! like all others. `CONNECT` therefore grants nothing, since clients still need a certificate. The target is checked
//! so that a program that wants another server gets a clear error.

use std::io::{self, Cursor};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Chain, Join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::authority::AllowedAuthorities;
use super::error_response::ProxyError;

/// Maximum size of the head in bytes. client-go sends less than 200.
const MAX_HEAD_SIZE: usize = 8 << 10;

/// Maximum number of headers. They are ignored.
const MAX_HEADERS: usize = 64;

/// Timeout for the head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The stream after the head. A client may send data before it receives the response, so some may already be read.
pub(super) type ConnectTunnel = Join<Chain<Cursor<Vec<u8>>, OwnedReadHalf>, OwnedWriteHalf>;

/// Reads and checks the `CONNECT` request. Returns the data that was received after its head.
pub(super) async fn read_request(
    stream: &mut TcpStream,
    authorities: &AllowedAuthorities,
) -> Result<Vec<u8>, ProxyError> {
    let head = tokio::time::timeout(HEAD_TIMEOUT, head(stream, authorities)).await;
    head.unwrap_or_else(|_| Err(ProxyError::head_timeout()))
}

/// Responds with success and returns the tunnel.
pub(super) async fn establish(mut stream: TcpStream, ahead: Vec<u8>) -> io::Result<ConnectTunnel> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let (reader, writer) = stream.into_split();
    Ok(tokio::io::join(Cursor::new(ahead).chain(reader), writer))
}

async fn head(stream: &mut TcpStream, authorities: &AllowedAuthorities) -> Result<Vec<u8>, ProxyError> {
    let mut received = Vec::with_capacity(512);
    loop {
        match stream.read_buf(&mut received).await {
            Ok(0) | Err(_) => return Err(ProxyError::malformed("incomplete request head")),
            Ok(_) => {}
        }
        match head_length(&received[..received.len().min(MAX_HEAD_SIZE)], authorities)? {
            Some(length) => return Ok(received.split_off(length)),
            None if received.len() >= MAX_HEAD_SIZE => return Err(ProxyError::head_too_large(MAX_HEAD_SIZE as u32)),
            None => {}
        }
    }
}

/// Returns the length of the head, or `None` if it is incomplete.
pub(super) fn head_length(received: &[u8], authorities: &AllowedAuthorities) -> Result<Option<usize>, ProxyError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let parsed = head.parse(received).map_err(|error| match error {
        httparse::Error::TooManyHeaders => ProxyError::head_too_large(MAX_HEAD_SIZE as u32),
        _ => ProxyError::malformed("not an HTTP/1.1 request"),
    })?;
    let (httparse::Status::Complete(length), Some(method), Some(target)) = (parsed, head.method, head.path) else {
        return Ok(None);
    };
    if method != "CONNECT" {
        return Err(ProxyError::connect_required(authorities.server()));
    }
    if !authorities.allows(target) {
        return Err(ProxyError::connect_to_other_server(target, authorities.server()));
    }
    Ok(Some(length))
}

/// Sends an error response and drains the connection briefly: closing a socket with unread data sends a RST, which can
/// discard the response at the client.
pub(super) async fn reject(mut stream: TcpStream, error: ProxyError) -> io::Result<()> {
    const LINGER: Duration = Duration::from_secs(1);
    const MAX_DISCARDED: u64 = 1 << 20;
    stream.write_all(&error.into_http1_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(MAX_DISCARDED);
    let _ = tokio::time::timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use credlet_http::ServerAddr;
    use http::StatusCode;

    use super::*;

    #[test]
    fn connect_target_must_be_the_api_server() {
        let of = |server: &str, received: &str| {
            let authorities = AllowedAuthorities::new(&ServerAddr::parse(server).unwrap(), None).unwrap();
            head_length(received.as_bytes(), &authorities).map_err(|error| error.code())
        };
        let connect = |server: &str, target: &str| of(server, &format!("CONNECT {target} HTTP/1.1\r\nA: b\r\n\r\n"));
        for (server, target) in [
            ("https://api.example", "api.example:443"),
            ("https://api.example/prefix", "API.Example:443"),
            ("https://api.example:6443", "api.example:6443"),
            ("https://[2001:db8::1]", "[2001:DB8::1]:443"),
            ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ] {
            assert!(matches!(connect(server, target), Ok(Some(_))), "{server} {target}");
        }
        for target in [
            "evil.example:443",
            "api.example:22",
            "api.example:443@evil.example:443",
            "ada@api.example:443",
            "https://api.example:443",
            "/version",
            "127.0.0.1:443",
            "localhost:443",
            "*",
        ] {
            assert_eq!(connect("https://api.example", target), Err(StatusCode::FORBIDDEN), "{target}");
        }
        let server = "https://api.example";
        let old = "CONNECT api.example:443 HTTP/1.0\r\n\r\nmore";
        assert_eq!(of(server, old), Ok(Some(old.len() - 4)), "some libraries still say 1.0");
        for half in ["", "CONN", "CONNECT api.example:443 HTTP/1.1\r\n", "CONNECT evil.example:443 HTTP/1.1\r\nHost: x"]
        {
            assert_eq!(of(server, half), Ok(None), "{half}");
        }
        for wrong in ["\u{16}\u{3}\u{1}", "PRI * HTTP/2.0\r\n\r\nSM", "CONNECT  HTTP/1.1\r\n\r\n", "\0"] {
            assert_eq!(of(server, wrong), Err(StatusCode::BAD_REQUEST), "{wrong}");
        }
        for other in ["GET http://api.example/ HTTP/1.1\r\n\r\n", "connect api.example:443 HTTP/1.1\r\n\r\n"] {
            assert_eq!(of(server, other), Err(StatusCode::METHOD_NOT_ALLOWED), "{other}");
        }
        let many = format!("CONNECT api.example:443 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
        assert_eq!(of(server, &many), Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
}
