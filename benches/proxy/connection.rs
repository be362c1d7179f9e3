//! An HTTP/1.1 connection to a socket, as a client of a local proxy opens it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HOST;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) struct LoadConnection {
    host: String,
    requests: SendRequest<Empty<Bytes>>,
}

impl LoadConnection {
    pub(crate) async fn to(place: &str, host: &str) -> Result<Self> {
        match place.split_once('@') {
            None => Self::over(UnixStream::connect(place).await?, host).await,
            Some(("", dir)) => {
                let stream = TcpStream::connect(host).await?;
                stream.set_nodelay(true)?;
                Self::over(shake_hands(stream, dir.as_ref()).await?, host).await
            }
            Some((socket, dir)) => {
                Self::over(shake_hands(UnixStream::connect(socket).await?, dir.as_ref()).await?, host).await
            }
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, host: &str) -> Result<Self> {
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        drop(tokio::spawn(connection));
        Ok(Self { host: host.to_owned(), requests })
    }

    /// Waits for the response head.
    pub(crate) async fn begin(&mut self, path: &str) -> Result<Response<Incoming>> {
        let request = Request::get(path).header(HOST, &self.host).body(Empty::new())?;
        let response = self.requests.send_request(request).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(format!("the answer is {}", response.status()).into()),
        }
    }

    /// Reads the response body. Returns its length.
    pub(crate) async fn get(&mut self, path: &str) -> Result<u64> {
        self.requests.ready().await?;
        let mut body = self.begin(path).await?.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(length)
    }
}

/// Connects with the certificates in `dir`.
async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(stream: S, dir: &Path) -> Result<TlsStream<S>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.join("ca.pem"))?)?;
    let (certificate, key) = (dir.join("client.pem"), dir.join("client.key"));
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![CertificateDer::from_pem_file(certificate)?], PrivateKeyDer::from_pem_file(key)?)?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, stream).await?)
}
