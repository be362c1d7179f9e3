use std::io::{BufRead as _, BufReader};

use credlet_testkit::plugin::{Plugin, Stream};
use credlet_testkit::server::Order;

use super::support::{Home, exec};

#[test]
fn the_body_is_the_data_and_nothing_is_said() {
    let (home, plugin, token) = Home::with_token_plugin();
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    assert_eq!(plugin.runs(), 1);
    assert_eq!(home.server.last_request().bearer(), Some(token.expose()));
}

#[test]
fn what_a_plugin_says_goes_to_standard_error() {
    let home = Home::empty();
    let plugin = Plugin::new().prints_to(Stream::Stderr, "logging you in\n").answers("a token");
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["get", "/readyz"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "ok", "logging you in\n"));
}

#[test]
fn flags_are_spelled_as_kubectl_spells_them_and_stand_anywhere() {
    let home = Home::of("{token: wrong}");
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
fn the_namespace_can_stand_in_the_path() {
    let home = Home::of("{token: t}");
    assert_eq!(home.run(&["get", "/echo?in={namespace}"]).json()["path"], "/echo?in=shop");
    assert_eq!(home.run(&["get", "echo?in={namespace}", "-n", "other"]).json()["path"], "/echo?in=other");
}

#[test]
fn status_and_headers_come_first_if_asked_for() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["get", "-i", "/version"]);
    let (head, body) = ran.data().split_once("\n\n").unwrap();
    assert!(head.starts_with("HTTP/2 200 OK\n"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(body.starts_with('{'), "{body}");
}

#[test]
fn a_status_is_printed_as_its_message() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["get", "/nothing/here"]);
    assert_eq!(ran.failure(1), "error: the server said 404 Not Found: Not Found\n");
    home.server.next(1, Order::Status(403));
    let ran = home.run(&["get", "/readyz"]);
    assert!(ran.failure(1).contains("hint: `credlet whoami` shows"), "{ran:?}");
}

#[test]
fn a_watch_is_printed_line_by_line_and_ends_with_its_reader() {
    let home = Home::of("{token: t}");
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
fn a_full_disk_is_an_error() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
    let home = Home::of("{token: t}");
    let mut command = home.command(&["get", "/readyz"]);
    command.stdout(full);
    let ran = home.finish(command);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: standard output cannot be written"), "{ran:?}");
}

#[test]
fn an_answer_that_breaks_off_is_an_error_after_what_came() {
    let home = Home::of("{token: t}");
    home.server.next(1, Order::CutMidBody);
    let ran = home.run(&["get", "/readyz"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.stderr.starts_with("error: "), "{ran:?}");
}

#[test]
fn a_revoked_token_is_replaced_and_nobody_notices() {
    let home = Home::empty();
    let [old, new] = ["old", "new"].map(|name| home.watch.secret(name));
    let plugin = Plugin::answering(old.expose()).on_the_next_run().answers(new.expose());
    home.write_config(&exec(&plugin, "Never"));
    home.server.accept_token(new.expose());
    assert_eq!(home.run(&["get", "/readyz"]).data(), "ok");
    assert_eq!(plugin.runs(), 2);
}
