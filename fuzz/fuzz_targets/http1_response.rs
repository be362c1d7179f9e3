//! Bytes of an HTTP/1.1 server, head and body.

#![no_main]

use std::io::Cursor;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};

use credlet_exec::SystemClock;
use credlet_http::{
    ClientSettings, ConnectFuture, CryptoBackend, HostPort, HttpClient, RequestBody, Route, ServerAddr,
};
use http_body::Body as _;

/// A server that sends these bytes, whatever it receives.
#[derive(Debug, Default)]
struct RawServer(Mutex<Vec<u8>>);

impl Route for RawServer {
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        let bytes = self.0.lock().expect("one thread").clone();
        Box::pin(async move { Ok(Box::new(tokio::io::join(Cursor::new(bytes), tokio::io::sink())) as _) })
    }
}

struct Setup {
    runtime: tokio::runtime::Runtime,
    server: Arc<RawServer>,
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    let setup = SETUP.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Setup { runtime, server: Arc::default() }
    });
    *setup.server.0.lock().expect("one thread") = bytes.to_vec();
    let server = ServerAddr::parse("http://api.example").expect("our own address");
    let mut settings = ClientSettings::new(server, CryptoBackend::aws_lc_rs(), Arc::new(SystemClock::new()));
    settings.route = Some(setup.server.clone());
    settings.max_retries = 0;
    let client = HttpClient::new(settings).expect("our own settings");
    setup.runtime.block_on(async {
        let mut request = http::Request::new(RequestBody::empty());
        *request.uri_mut() = "/version".parse().expect("our own path");
        let Ok(response) = client.send(request).await else { return };
        assert!(bytes.starts_with(b"HTTP/1."));
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            length += frame.data_ref().map_or(0, |piece| piece.len());
        }
        assert!(length <= bytes.len());
    });
});
