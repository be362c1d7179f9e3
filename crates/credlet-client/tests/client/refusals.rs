//! 401: replaced once for all who held the credential, and sent once more if that can be.

use std::sync::Arc;

use credlet_client::conn::Payload;
use credlet_client::http::OnRefusal;
use credlet_client::{AuthError, Client};
use credlet_testkit::ca::Ca;
use credlet_testkit::logs::Watch;
use credlet_testkit::plugin::Plugin;
use credlet_testkit::server::{Order, Server};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

use crate::{client, exec_user, options, resolve, status};

#[tokio::test(flavor = "multi_thread")]
async fn building_a_client_runs_nothing_and_the_first_request_runs_the_plugin() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    let plugin = Plugin::answering(token.expose());
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
async fn sixty_four_requests_with_a_revoked_token_all_succeed_after_one_run() {
    let watch = Watch::new();
    let (one, two) = (watch.secret("first token"), watch.secret("second token"));
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    server.accept_token(one.expose());
    let plugin = Plugin::answering(one.expose()).on_the_next_run().answers(two.expose());
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
async fn a_server_that_refuses_everything_gets_through_to_the_caller_and_the_plugin_is_left_alone() {
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    server.revoke_all();
    let plugin = Plugin::answering("one").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let client = client(&server, &ca, &plugin);
    for _ in 0..10 {
        assert_eq!(status(&client, "/version").await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(plugin.runs(), 2);
    // The first request was sent twice, the others once.
    assert_eq!(server.counts().requests, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_fails_after_a_refusal_leaves_the_refusal() {
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    server.revoke_all();
    let plugin = Plugin::answering("one").on_the_next_run().exits(1);
    let client = client(&server, &ca, &plugin);
    let response = crate::get(&client, "/version").await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    // Whole, as the server sent it.
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap()["kind"], "Status");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_body_is_sent_again_and_a_stream_is_not() {
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    let plugin = Plugin::answering("one").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let client = client(&server, &ca, &plugin);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);

    server.next(1, Order::Status(401));
    let request = Request::post("/echo").body(Payload::from("hello")).unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let echo = response.into_body().collect().await.unwrap().to_bytes();
    let echo: serde_json::Value = serde_json::from_slice(&echo).unwrap();
    assert_eq!(echo["body"], "hello");
    assert_eq!(server.last_request().bearer(), Some("two"));

    server.next(1, Order::Status(401));
    let stream = Payload::stream(http_body_util::Full::new(bytes::Bytes::from("once")));
    let response = client.send(Request::post("/echo").body(stream).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    // But whoever comes next has another token.
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    assert_eq!(server.last_request().bearer(), Some("three"));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gos_way_is_a_setting() {
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    server.accept_token("two");
    let plugin = Plugin::answering("one").on_the_next_run().answers("two");
    let mut options = options();
    options.on_refusal = OnRefusal::Refresh;
    let client = Client::new(&resolve(&server.url(), &ca, &exec_user(&plugin)), options).unwrap();
    assert_eq!(status(&client, "/version").await, StatusCode::UNAUTHORIZED);
    assert_eq!(plugin.runs(), 2);
    assert_eq!(status(&client, "/version").await, StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_403_is_a_refusal_only_if_it_is_said_to_be() {
    let ca = Ca::new();
    for (forbidden_is_refusal, runs, expected) in [(false, 1, StatusCode::FORBIDDEN), (true, 2, StatusCode::OK)] {
        let server = Server::setup(&ca).start();
        let plugin = Plugin::answering("one").on_the_next_run().answers("two");
        let mut options = options();
        options.forbidden_is_refusal = forbidden_is_refusal;
        let client = Client::new(&resolve(&server.url(), &ca, &exec_user(&plugin)), options).unwrap();
        server.next(1, Order::Status(403));
        assert_eq!(status(&client, "/version").await, expected);
        assert_eq!(plugin.runs(), runs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requests_own_authorization_stays_and_runs_nothing() {
    let watch = Watch::new();
    let own = watch.secret("own token");
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    let plugin = Plugin::answering("token");
    let client = client(&server, &ca, &plugin);
    server.next(1, Order::Status(401));
    for expected in [StatusCode::UNAUTHORIZED, StatusCode::OK] {
        let request = Request::get("/version").header("authorization", format!("Bearer {}", own.expose()));
        let response = client.send(request.body(Payload::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), expected);
        assert_eq!(server.last_request().bearer(), Some(own.expose()));
    }
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_fails_is_the_requests_error_and_nothing_is_sent() {
    let watch = Watch::new();
    let token = watch.secret("token");
    let ca = Ca::new();
    let server = Server::setup(&ca).start();
    let plugin = Plugin::answering(token.expose()).exits(3);
    let client = client(&server, &ca, &plugin);
    let error = client.send(Request::get("/version").body(Payload::empty()).unwrap()).await.unwrap_err();
    watch.error(&*error);
    let error = error.downcast_ref::<Arc<AuthError>>().unwrap();
    assert!(matches!(&**error, AuthError::Plugin(credlet_core::Error::Failed { .. })), "{error}");
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_the_callers_business() {
    let ca = Ca::new();
    let (server, elsewhere) = (Server::setup(&ca).start(), Server::setup(&ca).start());
    let plugin = Plugin::answering("token");
    let client = client(&server, &ca, &plugin);
    server.next(1, Order::Status(302));
    assert_eq!(status(&client, "/version").await, StatusCode::FOUND);
    // Who follows it by hand is stopped: this client's credential is for one server.
    let request = Request::get(format!("{}/version", elsewhere.url())).body(Payload::empty()).unwrap();
    assert!(client.send(request).await.is_err());
    assert_eq!(elsewhere.counts().connections, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_credential_that_was_really_sent_is_the_one_that_is_replaced() {
    use credlet_client::authenticator::ExecSettings;
    use credlet_client::conn::{Crypto, SentWith};
    use credlet_client::http::{Authenticate, Policy};
    use http::Response;
    use http::header::AUTHORIZATION;
    use tower::ServiceExt as _;

    let plugin = Plugin::answering("one").on_the_next_run().answers("two").on_the_next_run().answers("three");
    let resolved = resolve("https://127.0.0.1:1", &Ca::new(), &exec_user(&plugin));
    let exec = resolved.identity.exec_in_use().unwrap();
    let authenticator = options().authenticators.exec(exec, &ExecSettings::new(Crypto::aws_lc_rs())).unwrap();
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
                    response.extensions_mut().insert(SentWith(2));
                }
                if token == "Bearer one" {
                    *response.status_mut() = StatusCode::UNAUTHORIZED;
                }
                Ok::<_, std::io::Error>(response)
            }
        }
    });
    let policy = Policy { replay: Some((|()| Some(())) as fn(&()) -> Option<()>), ..Policy::default() };
    let service = Authenticate::new(service, authenticator).policy(policy);
    let send = |path: &str| service.clone().oneshot(Request::get(path).body(()).unwrap());
    let held = tokio::spawn(send("/slow"));
    fast.notified().await;
    assert_eq!(send("/").await.unwrap().into_body(), "Bearer two");
    slow.notify_one();
    assert_eq!(held.await.unwrap().unwrap().into_body(), "Bearer three");
    assert_eq!(plugin.runs(), 3);
}
