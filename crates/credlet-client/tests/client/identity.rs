//! Static credentials, token files and impersonation.

use std::time::Duration;

use credlet_client::Client;
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{ClientCertificates, FakeApiServer};
use http::StatusCode;

use crate::{base64, options, resolve, status};

#[tokio::test(flavor = "multi_thread")]
async fn static_credentials_take_precedence_over_plugin() {
    let watch = LeakCheck::new();
    let (token, password) = (watch.secret("token"), watch.secret("password"));
    let ca = TestCa::new();
    let ada = ca.client("ada").issue();
    let server = FakeApiServer::setup(&ca).client_certificates(ClientCertificates::Optional).start();
    let plugin = TestPlugin::new().exits(1);
    let exec = format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: '{}'}}",
        plugin.command().display()
    );
    let send = async |user: String| {
        let client = Client::new(&resolve(&server.url(), &ca, &user), options()).unwrap();
        watch.text(format!("{client:?}"));
        assert_eq!(status(&client, "/version").await, StatusCode::OK);
        server.last_request()
    };
    let seen = send(format!("{{token: '{}', {exec}}}", token.expose())).await;
    assert_eq!(seen.bearer(), Some(token.expose()));
    let seen = send(format!("{{username: ada, password: '{}', {exec}}}", password.expose())).await;
    let expected = format!("Basic {}", base64(&format!("ada:{}", password.expose())));
    assert_eq!(seen.header("authorization"), Some(&*expected));
    let seen = send(format!(
        "{{client-certificate-data: {}, client-key-data: {}, {exec}}}",
        base64(ada.cert_pem()),
        base64(ada.key_pem())
    ))
    .await;
    assert_eq!((seen.common_name(), seen.header("authorization")), (Some("ada"), None));
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_impersonation_and_user_agent_headers() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let user = "{token: t, as: grace, as-uid: '7', as-groups: [a, b], as-user-extra: {Scope/x%: [v]}}";
    let client = Client::new(&resolve(&format!("{}/k8s/clusters/c-1/", server.url()), &ca, user), options()).unwrap();
    status(&client, "/version?x=1").await;
    let seen = server.last_request();
    assert_eq!(seen.path, "/k8s/clusters/c-1/version?x=1");
    assert_eq!(seen.header("impersonate-user"), Some("grace"));
    assert_eq!(seen.header("impersonate-uid"), Some("7"));
    assert_eq!(seen.header("impersonate-extra-scope%2fx%25"), Some("v"));
    assert!(seen.header("user-agent").unwrap().starts_with("credlet/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rereads_token_file_after_401() {
    let watch = LeakCheck::new();
    let (one, two) = (watch.secret("first token"), watch.secret("second token"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, format!("{}\n", one.expose())).unwrap();
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    server.accept_token(one.expose());
    let user = format!("{{tokenFile: '{}'}}", file.display());
    let client = Client::new(&resolve(&server.url(), &ca, &user), options()).unwrap();
    assert_eq!(status(&client, "/version").await, StatusCode::OK);

    std::fs::write(&file, format!("{}\n", two.expose())).unwrap();
    server.revoke_token(one.expose());
    server.accept_token(two.expose());
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    assert_eq!(server.last_request().bearer(), Some(two.expose()));
    watch.text(format!("{client:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_no_plugin_over_plain_http() {
    let ca = TestCa::new();
    let plugin = TestPlugin::answering("token");
    let resolved = resolve("http://127.0.0.1:9", &ca, &crate::exec_user(&plugin));
    assert_eq!(resolved.warnings.len(), 1);
    assert!(resolved.warnings[0].to_string().contains("no credentials are sent"), "{}", resolved.warnings[0]);
    let client = Client::new(&resolved, options()).unwrap();
    let request = http::Request::get("/").body(credlet_http::RequestBody::empty()).unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(40), client.send(request)).await.unwrap().is_err());
    assert_eq!(plugin.runs(), 0);
}
