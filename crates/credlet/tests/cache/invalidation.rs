//! Invalidation by logout and `cache rm`.

use std::process::Command;
use std::time::Duration;

use credlet_platform::dirs::CACHE_IN_HOME;
use credlet_testkit::plugin::TestPlugin;

use crate::sandbox::{CacheSandbox, V1, keys_in, runtime};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns calls in different environments and directories, each with a separate entry.
fn calls(home: &CacheSandbox, plugin: &TestPlugin) -> Vec<Command> {
    let dir = |name: &str| home.path(name).to_str().unwrap().to_owned();
    let (chosen, variable) = (dir("chosen"), dir("variable"));
    let mut by_variable = home.cache(&[], plugin);
    by_variable.env("CREDLET_CACHE_DIR", &variable);
    let mut other_home = home.cache(&[], plugin);
    other_home.env("HOME", dir("other-home"));
    let mut other_caches = home.cache(&[], plugin);
    other_caches.env("XDG_CACHE_HOME", dir("other-caches"));
    let mut other_environment = home.cache(&[], plugin);
    other_environment.env("OS_USERNAME", "ada");
    let with_dir = home.cache(&["--cache-dir", &chosen], plugin);
    vec![home.cache(&[], plugin), with_dir, by_variable, other_home, other_caches, other_environment]
}

fn tokens(home: &CacheSandbox, plugin: &TestPlugin) -> Vec<String> {
    calls(home, plugin).into_iter().map(|call| home.run(call).token()).collect()
}

/// A plugin that prints `old` for the first `tokens` runs, then `new`.
fn plugin(tokens: usize) -> TestPlugin {
    let mut plugin = TestPlugin::answering("old").expiring_in(HOUR);
    for run in 1..2 * tokens {
        plugin = plugin.on_the_next_run().answers(if run < tokens { "old" } else { "new" }).expiring_in(HOUR);
    }
    plugin
}

const CALLS: usize = 6;

#[test]
fn logout_invalidates_every_cache() {
    for logout in [&["plugin", "oidc", "logout", "--all"][..], &["cache", "rm", "--all"]] {
        let (home, plugin) = (CacheSandbox::new(), plugin(CALLS));
        assert_eq!(tokens(&home, &plugin), ["old"; CALLS]);
        assert_eq!(tokens(&home, &plugin), ["old"; CALLS]);
        assert_eq!(plugin.runs(), CALLS);
        let ran = home.run(home.credlet(logout));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        // No token is left in a file either.
        let default = format!("{CACHE_IN_HOME}/credlet/exec");
        for dir in [&*default, "chosen/credlet-exec", "variable/credlet-exec", "other-caches/credlet/exec"] {
            assert_eq!(keys_in(&home.path(dir)).len(), 0, "{logout:?} {dir}");
        }
        assert_eq!(tokens(&home, &plugin), ["new"; CALLS], "{logout:?}");
    }
}

#[test]
fn logout_invalidates_directories_it_cannot_reach() {
    let (home, plugin) = (CacheSandbox::new(), plugin(1));
    let (dir, away) = (home.path("chosen"), home.path("away"));
    let options = ["--cache-dir", dir.to_str().unwrap()];
    assert_eq!(home.token(&options, &plugin), "old");
    // The disk is not mounted during the logout.
    std::fs::rename(&dir, &away).unwrap();
    assert_eq!(home.run(home.credlet(&["plugin", "oidc", "logout", "--all"])).code, Some(0));
    std::fs::rename(&away, &dir).unwrap();
    assert_eq!(keys_in(&dir.join("credlet-exec")).len(), 1);
    assert_eq!(home.token(&options, &plugin), "new");
}

#[test]
fn run_started_before_logout_is_not_served() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::new().waits_at("gate").answers("old").expiring_in(HOUR);
    let plugin = plugin.on_the_next_run().answers("new").expiring_in(HOUR);
    let call = home.cache(&[], &plugin).spawn().unwrap();
    runtime().block_on(plugin.reached("gate"));
    assert_eq!(home.run(home.credlet(&["plugin", "oidc", "logout", "--all"])).code, Some(0));
    plugin.open("gate");
    assert_eq!(home.ran(call.wait_with_output().unwrap()).token(), "old");
    assert_eq!(home.token(&[], &plugin), "new");
}

#[test]
fn rm_reaches_every_directory() {
    let (home, plugin) = (CacheSandbox::new(), plugin(CALLS));
    assert_eq!(tokens(&home, &plugin), ["old"; CALLS]);
    let by_key = keys_in(&home.path("chosen/credlet-exec"))[0].file_name().unwrap().to_str().unwrap().to_owned();
    // The directory is not part of the key, so the default directory has the same one.
    assert_eq!(home.run(home.credlet(&["cache", "rm", &by_key])).stdout, "2 removed\n");
    let command = plugin.command();
    for exec in [
        format!("command: credlet, args: [cache, --, {command:?}]"),
        format!("command: /opt/credlet-cache, args: [--encrypt, --, {command:?}]"),
    ] {
        let kubeconfig = format!(
            "current-context: blue\ncontexts:\n- {{name: blue, context: {{cluster: blue, user: ada}}}}\nclusters:\n- {{name: \
             blue, cluster: {{server: 'https://blue.example'}}}}\nusers:\n- {{name: ada, user: {{exec: {{apiVersion: \
             client.authentication.k8s.io/v1, interactiveMode: Never, {exec}}}}}}}\n"
        );
        let kubeconfig = home.file("kubeconfig", &kubeconfig);
        let args = ["cache", "rm", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", "blue"];
        let expected = if exec.contains("/opt") { "0 removed\n" } else { "4 removed\n" };
        assert_eq!(home.run(home.credlet(&args)).stdout, expected);
    }
    assert_eq!(tokens(&home, &plugin), ["new"; CALLS]);
}

#[test]
fn stricter_max_age_applies_to_stored_entries() {
    let (home, plugin) = (CacheSandbox::new(), plugin(1));
    assert_eq!(home.token(&["--max-age", "9999h"], &plugin), "old");
    crate::faults::rewrite(&home.entry(), "created", |then| (then.parse::<i64>().unwrap() - 600_000).to_string());
    assert_eq!(home.token(&["--max-age", "15m"], &plugin), "old");
    assert_eq!(home.token(&["--max-age", "5m"], &plugin), "new");
    let mut call = home.cache(&[], &plugin);
    call.env("KUBERNETES_EXEC_INFO", V1);
    assert_eq!(home.run(call).token(), "new");
}
