use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use credlet_testkit::plugin::Plugin;

use super::support::{Home, exec, exec_command};

/// A plugin that is a file of its own, which nobody else can change.
fn script(home: &Home, token: &str) -> PathBuf {
    let path = home.path("login");
    let answer = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"{token}"}}}}"#
    );
    fs::write(&path, format!("#!/bin/sh\necho talk >&2\necho '{answer}'\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    path
}

#[test]
fn it_says_what_it_runs_and_that_all_is_well() {
    let home = Home::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let program = script(&home, token.expose());
    home.write_config(&exec_command(&program, "Never"));
    let ran = home.run(&["doctor"]);
    home.watch.text(&ran.stdout);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stderr, format!("running `{}`, if the plugin policy allows it\n", program.display()));
    for check in ["✓ program", "✓ safety", "✓ policy", "✓ credential  a token in ", "✓ expiry", "✓ server", "✓ clock"]
    {
        assert!(ran.stdout.contains(check), "{check}: {ran:?}");
    }
    assert!(ran.stdout.contains("✓ accepted    the server takes you for \"ada\"\nAll is well.\n"), "{ran:?}");
    assert!(!ran.stdout.contains('✗'), "{ran:?}");
}

#[test]
fn a_missing_program_comes_with_its_install_hint() {
    let home = Home::of(
        "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: acme-login, \
         installHint: \"get it from\\e the intranet\"}}",
    );
    let ran = home.run(&["doctor"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.contains("✗ program     `acme-login` is not installed\n"), "{ran:?}");
    assert!(ran.stdout.contains("hint: get it fromU+001B the intranet\n"), "{ran:?}");
}

#[test]
fn the_policy_holds_here_too() {
    let (home, plugin, _) = Home::with_token_plugin();
    deny_all(&home);
    let ran = home.run(&["doctor"]);
    assert!(ran.stdout.contains("✗ policy"), "{ran:?}");
    assert_eq!((ran.code, plugin.runs()), (Some(4), 0), "{ran:?}");
}

fn deny_all(home: &Home) {
    let kuberc = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    fs::write(home.path(".kube/kuberc"), kuberc).unwrap();
}

#[test]
fn a_program_that_everybody_can_change_is_told() {
    let home = Home::empty();
    let program = script(&home, "a token");
    fs::set_permissions(&program, Permissions::from_mode(0o777)).unwrap();
    home.write_config(&exec_command(&program, "Never"));
    let ran = home.run(&["doctor"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("can be changed by everybody"), "{ran:?}");
    assert!(
        ran.stdout.contains(&format!("hint: `chmod go-w {}`", program.canonicalize().unwrap().display())),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("✓ accepted"), "the rest is examined all the same: {ran:?}");
}

#[test]
fn what_a_failing_plugin_says_is_in_the_report() {
    let home = Home::empty();
    let plugin = Plugin::failing(1, "please run `acme login`\n");
    home.write_config(&exec(&plugin, "Never"));
    let json = home.run(&["doctor", "-o", "json"]).json();
    let check = json[0]["checks"].as_array().unwrap().last().unwrap();
    assert_eq!(check["name"], "credential");
    assert!(check["message"].as_str().unwrap().ends_with("exited with code 1: please run `acme login`"), "{check}");
    assert_eq!(json[0]["ok"], false);
}

#[test]
fn an_expired_and_refused_credential_is_told() {
    let home = Home::empty();
    let plugin = Plugin::answering("a token").expired_since(Duration::from_secs(600));
    home.write_config(&exec(&plugin, "Never"));
    home.server.revoke_all();
    let ran = home.run(&["doctor"]);
    assert!(ran.stdout.contains("✗ expiry      it has expired: "), "{ran:?}");
    assert!(ran.stdout.contains("✗ accepted    the server said 401 Unauthorized"), "{ran:?}");
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["doctor", "--server", "https://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.stdout.contains("✗ server      127.0.0.1:1 cannot be reached"), "{ran:?}");
}

#[test]
fn all_examines_every_user_with_a_plugin_on_every_cluster() {
    let (home, plugin, _) = Home::with_token_plugin();
    let more = "- name: again\n  context: {cluster: blue, user: ada}\n- name: other\n  context: {cluster: red, user: \
                ada}\n- name: plain\n  context: {cluster: blue, user: bob}\nusers:\n- name: bob\n  user: {token: t}\n";
    let config = home.config(&exec(&plugin, "Never")).replace("users:\n", more);
    fs::write(home.path(".kube/config"), config).unwrap();
    let ran = home.run(&["doctor", "--all", "-o", "json"]);
    let json = ran.json();
    let contexts: Vec<_> = json.as_array().unwrap().iter().map(|report| &report["context"]).collect();
    assert_eq!(contexts, ["blue", "other"], "{json}");
    assert_eq!(json[1]["checks"][0]["name"], "kubeconfig", "{json}");
    assert_eq!(plugin.runs(), 1);
}
