use std::io::{BufRead as _, BufReader};

use credlet_testkit::plugin::{OutputStream, TestPlugin};
use credlet_testkit::server::Fault;

use super::support::{CliSandbox, exec};

#[test]
fn prints_only_the_body() {
    let (home, plugin, token) = CliSandbox::with_token_plugin();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    assert_eq!(plugin.runs(), 1);
    assert_eq!(home.server.last_request().bearer(), Some(token.expose()));
}

#[test]
fn passes_plugin_stderr_on() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::new().prints_to(OutputStream::Stderr, "logging you in\n").answers("a token");
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["get", "/readyz"]);
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (Some(0), "ok", "logging you in\n"));
}

#[test]
fn accepts_kubectl_flags_anywhere() {
    let home = CliSandbox::with_user("{token: wrong}");
    let token = home.watch.secret("token");
    home.server.accept_token(token.expose());
    let url = home.server.url();
    let ca = home.path("ca.pem");
    for args in [
        vec!["get", "--token", token.expose(), "/readyz"],
        vec!["--token", token.expose(), "get", "/readyz", "--context=blue", "--request-timeout=1m"],
        vec!["get", "/readyz", "--token", token.expose(), "-s", &url, "--certificate-authority", ca.to_str().unwrap()],
        vec!["get", "/readyz", "--token", token.expose(), "-s", &url, "--insecure-skip-tls-verify", "-v=0"],
    ] {
        assert_eq!(home.run(&args).data(), "ok");
    }
}

#[test]
fn replaces_namespace_in_path() {
    let home = CliSandbox::with_user("{token: t}");
    assert_eq!(home.run(&["get", "/echo?in={namespace}"]).json()["path"], "/echo?in=shop");
    assert_eq!(home.run(&["get", "echo?in={namespace}", "-n", "other"]).json()["path"], "/echo?in=other");
}

#[test]
fn include_prints_status_and_headers() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["get", "-i", "/version"]);
    let (head, body) = output.data().split_once("\n\n").unwrap();
    assert!(head.starts_with("HTTP/2 200 OK\n"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(body.starts_with('{'), "{body}");
}

#[test]
fn prints_message_of_a_status() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["get", "/nothing/here"]);
    assert_eq!(output.failure(1), "error: the server returned 404 Not Found: Not Found\n");
    home.server.inject(1, Fault::Status(403));
    let output = home.run(&["get", "/readyz"]);
    assert!(output.failure(1).contains("hint: run `credlet whoami`"), "{output:?}");
}

#[test]
fn streams_a_watch_until_the_reader_closes() {
    let home = CliSandbox::with_user("{token: t}");
    let mut child = home.spawn(&["get", "/watch?interval_ms=20"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n') && line.starts_with('{'), "{line}");
    }
    assert_eq!(child.try_wait().unwrap(), None, "it goes on for ever");
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "a broken pipe is not an error");
}

#[test]
fn reports_full_disk() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
    let home = CliSandbox::with_user("{token: t}");
    let mut command = home.command(&["get", "/readyz"]);
    command.stdout(full);
    let output = home.finish(command);
    assert_eq!(output.code, Some(70));
    assert!(output.stderr.starts_with("error: failed to write to standard output"), "{output:?}");
}

#[test]
fn reports_truncated_body() {
    let home = CliSandbox::with_user("{token: t}");
    home.server.inject(1, Fault::CutMidBody);
    let output = home.run(&["get", "/readyz"]);
    assert_eq!(output.code, Some(6), "{output:?}");
    assert!(output.stderr.starts_with("error: "), "{output:?}");
}

#[test]
fn replaces_a_revoked_token() {
    let home = CliSandbox::empty();
    let [old, new] = ["old", "new"].map(|name| home.watch.secret(name));
    let plugin = TestPlugin::answering(old.expose()).on_the_next_run().answers(new.expose());
    home.write_config(&exec(&plugin, "Never"));
    home.server.accept_token(new.expose());
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    assert_eq!(plugin.runs(), 2);
}
