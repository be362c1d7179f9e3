//! A plugin that answers with a proxy (KEP-2718) is used like any other.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;

use credlet_testkit::plugin::{Plugin, Tunnel, is_running, wait_for_end};

use super::support::{CREDLET, Home, exec};

/// A home whose server lets in only the proxy.
fn home() -> (Home, Tunnel) {
    let home = Home::empty();
    home.server.accept_client("proxied");
    let identity = home.ca.client("proxied").issue();
    home.watch.adopt("the proxy's key", identity.key_pem());
    let dir = home.path("sockets");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    let tunnel = Tunnel::new(&dir, &home.server, &home.ca, &identity);
    (home, tunnel)
}

fn server_plugin(tunnel: &Tunnel) -> Plugin {
    Plugin::new().listens(tunnel).answers_with_proxy(tunnel.url()).hangs()
}

fn lock_files(home: &Home) -> usize {
    fs::read_dir(home.path("credlet")).map_or(0, Iterator::count)
}

#[test]
fn requests_go_through_the_proxy_and_nothing_is_left_behind() {
    let (home, tunnel) = home();
    let plugin = server_plugin(&tunnel);
    home.write_config(&exec(&plugin, "Never"));
    assert!(home.run(&["get", "/version"]).data().contains("gitVersion"));
    assert_eq!(home.server.last_request().common_name(), Some("proxied"));
    wait_for_end(plugin.pids()[0]);

    // One that was started apart serves the next command too.
    let starter = Plugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url()).on_the_next_run();
    let starter = starter.answers_with_proxy(tunnel.url());
    home.write_config(&exec(&starter, "Never"));
    home.run(&["get", "/version"]).data();
    home.run(&["request", "-d", "hello", "/echo"]).data();
    assert_eq!((starter.runs(), home.server.last_request().method.as_str()), (2, "POST"));
    assert_eq!(lock_files(&home), 0);
}

#[test]
fn behind_a_cache_it_is_a_proxy_as_well_for_as_long_as_its_client_lives() {
    let (home, tunnel) = home();
    let plugin = server_plugin(&tunnel);
    home.write_config(&format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {CREDLET}, args: [cache, --, '{}'], \
         interactiveMode: Never, provideClusterInfo: true}}}}",
        plugin.command().display()
    ));
    for run in 0..2 {
        assert!(home.run(&["get", "/version"]).data().contains("gitVersion"));
        assert_eq!(home.server.last_request().common_name(), Some("proxied"));
        // The cache was told to end, and has told its plugin.
        wait_for_end(plugin.pids()[run]);
    }
    assert_eq!(plugin.runs(), 2, "where a proxy was is not kept");
    assert!(home.run(&["cache", "ls"]).data().contains("nothing is kept"));
}

#[test]
fn the_verbs_that_show_a_credential_say_that_it_is_a_proxy() {
    let (home, tunnel) = home();
    let plugin = server_plugin(&tunnel);
    home.write_config(&exec(&plugin, "Never"));
    let url = tunnel.url();

    let shown = home.run(&["token"]);
    assert!(shown.data().lines().any(|line| line.starts_with("proxy ") && line.ends_with(&url)), "{shown:?}");
    assert_eq!(home.run(&["token", "-o", "json"]).json()["proxy"], url);
    for output in ["raw", "header", "exec-credential"] {
        let ran = home.run(&["token", "-o", output]);
        let said = ran.failure(3);
        assert!(said.contains("there is no token: plugin "), "{said}");
        assert!(said.contains(&format!(
            "the plugin answered with a proxy, which gives requests their credential itself: {url}"
        )));
    }
    let whoami = home.run(&["whoami"]);
    assert!(whoami.data().contains(&url) && whoami.data().contains("proxied"), "{whoami:?}");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains(&format!("✓ credential  a proxy at {url} in ")), "{doctor:?}");
    assert!(doctor.stdout.contains("✓ accepted    the server takes you for \"proxied\""), "{doctor:?}");
    assert!(home.run(&["config", "check"]).data().contains("no mistakes"));
}

#[test]
fn a_proxy_that_must_not_be_used_is_told_with_what_to_do() {
    let (home, tunnel) = home();
    let plugin = Plugin::new().answers_with_proxy("http://127.0.0.1:8001");
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["get", "/version"]);
    let said = ran.failure(3);
    assert!(said.starts_with("error: the plugin's proxy cannot be used: its url is http, "), "{said}");
    assert!(said.contains("hint: CLIENT_EXEC_PROXY=false"), "{said}");

    // Nobody ever listens: the plugin is run once more, and then it is enough.
    let plugin = Plugin::new().answers_with_proxy(tunnel.url());
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["get", "/version"]);
    let said = ran.failure(6);
    assert!(said.starts_with(&format!("error: nobody listens at {}: No such file", tunnel.url())), "{said}");
    assert_eq!(plugin.runs(), 2);

    let mut command = home.command(&["get", "/version"]);
    command.env("CLIENT_EXEC_PROXY", "false");
    let ran = home.finish(command);
    assert!(ran.failure(3).contains("its answer has neither a token nor a certificate"), "{ran:?}");
}

#[test]
fn the_proxy_of_a_command_that_is_killed_can_have_its_lock_and_ends() {
    let (home, tunnel) = home();
    let plugin = Plugin::new().listens(&tunnel).answers_with_proxy(tunnel.url()).waits_for_the_lock();
    home.write_config(&exec(&plugin, "Never"));
    let mut child = home.spawn(&["get", "/watch?interval_ms=10"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let pid = plugin.pids()[0];
    assert!(is_running(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for_end(pid);
    // The file is still there, and goes with the next command.
    assert_eq!(lock_files(&home), 1);
    home.run(&["get", "/version"]).data();
    assert_eq!(lock_files(&home), 0);
}
