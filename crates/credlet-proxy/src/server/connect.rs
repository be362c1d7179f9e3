//! The first words at a port that clients take for an HTTP proxy: one `CONNECT`, and only to the API server.
//!
//! Nothing is connected to anything here. What goes through the tunnel is TLS with this very proxy, and requests are
//! looked at as they are at every other way in. So these words give nobody anything: whoever speaks them still has to
//! show a certificate. They are checked because a program that wanted to go elsewhere should be told that it cannot.

use std::io::{self, Cursor};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Chain, Join};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::authority::Authorities;
use super::rescue::Trouble;

/// How large the head may be, in bytes. Those of client-go have less than 200.
const LARGEST: usize = 8 << 10;

/// How many headers it may have. Nobody reads them.
const MOST_HEADERS: usize = 64;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What comes after the head. A client may not wait for the answer, so some of it may have come with the head.
pub(super) type Tunnel = Join<Chain<Cursor<Vec<u8>>, OwnedReadHalf>, OwnedWriteHalf>;

/// Hears what a client wants, and returns what it has said beyond that.
pub(super) async fn hear(stream: &mut TcpStream, authorities: &Authorities) -> Result<Vec<u8>, Trouble> {
    let head = tokio::time::timeout(PATIENCE, head(stream, authorities)).await;
    head.unwrap_or_else(|_| Err(Trouble::slow()))
}

/// Lets it in.
pub(super) async fn open(mut stream: TcpStream, ahead: Vec<u8>) -> io::Result<Tunnel> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let (reader, writer) = stream.into_split();
    Ok(tokio::io::join(Cursor::new(ahead).chain(reader), writer))
}

async fn head(stream: &mut TcpStream, authorities: &Authorities) -> Result<Vec<u8>, Trouble> {
    let mut said = Vec::with_capacity(512);
    loop {
        match stream.read_buf(&mut said).await {
            Ok(0) | Err(_) => return Err(Trouble::malformed("the head of the request broke off")),
            Ok(_) => {}
        }
        match length(&said[..said.len().min(LARGEST)], authorities)? {
            Some(length) => return Ok(said.split_off(length)),
            None if said.len() >= LARGEST => return Err(Trouble::large_head(LARGEST as u32)),
            None => {}
        }
    }
}

/// How long the head is, if all of it is here and it is a good one.
fn length(said: &[u8], authorities: &Authorities) -> Result<Option<usize>, Trouble> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let parsed = head.parse(said).map_err(|error| match error {
        httparse::Error::TooManyHeaders => Trouble::large_head(LARGEST as u32),
        _ => Trouble::malformed("this is no request of HTTP/1.1"),
    })?;
    let (httparse::Status::Complete(length), Some(method), Some(target)) = (parsed, head.method, head.path) else {
        return Ok(None);
    };
    if method != "CONNECT" {
        return Err(Trouble::only_tunnels(authorities.server()));
    }
    if !authorities.allows(target) {
        return Err(Trouble::no_way(target, authorities.server()));
    }
    Ok(Some(length))
}

/// Says why it is not let in, and waits a moment for it to read that: what it has said and nobody has read would take the
/// answer away with the connection.
pub(super) async fn refuse(mut stream: TcpStream, trouble: Trouble) -> io::Result<()> {
    const MOMENT: Duration = Duration::from_secs(1);
    const ENOUGH: u64 = 1 << 20;
    stream.write_all(&trouble.written()).await?;
    stream.shutdown().await?;
    let mut rest = stream.take(ENOUGH);
    let _ = tokio::time::timeout(MOMENT, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use credlet_client::conn::Server;
    use http::StatusCode;

    use super::*;

    #[test]
    fn a_tunnel_is_for_the_api_server_however_its_name_is_written_and_for_nobody_else() {
        let of = |server: &str, said: &str| {
            let authorities = Authorities::new(&Server::parse(server).unwrap(), None).unwrap();
            length(said.as_bytes(), &authorities).map_err(|trouble| trouble.code())
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
