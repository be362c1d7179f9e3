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
fn it_is_counted_what_the_cache_was_good_for() {
    let home = Home::new();
    // For longer than a tick of the clock that is looked at: what takes less may be taken for nothing.
    let plugin = Plugin::new().sleeps(Duration::from_millis(50)).answers("a-token").expiring_in(HOUR);
    let stats = |home: &Home| home.run(home.credlet(&["cache", "stats", "-o", "json"])).json();
    assert_eq!(stats(&home), serde_json::json!([]));
    home.token(&[], &plugin);
    home.token(&[], &plugin);
    let counted = stats(&home);
    assert_eq!((&counted[0]["hits"], &counted[0]["runs"]), (&1.into(), &1.into()), "{counted}");
    // Forced, it is run for the one who waits.
    home.token(&["--force-refresh"], &plugin);
    let counted = stats(&home);
    assert_eq!((&counted[0]["hits"], &counted[0]["runs"]), (&1.into(), &2.into()), "{counted}");
    assert!(counted[0]["secondsSaved"].as_f64().unwrap() > 0.0, "{counted}");
    let told = home.run(home.credlet(&["cache", "stats"])).stdout;
    assert!(told.contains("1 answers from the cache, 2 runs; about "), "{told}");
}

#[test]
fn what_the_plugin_of_a_context_has_answered_is_forgotten() {
    let home = Home::new();
    let plugin = Plugin::answering("a-token").expiring_in(HOUR);
    let command = plugin.command();
    let words: String = plugin.args().iter().map(|word| format!(", {word:?}")).collect();
    let kubeconfig = format!(
        "current-context: blue\ncontexts:\n- {{name: blue, context: {{cluster: blue, user: ada}}}}\n- {{name: red, context: \
         {{cluster: red, user: ada}}}}\nclusters:\n- {{name: blue, cluster: {{server: 'https://blue.example'}}}}\n- {{name: \
         red, cluster: {{server: 'https://red.example'}}}}\nusers:\n- {{name: ada, user: {{exec: {{apiVersion: \
         client.authentication.k8s.io/v1, interactiveMode: Never, command: credlet, args: [cache, --, {command:?}{words}]}}}}}}\n"
    );
    let kubeconfig = home.file("kubeconfig", &kubeconfig);
    let told = |server: &str| V1.replace("false}", &format!("false,\"cluster\":{{\"server\":\"{server}\"}}}}"));
    for info in [V1.to_owned(), told("https://blue.example"), told("https://red.example")] {
        let mut call = home.cache(&[], &plugin);
        call.env("KUBERNETES_EXEC_INFO", info);
        home.run(call).token();
    }
    assert_eq!(home.keys().len(), 3);
    let rm = |context: &str| {
        let args = ["cache", "rm", "--kubeconfig", kubeconfig.to_str().unwrap(), "--context", context];
        home.run(home.credlet(&args))
    };
    // Its own, and the one of which nobody knows whose it is.
    assert_eq!(rm("blue").stdout, "2 forgotten\n");
    assert_eq!(rm("blue").stdout, "0 forgotten\n");
    assert_eq!(rm("red").stdout, "1 forgotten\n");
    assert_eq!(rm("green").code, Some(2));
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
