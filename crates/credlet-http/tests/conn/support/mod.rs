//! Helpers for the connection tests.

pub(crate) mod raw;
pub(crate) mod server;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use credlet_http::{
    ClientSettings, CryptoBackend, HttpClient, HttpCredential, HttpError, RequestBody, ResponseBody, ServerAddr,
    TlsIdentity, TrustRoots,
};
use credlet_platform::SystemClock;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;

/// Fails a test that hangs. No test depends on the duration.
pub(crate) async fn with_timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it hangs")
}

/// Polls a condition that has no event to wait for.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    with_timeout(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Returns settings for a local server with this CA bundle.
pub(crate) fn settings(url: &str, ca: &str) -> ClientSettings {
    let mut settings =
        ClientSettings::new(ServerAddr::parse(url).unwrap(), CryptoBackend::aws_lc_rs(), Arc::new(SystemClock::new()));
    settings.roots = TrustRoots::Pem(ca.into());
    settings
}

pub(crate) fn client(server: &server::FakeServer) -> HttpClient {
    HttpClient::new(settings(&server.url(), server.ca.pem())).unwrap()
}

pub(crate) fn identity(pair: &credlet_testkit::ca::TestIdentity) -> TlsIdentity {
    TlsIdentity::from_pem(pair.cert_pem().as_bytes(), &pair.key_pem().into(), &CryptoBackend::aws_lc_rs()).unwrap()
}

pub(crate) fn bearer(token: &str) -> HeaderValue {
    HeaderValue::try_from(format!("Bearer {token}")).unwrap()
}

pub(crate) fn credential(
    generation: u64,
    token: &str,
    pair: Option<&credlet_testkit::ca::TestIdentity>,
) -> HttpCredential {
    HttpCredential::new(generation, Some(bearer(token)), pair.map(identity))
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<RequestBody>) -> Request<RequestBody> {
    Request::builder().method(method).uri(path).body(body.into()).unwrap()
}

pub(crate) async fn open(client: &HttpClient, path: &str) -> Result<Response<ResponseBody>, HttpError> {
    client.send(request(Method::GET, path, RequestBody::empty())).await
}

pub(crate) async fn get(client: &HttpClient, path: &str) -> Result<String, HttpError> {
    text(open(client, path).await?).await
}

pub(crate) async fn post(client: &HttpClient, path: &str, body: impl Into<Bytes>) -> Result<String, HttpError> {
    text(client.send(request(Method::POST, path, body.into())).await?).await
}

pub(crate) async fn text(response: Response<ResponseBody>) -> Result<String, HttpError> {
    Ok(String::from_utf8(response.into_body().collect().await?.to_bytes().into()).unwrap())
}

/// Returns the next event of a watch.
pub(crate) async fn event(body: &mut ResponseBody) -> Option<Result<Bytes, HttpError>> {
    loop {
        match with_timeout(body.frame()).await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) if !data.is_empty() => return Some(Ok(data)),
                _ => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Formats an error with all its sources.
pub(crate) fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
