use std::convert::Infallible;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::{ClientCertificates, FakeApiServer, ResponseFuture};
use http_body_util::{BodyExt as _, Channel};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};

use crate::{RunResult, tell, time_of_day, until_let_go};

const EVENTS: usize = 200;
const BETWEEN_EVENTS: Duration = Duration::from_millis(10);

/// Writes all certificates to `dir`, also for the other servers of the benchmark.
pub(crate) async fn run(dir: &Path) -> RunResult {
    let ca = TestCa::new();
    let (server, client) = (ca.server().for_host("localhost").issue(), ca.client("bench").issue());
    for (name, text) in [
        ("ca.pem", ca.pem()),
        ("server.pem", server.cert_pem()),
        ("server.key", server.key_pem()),
        ("client.pem", client.cert_pem()),
        ("client.key", client.key_pem()),
    ] {
        fs::write(dir.join(name), text)?;
    }
    let setup = FakeApiServer::setup(&ca).identity(server).client_certificates(ClientCertificates::Required);
    let server = setup.answering(stamped).start();
    tell(&format!("port={}", server.address().port()));
    until_let_go().await
}

/// `/stamped`: a watch whose events contain their send time.
fn stamped(request: Request<Incoming>) -> ControlFlow<ResponseFuture, Request<Incoming>> {
    if request.uri().path() != "/stamped" {
        return ControlFlow::Continue(request);
    }
    ControlFlow::Break(Box::pin(async {
        let (mut events, body) = Channel::<Bytes, Infallible>::new(1);
        tokio::spawn(async move {
            for _ in 0..EVENTS {
                tokio::time::sleep(BETWEEN_EVENTS).await;
                let line = format!("{}\n", time_of_day());
                if events.send(Frame::data(line.into())).await.is_err() {
                    break;
                }
            }
        });
        Response::new(body.boxed_unsync())
    }))
}
