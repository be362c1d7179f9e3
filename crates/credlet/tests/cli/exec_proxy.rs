//! Plugins that run an exec proxy (KEP-2718).

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;

use credlet_testkit::plugin::{TestPlugin, TunnelProxy, is_running, wait_for_end};

use super::support::{CREDLET, CliSandbox, exec};

/// A sandbox with a server that accepts only the proxy.
fn home() -> (CliSandbox, TunnelProxy) {
    let home = CliSandbox::empty();
    home.server.accept_client("proxied");
    let identity = home.ca.client("proxied").issue();
    home.watch.adopt("the proxy's key", identity.key_pem());
    let dir = home.path("sockets");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    let tunnel = TunnelProxy::new(&dir, &home.server, &home.ca, &identity);
    (home, tunnel)
}

fn server_plugin(tunnel: &TunnelProxy) -> TestPlugin {
    TestPlugin::new().listens(tunnel).answers_with_proxy(tunnel.url()).hangs()
}

fn lock_files(home: &CliSandbox) -> usize {
    fs::read_dir(home.path("credlet")).map_or(0, Iterator::count)
}

#[test]
fn sends_requests_through_the_proxy() {
    let (home, tunnel) = home();
    let plugin = server_plugin(&tunnel);
    home.write_config(&exec(&plugin, "Never"));
    assert!(home.run(&["get", "/version"]).data().contains("gitVersion"));
    assert_eq!(home.server.last_request().common_name(), Some("proxied"));
    wait_for_end(plugin.pids()[0]);

    // A detached proxy serves the next command too.
    let starter = TestPlugin::new().leaves_a_proxy(&tunnel).answers_with_proxy(tunnel.url()).on_the_next_run();
    let starter = starter.answers_with_proxy(tunnel.url());
    home.write_config(&exec(&starter, "Never"));
    home.run(&["get", "/version"]).data();
    home.run(&["request", "-d", "hello", "/echo"]).data();
    assert_eq!((starter.runs(), home.server.last_request().method.as_str()), (2, "POST"));
    assert_eq!(lock_files(&home), 0);
}

#[test]
fn works_behind_the_cache() {
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
        // SIGTERM is forwarded by the cache to its plugin.
        wait_for_end(plugin.pids()[run]);
    }
    assert_eq!(plugin.runs(), 2, "where a proxy was is not kept");
    assert!(home.run(&["cache", "ls"]).data().contains("no entries"));
}

#[test]
fn token_and_whoami_show_the_proxy() {
    let (home, tunnel) = home();
    let plugin = server_plugin(&tunnel);
    home.write_config(&exec(&plugin, "Never"));
    let url = tunnel.url();

    let shown = home.run(&["token"]);
    assert!(shown.data().lines().any(|line| line.starts_with("proxy ") && line.ends_with(&url)), "{shown:?}");
    assert_eq!(home.run(&["token", "-o", "json"]).json()["proxy"], url);
    for output in ["raw", "header", "exec-credential"] {
        let output = home.run(&["token", "-o", output]);
        let said = output.failure(3);
        assert!(said.contains("no bearer token: the credential is from plugin "), "{said}");
        assert!(
            said.contains(&format!("the plugin runs an exec proxy at {url}, which adds the credential to requests"))
        );
    }
    let whoami = home.run(&["whoami"]);
    assert!(whoami.data().contains(&url) && whoami.data().contains("proxied"), "{whoami:?}");
    let doctor = home.run(&["doctor"]);
    assert!(doctor.stdout.contains(&format!("✓ credential  an exec proxy at {url} in ")), "{doctor:?}");
    assert!(doctor.stdout.contains("✓ accepted    authenticated as \"proxied\""), "{doctor:?}");
    assert!(home.run(&["config", "check"]).data().contains("no errors"));
}

#[test]
fn reports_unusable_proxy() {
    let (home, tunnel) = home();
    let plugin = TestPlugin::new().answers_with_proxy("http://127.0.0.1:8001");
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["get", "/version"]);
    let said = output.failure(3);
    assert!(
        said.starts_with("error: cannot use the plugin's exec proxy: unsupported proxyConfig.url: http is open "),
        "{said}"
    );
    assert!(said.contains("hint: set CLIENT_EXEC_PROXY=false"), "{said}");

    // The proxy never listens: the plugin is retried once.
    let plugin = TestPlugin::new().answers_with_proxy(tunnel.url());
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["get", "/version"]);
    let said = output.failure(6);
    assert!(
        said.starts_with(&format!("error: cannot connect to the exec proxy at {}: No such file", tunnel.url())),
        "{said}"
    );
    assert_eq!(plugin.runs(), 2);

    let mut command = home.command(&["get", "/version"]);
    command.env("CLIENT_EXEC_PROXY", "false");
    let output = home.finish(command);
    assert!(output.failure(3).contains("the status has neither a token nor a certificate"), "{output:?}");
}

#[test]
fn killing_the_client_releases_the_lock() {
    let (home, tunnel) = home();
    let plugin = TestPlugin::new().listens(&tunnel).answers_with_proxy(tunnel.url()).waits_for_the_lock();
    home.write_config(&exec(&plugin, "Never"));
    let mut child = home.spawn(&["get", "/watch?interval_ms=10"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let pid = plugin.pids()[0];
    assert!(is_running(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for_end(pid);
    // The next command removes the lock file.
    assert_eq!(lock_files(&home), 1);
    home.run(&["get", "/version"]).data();
    assert_eq!(lock_files(&home), 0);
}
