//! Replacement of rejected credentials, and retries after a 401.

use std::sync::Arc;

use credlet_client::layer::OnUnauthorized;
use credlet_client::{AuthError, Client};
use credlet_http::RequestBody;
use credlet_testkit::ca::TestCa;
use credlet_testkit::logs::LeakCheck;
use credlet_testkit::plugin::TestPlugin;
use credlet_testkit::server::{FakeApiServer, Fault};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

use crate::{client, exec_user, options, resolve, status};

#[tokio::test(flavor = "multi_thread")]
async fn first_request_runs_plugin() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let plugin = TestPlugin::answering(token.expose());
    let client = client(&server, &ca, &plugin);
    watch.text(format!("{client:?}"));
    assert_eq!((plugin.runs(), server.counts().connections), (0, 0));
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    assert_eq!(server.last_request().bearer(), Some(token.expose()));
    for _ in 0..10 {
        status(&client, "/version").await;
    }
    assert_eq!((plugin.runs(), server.counts().connections), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_token_costs_one_run_for_all() {
    let watch = LeakCheck::new();
    let (one, two) = (watch.secret("first token"), watch.secret("second token"));
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    server.accept_token(one.expose());
    let plugin = TestPlugin::answering(one.expose()).on_the_next_run().answers(two.expose());
    let client = client(&server, &ca, &plugin);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);

    server.revoke_token(one.expose());
    server.accept_token(two.expose());
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { status(&client, "/version").await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_repeated_401_without_more_runs() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    server.revoke_all();
    let plugin = TestPlugin::answering("one").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let client = client(&server, &ca, &plugin);
    for _ in 0..10 {
        assert_eq!(status(&client, "/version").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(plugin.runs(), 2);
    // The first request was sent twice, the others once.
    assert_eq!(server.counts().requests, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_401_if_plugin_fails() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    server.revoke_all();
    let plugin = TestPlugin::answering("one").on_the_next_run().exits(1);
    let client = client(&server, &ca, &plugin);
    let response = crate::get(&client, "/version").await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    // Whole, as the server sent it.
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["kind"], "Status");
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_buffered_body_but_not_stream() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let plugin = TestPlugin::answering("one").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let client = client(&server, &ca, &plugin);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);

    server.inject(1, Fault::Status(401));
    let request = Request::post("/echo").body(RequestBody::from("hello")).unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let echo = response.into_body().collect().await.unwrap().to_bytes();
    let echo: serde_json::Value = serde_json::from_slice(&echo).unwrap();
    assert_eq!(echo["body"], "hello");
    assert_eq!(server.last_request().bearer(), Some("two"));

    server.inject(1, Fault::Status(401));
    let stream = RequestBody::stream(http_body_util::Full::new(bytes::Bytes::from("once")));
    let response = client.send(Request::post("/echo").body(stream).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    // The next request uses another token.
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    assert_eq!(server.last_request().bearer(), Some("three"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refresh_only_returns_the_401() {
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    server.accept_token("two");
    let plugin = TestPlugin::answering("one").on_the_next_run().answers("two");
    let mut options = options();
    options.on_unauthorized = OnUnauthorized::Refresh;
    let client = Client::new(&resolve(&server.url(), &ca, &exec_user(&plugin)), options).unwrap();
    assert_eq!(status(&client, "/version").await, StatusCode::UNAUTHORIZED);
    assert_eq!(plugin.runs(), 2);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn treats_403_as_rejection_only_if_configured() {
    let ca = TestCa::new();
    for (forbidden_is_unauthorized, runs, expected) in [(false, 1, StatusCode::FORBIDDEN), (true, 2, StatusCode::OK)] {
        let server = FakeApiServer::setup(&ca).start();
        let plugin = TestPlugin::answering("one").on_the_next_run().answers("two");
        let mut options = options();
        options.forbidden_is_unauthorized = forbidden_is_unauthorized;
        let client = Client::new(&resolve(&server.url(), &ca, &exec_user(&plugin)), options).unwrap();
        server.inject(1, Fault::Status(403));
        assert_eq!(status(&client, "/version").await, expected);
        assert_eq!(plugin.runs(), runs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_authorization_of_the_request() {
    let watch = LeakCheck::new();
    let own = watch.secret("own token");
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let plugin = TestPlugin::answering("token");
    let client = client(&server, &ca, &plugin);
    server.inject(1, Fault::Status(401));
    for expected in [StatusCode::UNAUTHORIZED, StatusCode::OK] {
        let request = Request::get("/version").header("authorization", format!("Bearer {}", own.expose()));
        let response = client.send(request.body(RequestBody::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), expected);
        assert_eq!(server.last_request().bearer(), Some(own.expose()));
    }
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_failure_sends_nothing() {
    let watch = LeakCheck::new();
    let token = watch.secret("token");
    let ca = TestCa::new();
    let server = FakeApiServer::setup(&ca).start();
    let plugin = TestPlugin::answering(token.expose()).exits(3);
    let client = client(&server, &ca, &plugin);
    let error = client.send(Request::get("/version").body(RequestBody::empty()).unwrap()).await.unwrap_err();
    watch.error(&error);
    let credlet_client::Error::Credential(error) = error else { panic!("{error}") };
    assert!(matches!(&*error, AuthError::Plugin(credlet_exec::Error::Failed { .. })), "{error}");
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_redirects_unfollowed() {
    let ca = TestCa::new();
    let (server, elsewhere) = (FakeApiServer::setup(&ca).start(), FakeApiServer::setup(&ca).start());
    let plugin = TestPlugin::answering("token");
    let client = client(&server, &ca, &plugin);
    server.inject(1, Fault::Status(302));
    assert_eq!(status(&client, "/version").await, StatusCode::FOUND);
    // Following it manually fails: the client sends its credential to one server only.
    let request = Request::get(format!("{}/version", elsewhere.url())).body(RequestBody::empty()).unwrap();
    assert!(client.send(request).await.is_err());
    assert_eq!(elsewhere.counts().connections, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaces_the_credential_that_was_sent() {
    use credlet_client::authenticator::ExecSettings;
    use credlet_client::layer::{AuthenticatedService, UnauthorizedPolicy};
    use credlet_http::{CredentialGeneration, CryptoBackend};
    use http::Response;
    use http::header::AUTHORIZATION;
    use tower::ServiceExt as _;

    let plugin = TestPlugin::answering("one").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let resolved = resolve("https://127.0.0.1:1", &TestCa::new(), &exec_user(&plugin));
    let exec = resolved.identity.exec_in_use().unwrap();
    let authenticator = options().authenticators.exec(exec, &ExecSettings::new(CryptoBackend::aws_lc_rs())).unwrap();
    let (slow, fast) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let service = tower::service_fn({
        let (slow, fast) = (Arc::clone(&slow), Arc::clone(&fast));
        move |request: Request<()>| {
            let (slow, fast) = (Arc::clone(&slow), Arc::clone(&fast));
            async move {
                let token = request.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
                let mut response = Response::new(token.clone());
                // `/slow` first leaves with the first token, and is then sent again below us, with the second.
                if request.uri().path() == "/slow" && token == "Bearer one" {
                    fast.notify_one();
                    slow.notified().await;
                    response.extensions_mut().insert(CredentialGeneration(2));
                }
                if token == "Bearer one" {
                    *response.status_mut() = StatusCode::UNAUTHORIZED;
                }
                Ok::<_, std::io::Error>(response)
            }
        }
    });
    let policy = UnauthorizedPolicy {
        clone_body: Some((|()| Some(())) as fn(&()) -> Option<()>),
        ..UnauthorizedPolicy::default()
    };
    let service = AuthenticatedService::new(service, authenticator).policy(policy);
    let send = |path: &str| service.clone().oneshot(Request::get(path).body(()).unwrap());
    let held = tokio::spawn(send("/slow"));
    fast.notified().await;
    assert_eq!(send("/").await.unwrap().into_body(), "Bearer two");
    slow.notify_one();
    assert_eq!(held.await.unwrap().unwrap().into_body(), "Bearer three");
    assert_eq!(plugin.runs(), 3);
}
