//! TLS between a client and its proxy: on the socket, and on a port of this machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use credlet_api::Secret;
use credlet_client::conn::{
    Client, Connecting, Credential, Crypto, Error, Identity, Payload, Roots, Route, Server, Settings, Target,
};
use credlet_core::{Clock as _, SystemClock};
use credlet_proxy::server::{Authority, Guise, Loopback};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::server::Server as Upstream;
use http::Request;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::neighbours::reserved;
use crate::support::{Proxy, Simple, cluster, within};

#[derive(Debug)]
struct Socket(PathBuf);

impl Route for Socket {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        Box::pin(async move { Ok(Box::new(UnixStream::connect(&self.0).await.unwrap()) as _) })
    }
}

/// Shows what it was given, or nothing, to whoever has a certificate of this authority.
pub(crate) fn client(
    server: &str,
    ca: &str,
    given: Option<(&str, &Secret)>,
    socket: Option<PathBuf>,
    http2: bool,
) -> Client {
    client_with(server, ca, given, |settings| {
        settings.tuning.http2 = http2;
        if let Some(socket) = socket {
            settings.tls_server_name = Some("localhost".into());
            settings.route = Some(Arc::new(Socket(socket)));
        }
    })
}

pub(crate) fn client_with(
    server: &str,
    ca: &str,
    given: Option<(&str, &Secret)>,
    adjust: impl FnOnce(&mut Settings),
) -> Client {
    let crypto = Crypto::aws_lc_rs();
    let server = Server::parse(server).unwrap();
    let mut settings = Settings::new(server, crypto.clone(), Arc::new(SystemClock::new()));
    settings.roots = Roots::Pem(ca.into());
    adjust(&mut settings);
    let client = Client::new(settings).unwrap();
    let identity = given.map(|(certificate, key)| Identity::from_pem(certificate.as_bytes(), key, &crypto).unwrap());
    client.publish(Credential::new(1, None, identity)).unwrap();
    client
}

pub(crate) async fn version(client: &Client) -> Result<String, Error> {
    let response = within(client.send(Request::get("/version").body(Payload::empty()).unwrap())).await?;
    let status = response.status();
    let body = within(response.into_body().collect()).await?.to_bytes();
    Ok(format!("{status} {}", String::from_utf8_lossy(&body)))
}

#[tokio::test]
async fn a_client_with_the_certificate_it_was_given_comes_in_and_one_without_does_not() {
    let watch = Watch::new();
    let ca = Ca::new();
    let upstream = Upstream::setup(&ca).start();
    let proxy = Proxy::start_with(Simple::nothing(), &cluster(&upstream, &ca), |_| ()).await;
    let answer = &proxy.answer;
    watch.adopt("client key", answer.client_key_data.expose());
    let config = answer.proxy_config.as_ref().unwrap();
    assert_eq!(config.url, format!("unix://{}", proxy.dir.socket().display()));
    assert!(answer.expiration_timestamp.is_some());
    let pinned = String::from_utf8(config.certificate_authority_data.clone()).unwrap();
    let given = Some((&*answer.client_certificate_data, &answer.client_key_data));
    let socket = Some(proxy.dir.socket());

    for http2 in [true, false] {
        let good = client(&upstream.url(), &pinned, given, socket.clone(), http2);
        assert!(version(&good).await.unwrap().starts_with("200 OK"));
        let nobody = client(&upstream.url(), &pinned, None, socket.clone(), http2);
        watch.error(&version(&nobody).await.unwrap_err());
        let stranger = Ca::new().client("a client of credlet proxy").issue();
        let key = Secret::new(stranger.key_pem());
        let stranger = client(&upstream.url(), &pinned, Some((stranger.cert_pem(), &key)), socket.clone(), http2);
        assert!(version(&stranger).await.is_err());
        let deceived = client(&upstream.url(), ca.pem(), given, socket.clone(), http2);
        assert!(version(&deceived).await.is_err(), "the proxy is known by its own authority only");
    }
    assert_eq!(upstream.counts().requests, 2);
    let mut plain = proxy.connect().await;
    plain.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut told = Vec::new();
    within(plain.read_to_end(&mut told)).await.unwrap();
    assert!(!told.starts_with(b"HTTP"), "no word in the clear");
}

#[tokio::test]
async fn a_port_serves_those_who_were_given_a_certificate_and_a_new_daemon_still_knows_them() {
    let watch = Watch::new();
    let (ca, home) = (Ca::new(), tempfile::tempdir().unwrap());
    let upstream = Upstream::setup(&ca).start();
    let kept = home.path().join("authority.pem");
    let now = SystemClock::new().now();
    let authority = || Arc::new(Authority::kept_in(&kept, now).unwrap());
    let text = std::fs::read_to_string({
        authority();
        &kept
    })
    .unwrap();
    watch.adopt("kept keys", &text);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(text.matches("PRIVATE KEY-----").count(), 4, "two keys: that of the pinned authority is gone");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no drafts are left");

    let cluster = cluster(&upstream, &ca);
    let (_reserved, port) = reserved();
    let start = || {
        let loopback = Some(Loopback { port, guise: Guise::Server, authority: authority() });
        Proxy::start_with(Simple::nothing(), &cluster, |options| options.loopback = loopback)
    };
    let first = start().await;
    let answer = first.control().lease(None).await.unwrap().status;
    assert!(answer.proxy_config.is_none() && answer.expiration_timestamp.is_some());
    let again = first.control().lease(None).await.unwrap().status;
    assert_eq!(again.client_certificate_data, answer.client_certificate_data, "client-go drops its watches otherwise");
    let pinned = authority().certificate().to_owned();
    let given = Some((&*answer.client_certificate_data, &answer.client_key_data));
    let url = format!("https://127.0.0.1:{port}");
    for http2 in [true, false] {
        assert!(version(&client(&url, &pinned, given, None, http2)).await.unwrap().starts_with("200 OK"));
        assert!(version(&client(&url, &pinned, None, None, http2)).await.is_err());
    }
    let socket_answer = &first.answer;
    let other_hop = Some((&*socket_answer.client_certificate_data, &socket_answer.client_key_data));
    assert!(
        version(&client(&url, &pinned, other_hop, None, true)).await.is_err(),
        "one hop's certificates are its own"
    );

    first.control().stop().await.unwrap();
    within(first.running).await.unwrap();
    let second = start().await;
    assert!(version(&client(&url, &pinned, given, None, true)).await.unwrap().starts_with("200 OK"));
    drop(second);
}

#[test]
fn kept_keys_that_others_can_read_are_refused_and_what_is_no_authority_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let (kept, now) = (home.path().join("authority.pem"), SystemClock::new().now());
    let first = Authority::kept_in(&kept, now).unwrap().certificate().to_owned();
    assert_eq!(Authority::kept_in(&kept, now).unwrap().certificate(), first);
    std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = Authority::kept_in(&kept, now).unwrap_err().to_string();
    assert_eq!(error, "the file with the proxy's own keys is open to other users");
    for rubbish in ["", "-----BEGIN CERTIFICATE-----\nhunter2\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&kept, rubbish).unwrap();
        std::fs::set_permissions(&kept, std::fs::Permissions::from_mode(0o600)).unwrap();
        let error = Authority::kept_in(&kept, now).unwrap_err().to_string();
        assert_eq!(error, "the file with the proxy's own keys is not a proxy's authority");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), rubbish);
    }
}
