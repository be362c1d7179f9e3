//! Both halves together: the plugin prints what our own server says of itself.

use credlet_api::exec::{ApiVersion, Cluster};
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{self, Hop, Target};
use credlet_proxy::sign::File;
use credlet_testkit::plugin::Plugin;

use super::*;

#[tokio::test]
async fn our_server_and_our_client_understand_each_other_with_tls_and_without() {
    for plain in [false, true] {
        let stand = Stand::new();
        let (certificate, key) = (stand.dir.path().join("cert.pem"), stand.dir.path().join("key.pem"));
        fs::write(&certificate, stand.identity.cert_pem()).unwrap();
        fs::write(&key, stand.identity.key_pem()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let signer = File::new(certificate, key, Crypto::aws_lc_rs(), Arc::clone(&stand.clock));
        let ca = stand.ca.pem().into();
        let cluster = Cluster { server: stand.server.url(), certificate_authority_data: ca, ..Cluster::default() };
        let target = Target::new(&cluster, Crypto::aws_lc_rs(), &World::system()).unwrap();
        let mut options = server::Options::new(target, Dir::open(stand.other_dir()).unwrap());
        if plain {
            options.hop = Hop::Plain;
        }
        let server = server::Server::bind(Arc::new(signer), options).await.unwrap();
        let answer = server.answer().unwrap();
        stand.watch.adopt(
            "the client's key",
            Some(answer.client_key_data.expose()).filter(|key| !key.is_empty()).unwrap_or("no key at all"),
        );
        let plugin = Plugin::new().prints(answer.encode(ApiVersion::V1).as_str());
        let running = tokio::spawn(server.run());

        let client = stand.client(&plugin);
        assert_eq!(get(&client).await, StatusCode::OK);
        let request = Request::post("/echo").body(Payload::from("hello ".repeat(100_000))).unwrap();
        let echo = within(client.send(request)).await.unwrap().into_body();
        assert!(within(echo.collect()).await.unwrap().to_bytes().len() > 600_000);
        let mut watch = send(&client, Method::GET, "/watch?interval_ms=10").await.unwrap().into_body();
        for _ in 0..3 {
            within(watch.frame()).await.unwrap().unwrap();
        }
        let seen = stand.server.last_request();
        assert_eq!((seen.common_name(), plugin.runs()), (Some("proxied"), 1));
        running.abort();
    }
}
