//! What several tests need.

pub(crate) mod raw;
pub(crate) mod server;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use credlet_client::conn::{Body, Client, Credential, Crypto, Error, Identity, Payload, Roots, Server, Settings};
use credlet_core::SystemClock;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;

/// Fails a test that hangs. No test depends on its length.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

/// Waits for something that has no event of its own to wait for.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// To a server on this machine, with this bundle of authorities.
pub(crate) fn settings(url: &str, ca: &str) -> Settings {
    let mut settings = Settings::new(Server::parse(url).unwrap(), Crypto::aws_lc_rs(), Arc::new(SystemClock::new()));
    settings.roots = Roots::Pem(ca.into());
    settings
}

pub(crate) fn client(server: &server::Server) -> Client {
    Client::new(settings(&server.url(), server.ca.pem())).unwrap()
}

pub(crate) fn identity(pair: &credlet_testkit::ca::Identity) -> Identity {
    Identity::from_pem(pair.cert_pem().as_bytes(), &pair.key_pem().into(), &Crypto::aws_lc_rs()).unwrap()
}

pub(crate) fn bearer(token: &str) -> HeaderValue {
    HeaderValue::try_from(format!("Bearer {token}")).unwrap()
}

pub(crate) fn credential(serial: u64, token: &str, pair: Option<&credlet_testkit::ca::Identity>) -> Credential {
    Credential::new(serial, Some(bearer(token)), pair.map(identity))
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<Payload>) -> Request<Payload> {
    Request::builder().method(method).uri(path).body(body.into()).unwrap()
}

pub(crate) async fn open(client: &Client, path: &str) -> Result<Response<Body>, Error> {
    client.send(request(Method::GET, path, Payload::empty())).await
}

pub(crate) async fn get(client: &Client, path: &str) -> Result<String, Error> {
    text(open(client, path).await?).await
}

pub(crate) async fn post(client: &Client, path: &str, body: impl Into<Bytes>) -> Result<String, Error> {
    text(client.send(request(Method::POST, path, body.into())).await?).await
}

pub(crate) async fn text(response: Response<Body>) -> Result<String, Error> {
    Ok(String::from_utf8(response.into_body().collect().await?.to_bytes().into()).unwrap())
}

/// The next piece of a watch.
pub(crate) async fn event(body: &mut Body) -> Option<Result<Bytes, Error>> {
    loop {
        match soon(body.frame()).await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Some(Ok(data)),
                _ => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

/// An error with all its causes, as an edge would print it.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
