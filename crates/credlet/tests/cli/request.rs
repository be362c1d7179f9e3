use credlet_testkit::plugin::TestPlugin;

use super::support::{CliSandbox, exec};

#[test]
fn sets_content_type() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["request", "-d", r#"{"kind":"Pod"}"#, "/echo"]);
    let echo = output.json();
    assert_eq!((&echo["method"], &echo["body"]), (&"POST".into(), &r#"{"kind":"Pod"}"#.into()));
    assert_eq!(home.server.last_request().header("content-type"), Some("application/json"));
    home.run(&["request", "-X", "PATCH", "-d", "{}", "/echo"]).data();
    assert_eq!(home.server.last_request().header("content-type"), Some("application/merge-patch+json"));
    home.run(&["request", "-X", "PUT", "-d", "kind: Pod", "/echo"]).data();
    assert_eq!(home.server.last_request().header("content-type"), Some("application/yaml"));
}

#[test]
fn reads_data_from_file_or_stdin() {
    let home = CliSandbox::with_user("{token: t}");
    let file = home.path("pod.json");
    std::fs::write(&file, "{\"from\":\"file\"}").unwrap();
    let output = home.run(&["request", "-d", &format!("@{}", file.display()), "/echo"]);
    assert_eq!(output.json()["body"], "{\"from\":\"file\"}");
    let output = home.run_with_input(&["request", "-d", "@-", "/echo"], b"{\"from\":\"stdin\"}");
    assert_eq!(output.json()["body"], "{\"from\":\"stdin\"}");
    let output = home.run(&["request", "-d", "@/no/such/file", "/echo"]);
    assert!(output.failure(2).starts_with("error: cannot read /no/such/file: does not exist"), "{output:?}");
}

#[test]
fn resends_data_after_401() {
    let home = CliSandbox::empty();
    let [old, new] = ["old", "new"].map(|name| home.watch.secret(name));
    let plugin = TestPlugin::answering(old.expose()).on_the_next_run().answers(new.expose());
    home.write_config(&exec(&plugin, "Never"));
    home.server.accept_token(new.expose());
    let output = home.run_with_input(&["request", "-d", "@-", "/echo"], b"{}");
    assert_eq!(output.json()["body"], "{}");
    assert_eq!(home.server.requests().len(), 2);
}

#[test]
fn sends_method_headers_and_impersonation() {
    let home = CliSandbox::with_user("{token: t}");
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
fn explicit_authorization_runs_no_plugin() {
    let (home, plugin, _) = CliSandbox::with_token_plugin();
    let own = home.watch.secret("own");
    home.server.accept_token(own.expose());
    let output = home.run(&["request", "-H", &format!("Authorization: Bearer {}", own.expose()), "/readyz"]);
    assert_eq!(output.data(), "ok");
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn does_not_quote_invalid_headers() {
    let home = CliSandbox::with_user("{token: t}");
    let secret = home.watch.secret("header");
    for header in [format!("Authorization Bearer {}", secret.expose()), format!("X-A: {}\n", secret.expose()) + "x"] {
        let output = home.run(&["request", "-H", &header, "/readyz"]);
        assert!(output.failure(2).contains("header"), "{output:?}");
    }
}

#[test]
fn rejects_urls() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["request", "https://elsewhere.example/readyz"]);
    assert!(output.failure(2).contains("must not contain a scheme"), "{output:?}");
    assert_eq!(home.server.counts().requests, 0);
}
