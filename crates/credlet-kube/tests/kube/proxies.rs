//! HTTP proxies of the configuration and of the environment.

use std::sync::Arc;

use credlet_client::AuthenticatorRegistry;
use credlet_exec::{FixedEnv, Platform};
use credlet_kube::KubeClientOptions;
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::FakeApiServer;
use kube::Config;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::within;

/// HTTP proxy that records the request line and credential of each CONNECT.
async fn proxy() -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut client = BufReader::new(client);
                let (mut asked, mut line) = (String::new(), String::new());
                while client.read_line(&mut line).await.unwrap() > 2 {
                    asked += &std::mem::take(&mut line);
                }
                let target = asked.split(' ').nth(1).unwrap().to_owned();
                let _ = tell.send(asked);
                let mut server = TcpStream::connect(target).await.unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (port, told)
}

#[tokio::test]
async fn uses_configured_proxy_before_environment() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let (port, mut told) = proxy().await;
    let config = || {
        let mut config = Config::new(server.url().replace("127.0.0.1", "localhost").parse().unwrap());
        config.root_cert = Some(vec![ca.der().to_vec()]);
        config
    };
    let version = async |config: Config, vars: &[(&str, &str)]| {
        let env = Arc::new(FixedEnv::new(vars.iter().copied()));
        let authenticators = Arc::new(AuthenticatorRegistry::new(Platform { env, ..Platform::system() }));
        let client = credlet_kube::client(KubeClientOptions::from(config).with_authenticators(authenticators)).unwrap();
        within(client.apiserver_version()).await.unwrap();
    };

    let mut configured = config();
    configured.proxy_url = Some(format!("http://ada:hunter2@127.0.0.1:{port}").parse().unwrap());
    version(configured, &[("NO_PROXY", "localhost")]).await;
    let asked = told.try_recv().unwrap().to_lowercase();
    assert!(asked.starts_with(&format!("connect localhost:{} ", server.address().port())), "{asked}");
    assert!(asked.contains("proxy-authorization: basic ywrhomh1bnrlcji="), "{asked}");

    // Go never sends a request for this machine through the environment's proxy.
    version(config(), &[("HTTPS_PROXY", &format!("http://127.0.0.1:{port}"))]).await;
    assert!(told.try_recv().is_err());
}
