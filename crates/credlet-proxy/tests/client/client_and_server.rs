//! Client and server together: the plugin prints the credential of our own server.

use credlet_api::exec::{ApiVersion, Cluster};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{self, SocketProtocol, UpstreamTarget};
use credlet_proxy::sign::FileSigner;
use credlet_testkit::plugin::TestPlugin;

use super::*;

#[tokio::test]
async fn own_client_and_server_interoperate() {
    for plain in [false, true] {
        let sandbox = ClientSandbox::new();
        let (certificate, key) = (sandbox.dir.path().join("cert.pem"), sandbox.dir.path().join("key.pem"));
        fs::write(&certificate, sandbox.identity.cert_pem()).unwrap();
        fs::write(&key, sandbox.identity.key_pem()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let signer = FileSigner::new(certificate, key, CryptoBackend::aws_lc_rs(), Arc::clone(&sandbox.clock));
        let ca = sandbox.ca.pem().into();
        let cluster = Cluster { server: sandbox.server.url(), certificate_authority_data: ca, ..Cluster::default() };
        let target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &Platform::system()).unwrap();
        let mut options = server::ServerOptions::new(target, ProxyDir::open(sandbox.other_dir()).unwrap());
        if plain {
            options.socket_protocol = SocketProtocol::Plain;
        }
        let server = server::ProxyServer::bind(Arc::new(signer), options).await.unwrap();
        let answer = server.credential_status().unwrap();
        sandbox.watch.adopt(
            "the client's key",
            Some(answer.client_key_data.expose()).filter(|key| !key.is_empty()).unwrap_or("no key at all"),
        );
        let plugin = TestPlugin::new().prints(answer.encode(ApiVersion::V1).as_str());
        let running = tokio::spawn(server.run());

        let client = sandbox.client(&plugin);
        assert_eq!(get(&client).await, StatusCode::OK);
        let request = Request::post("/echo").body(RequestBody::from("hello ".repeat(100_000))).unwrap();
        let echo = within(client.send(request)).await.unwrap().into_body();
        assert!(within(echo.collect()).await.unwrap().to_bytes().len() > 600_000);
        let mut watch = send(&client, Method::GET, "/watch?interval_ms=10").await.unwrap().into_body();
        for _ in 0..3 {
            within(watch.frame()).await.unwrap().unwrap();
        }
        let seen = sandbox.server.last_request();
        assert_eq!((seen.common_name(), plugin.runs()), (Some("proxied"), 1));
        running.abort();
    }
}
