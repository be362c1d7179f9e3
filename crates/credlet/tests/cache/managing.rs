//! What people do with a cache besides using it.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use credlet_testkit::plugin::Plugin;

use crate::stand::{Home, V1};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn entries_are_listed_explained_and_forgotten_without_their_secrets() {
    let home = Home::new();
    let (token, argument) = (home.watch.secret("token"), home.watch.secret("argument"));
    let plugin = Plugin::answering(token.expose()).expiring_in(HOUR);
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
    assert!(explained.stdout.contains("variable AWS_PROFILE") && explained.stdout.contains("not kept"));
    let mut explain = home.credlet(&["cache", "explain", "--", command.to_str().unwrap(), argument.expose()]);
    explain.env("KUBERNETES_EXEC_INFO", V1);
    let explained = home.run(explain);
    assert!(explained.stdout.starts_with(&format!("key {key}")), "{}", explained.stdout);
    assert!(explained.stdout.contains("kept, and served for another"), "{}", explained.stdout);

    assert_eq!(home.run(home.credlet(&["cache", "rm", "ffffffff-no"])).stdout, "0 forgotten\n");
    assert_eq!(home.run(home.credlet(&["cache", "rm", &key[..12]])).stdout, "1 forgotten\n");
    assert_eq!(home.run(home.credlet(&["cache", "ls"])).stdout, "nothing is kept\n");
    assert_eq!(home.run(home.credlet(&["cache", "rm"])).code, Some(2));
}

#[test]
fn only_plugins_on_the_list_may_stand_behind_it() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR);
    let command = plugin.command();
    let list = |text: &str| drop(home.file(".config/credlet/cache-allowlist", text));
    list(&format!("# ours\n{}\n", command.display()));
    assert_eq!(home.token(&[], &plugin), "a-token");
    // Kept or not: what is no longer allowed is not served.
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
fn a_link_named_after_a_plugin_runs_that_one() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR);
    plugin.install(home.path(), "acme");
    let link = home.path().join("credlet-cache-acme");
    symlink(env!("CARGO_BIN_EXE_credlet"), &link).unwrap();
    for _ in 0..2 {
        let mut call = std::process::Command::new(&link);
        call.arg("login").env_clear().env("HOME", home.path()).env("PATH", home.path()).env("KUBERNETES_EXEC_INFO", V1);
        assert_eq!(home.run(call).token(), "a-token");
    }
    assert_eq!(plugin.runs(), 1);
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
fn a_kubeconfig_is_wrapped_and_unwrapped_with_its_comments_and_a_backup() {
    let home = Home::new();
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
    assert_eq!(fs::read_to_string(home.path().join(".kube/config.before-credlet")).unwrap(), KUBECONFIG);
    // Once is enough.
    assert_eq!(home.run(home.credlet(&["cache", "wrap", "--all"])).stdout, "");
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);

    assert_eq!(home.run(home.credlet(&["cache", "unwrap"])).code, Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), KUBECONFIG);
    assert!(!path.with_file_name("config.lock").exists());
}

#[test]
fn options_that_are_none_are_not_written_into_a_kubeconfig() {
    let home = Home::new();
    let path = home.file(".kube/config", KUBECONFIG);
    assert_eq!(home.run(home.credlet(&["cache", "wrap", "--", "--bogus"])).code, Some(2));
    assert_eq!(home.run(home.credlet(&["cache", "wrap", "--user", "eve"])).code, Some(2));
    assert_eq!(fs::read_to_string(&path).unwrap(), KUBECONFIG);
}
