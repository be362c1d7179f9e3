//! `credlet cache ls`, `rm`, `stats`, `explain`, `wrap` and `unwrap`.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use credlet_platform::dirs::CONFIG_IN_HOME;
use credlet_testkit::plugin::TestPlugin;

use crate::sandbox::{CacheSandbox, V1};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn ls_explain_and_rm_print_no_secrets() {
    let home = CacheSandbox::new();
    let (token, argument) = (home.watch.secret("token"), home.watch.secret("argument"));
    let plugin = TestPlugin::answering(token.expose()).expiring_in(HOUR);
    let mut call = home.cache(&[], &plugin);
    call.arg(argument.expose());
    home.run(call).token();

    let listed = home.run(home.credlet(&["cache", "ls"]));
    home.watch.text(&listed.stdout);
    assert!(listed.stdout.contains("/plugin") && listed.stdout.contains(" min"), "{}", listed.stdout);
    let listed = home.run(home.credlet(&["cache", "ls", "-o", "json"]));
    home.watch.text(&listed.stdout);
    let key = listed.json()[0]["key"].as_str().unwrap().to_owned();

    let command = plugin.command();
    let mut explain = home.credlet(&["cache", "explain", "--", command.to_str().unwrap(), argument.expose()]);
    explain.env("KUBERNETES_EXEC_INFO", V1).env("AWS_PROFILE", "x");
    let explained = home.run(explain);
    home.watch.text(&explained.stdout);
    assert!(explained.stdout.contains("variable AWS_PROFILE") && explained.stdout.contains("not cached"));
    let mut explain = home.credlet(&["cache", "explain", "--", command.to_str().unwrap(), argument.expose()]);
    explain.env("KUBERNETES_EXEC_INFO", V1);
    let explained = home.run(explain);
    assert!(explained.stdout.starts_with(&format!("key {key}")), "{}", explained.stdout);
    assert!(explained.stdout.contains("cached, valid for another"), "{}", explained.stdout);

    assert_eq!(home.run(home.credlet(&["cache", "rm", "ffffffff-no"])).stdout, "0 removed\n");
    assert_eq!(home.run(home.credlet(&["cache", "rm", &key[..12]])).stdout, "1 removed\n");
    assert_eq!(home.run(home.credlet(&["cache", "ls"])).stdout, "no entries\n");
    assert_eq!(home.run(home.credlet(&["cache", "rm"])).code, Some(2));
}

#[test]
fn stats_count_hits_and_runs() {
    let home = CacheSandbox::new();
    // Longer than the resolution of the clock.
    let plugin = TestPlugin::new().sleeps(Duration::from_millis(50)).answers("a-token").expiring_in(HOUR);
    let stats = |home: &CacheSandbox| home.run(home.credlet(&["cache", "stats", "-o", "json"])).json();
    assert_eq!(stats(&home), serde_json::json!([]));
    home.token(&[], &plugin);
    home.token(&[], &plugin);
    let counted = stats(&home);
    assert_eq!((&counted[0]["hits"], &counted[0]["runs"]), (&1.into(), &1.into()), "{counted}");
    // A forced run counts as a run that the client waited for.
    home.token(&["--force-refresh"], &plugin);
    let counted = stats(&home);
    assert_eq!((&counted[0]["hits"], &counted[0]["runs"]), (&1.into(), &2.into()), "{counted}");
    assert!(counted[0]["secondsSaved"].as_f64().unwrap() > 0.0, "{counted}");
    let stats = home.run(home.credlet(&["cache", "stats"])).stdout;
    assert!(stats.contains("1 responses from the cache, 2 runs, about "), "{stats}");
}

#[test]
fn rm_removes_entries_of_a_context() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    let command = plugin.command();
    let args: String = plugin.args().iter().map(|arg| format!(", {arg:?}")).collect();
    let kubeconfig = format!(
        "current-context: blue\ncontexts:\n- {{name: blue, context: {{cluster: blue, user: ada}}}}\n- {{name: red, context: \
         {{cluster: red, user: ada}}}}\nclusters:\n- {{name: blue, cluster: {{server: 'https://blue.example'}}}}\n- {{name: \
         red, cluster: {{server: 'https://red.example'}}}}\nusers:\n- {{name: ada, user: {{exec: {{apiVersion: \
         client.authentication.k8s.io/v1, interactiveMode: Never, command: credlet, args: [cache, --, {command:?}{args}]}}}}}}\n"
    );
    let kubeconfig = home.file("kubeconfig", &kubeconfig);
    let info = |server: &str| V1.replace("false}", &format!("false,\"cluster\":{{\"server\":\"{server}\"}}}}"));
    for info in [V1.to_owned(), info("https://blue.example"), info("https://red.example")] {
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", info);
        home.run(call).token();
    }
    assert_eq!(home.keys().len(), 3);
    let rm = |context: &str| {
        let args = ["cache", "rm", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", context];
        home.run(home.credlet(&args))
    };
    // The entry of this cluster and the one without a cluster.
    assert_eq!(rm("blue").stdout, "2 removed\n");
    assert_eq!(rm("blue").stdout, "0 removed\n");
    assert_eq!(rm("red").stdout, "1 removed\n");
    assert_eq!(rm("green").code, Some(2));
}

