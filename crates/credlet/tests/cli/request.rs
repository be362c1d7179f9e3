use credlet_testkit::plugin::Plugin;

use super::support::{Home, exec};

#[test]
fn data_is_posted_as_what_it_is() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["request", "-d", r#"{"kind":"Pod"}"#, "/echo"]);
    let echo = ran.json();
    assert_eq!((&echo["method"], &echo["body"]), (&"POST".into(), &r#"{"kind":"Pod"}"#.into()));
    assert_eq!(home.server.last_request().header("content-type"), Some("application/json"));
    home.run(&["request", "-X", "PATCH", "-d", "{}", "/echo"]).data();
    assert_eq!(home.server.last_request().header("content-type"), Some("application/merge-patch+json"));
    home.run(&["request", "-X", "PUT", "-d", "kind: Pod", "/echo"]).data();
    assert_eq!(home.server.last_request().header("content-type"), Some("application/yaml"));
}

#[test]
fn data_comes_from_a_file_or_from_standard_input() {
    let home = Home::of("{token: t}");
    let file = home.path("pod.json");
    std::fs::write(&file, "{\"from\":\"file\"}").unwrap();
    let ran = home.run(&["request", "-d", &format!("@{}", file.display()), "/echo"]);
    assert_eq!(ran.json()["body"], "{\"from\":\"file\"}");
    let ran = home.run_with_input(&["request", "-d", "@-", "/echo"], b"{\"from\":\"stdin\"}");
    assert_eq!(ran.json()["body"], "{\"from\":\"stdin\"}");
    let ran = home.run(&["request", "-d", "@/no/such/file", "/echo"]);
    assert!(ran.failure(2).starts_with("error: /no/such/file cannot be read"), "{ran:?}");
}

#[test]
fn data_is_sent_once_more_with_another_credential() {
    let home = Home::empty();
    let [old, new] = ["old", "new"].map(|name| home.watch.secret(name));
    let plugin = Plugin::answering(old.expose()).on_the_next_run().answers(new.expose());
    home.write_config(&exec(&plugin, "Never"));
    home.server.accept_token(new.expose());
    let ran = home.run_with_input(&["request", "-d", "@-", "/echo"], b"{}");
    assert_eq!(ran.json()["body"], "{}");
    assert_eq!(home.server.requests().len(), 2);
}

#[test]
fn method_headers_and_impersonation_are_sent() {
    let home = Home::of("{token: t}");
    let args =
        ["-X", "DELETE", "-H", "X-Trace: 7", "-H", "x-trace:8", "--as", "jane", "--as-group", "a", "--as-group", "b"];
    let extra = ["--as-uid", "u", "--as-user-extra", "reason=test", "/echo"];
    home.run(&[&["request"], &args[..], &extra[..]].concat()).data();
    let seen = home.server.last_request();
    let all = |name: &str| -> Vec<&str> {
        seen.headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str()).collect()
    };
    assert_eq!(seen.method, "DELETE");
    assert_eq!(all("x-trace"), ["7", "8"]);
    assert_eq!(all("impersonate-user"), ["jane"]);
    assert_eq!(all("impersonate-group"), ["a", "b"]);
    assert_eq!(all("impersonate-uid"), ["u"]);
    assert_eq!(all("impersonate-extra-reason"), ["test"]);
}

#[test]
fn a_request_with_its_own_authorization_runs_no_plugin() {
    let (home, plugin, _) = Home::with_token_plugin();
    let own = home.watch.secret("own");
    home.server.accept_token(own.expose());
    let ran = home.run(&["request", "-H", &format!("Authorization: Bearer {}", own.expose()), "/readyz"]);
    assert_eq!(ran.data(), "ok");
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn a_header_that_is_none_is_not_repeated() {
    let home = Home::of("{token: t}");
    let secret = home.watch.secret("header");
    for header in [format!("Authorization Bearer {}", secret.expose()), format!("X-A: {}\n", secret.expose()) + "x"] {
        let ran = home.run(&["request", "-H", &header, "/readyz"]);
        assert!(ran.failure(2).contains("header"), "{ran:?}");
    }
}

#[test]
fn the_server_is_the_kubeconfigs() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["request", "https://elsewhere.example/readyz"]);
    assert!(ran.failure(2).contains("give the path alone"), "{ran:?}");
    assert_eq!(home.server.counts().requests, 0);
}