#[test]
fn only_allowed_plugins_are_run() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    let command = plugin.command();
    let list = |text: &str| drop(home.file(format!("{CONFIG_IN_HOME}/credlet/cache-allowlist"), text));
    list(&format!("# ours\n{}\n", command.display()));
    assert_eq!(home.token(&[], &plugin), "a-token");
    // A plugin that is no longer allowed is not served from the cache either.
    for text in ["aws # not ours\n", "", "./plugin\n"] {
        list(text);
        let ran = home.run(home.cache(&[], &plugin));
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""));
        assert!(ran.stderr.contains("cache-allowlist"), "{}", ran.stderr);
    }
    assert_eq!(plugin.runs(), 1);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn link_runs_the_plugin_it_is_named_after() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("a-token").expiring_in(HOUR);
    plugin.install(home.dir(), "acme");
    let link = home.path("credlet-cache-acme");
    symlink(env!("CARGO_BIN_EXE_credlet"), &link).unwrap();
    for _ in 0..2 {
        let mut call = std::process::Command::new(&link);
        call.arg("login").env_clear().env("HOME", home.dir()).env("PATH", home.dir()).env("KUBERNETES_EXEC_INFO", V1);
        call.env("CREDLET_TEST_ACCOUNT_HOME", home.dir());
        assert_eq!(home.run(call).token(), "a-token");
    }
    assert_eq!(plugin.runs(), 1);
}

/// The user allows the link, and neither credlet nor the plugin.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test plays the client")]
fn entry_of_allowed_link_is_refreshed_ahead() {
    let home = CacheSandbox::new();
    let plugin = TestPlugin::answering("old").expiring_in(HOUR).on_the_next_run().answers("new").expiring_in(HOUR);
    plugin.install(home.dir(), "acme");
    let link = home.path("credlet-cache-acme");
    symlink(env!("CARGO_BIN_EXE_credlet"), &link).unwrap();
    let kuberc = format!(
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: Allowlist\n\
         credentialPluginAllowlist: [{{command: {}}}]\n",
        link.display()
    );
    home.file(".kube/kuberc", &kuberc);
    let token = || {
        let mut call = std::process::Command::new(&link);
        call.arg("login").env_clear().env("HOME", home.dir()).env("PATH", home.dir()).env("KUBERNETES_EXEC_INFO", V1);
        call.env("CREDLET_TEST_ACCOUNT_HOME", home.dir());
        home.run(call).token()
    };
    assert_eq!(token(), "old");
    crate::faults::rewrite(&home.entry(), "ahead", |_| "1000".to_owned());
    assert_eq!(token(), "old");
    crate::sandbox::runtime().block_on(plugin.has_run(2));
}

const KUBECONFIG: &str = "\
# mine
apiVersion: v1
kind: Config
current-context: blue
contexts:
- {name: blue, context: {cluster: c, user: ada}}
users:
- name: ada   # that is me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      # from the handbook
      command: aws
      args:
      # first
      - eks
      - get-token
      interactiveMode: IfAvailable
";

#[test]
fn wrap_keeps_comments_and_writes_a_backup() {
    let home = CacheSandbox::new();
    let path = home.file(".kube/config", KUBECONFIG);
    let would = home.run(home.credlet(&["cache", "wrap", "--dry-run"]));
    assert!(would.stdout.contains("would wrap ada (aws)"), "{would:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), KUBECONFIG);

    let done = home.run(home.credlet(&["cache", "wrap", "--", "--max-age", "15m"]));
    assert!(done.stdout.contains("wrapped ada (aws)"), "{done:?}");
    let expected = KUBECONFIG.replace("command: aws", "command: credlet").replace(
        "      - eks\n",
        "      - \"cache\"\n      - \"--max-age\"\n      - \"15m\"\n      - \"--\"\n      - \"aws\"\n      - eks\n",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(fs::read_to_string(home.path(".kube/config.before-credlet")).unwrap(), KUBECONFIG);
    // Once is enough.
    assert_eq!(home.run(home.credlet(&["cache", "wrap", "--all"])).stdout, "");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);

    assert_eq!(home.run(home.credlet(&["cache", "unwrap"])).code, Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), KUBECONFIG);
    assert!(!path.with_file_name("config.lock").exists());
}

#[test]
fn wrap_rejects_invalid_options() {
    let home = CacheSandbox::new();
    let path = home.file(".kube/config", KUBECONFIG);
    assert_eq!(home.run(home.credlet(&["cache", "wrap", "--", "--bogus"])).code, Some(2));
    assert_eq!(home.run(home.credlet(&["cache", "wrap", "--user", "eve"])).code, Some(2));
    assert_eq!(fs::read_to_string(&path).unwrap(), KUBECONFIG);
}
