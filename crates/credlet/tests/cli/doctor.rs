use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use credlet_testkit::plugin::TestPlugin;

use super::support::{CliSandbox, exec, exec_command};

/// Writes a plugin that no other user can change.
fn script(home: &CliSandbox, token: &str) -> PathBuf {
    let path = home.path("login");
    let answer = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"{token}"}}}}"#
    );
    fs::write(&path, format!("#!/bin/sh\necho talk >&2\necho '{answer}'\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    path
}

#[test]
fn reports_passed_checks() {
    let home = CliSandbox::empty();
    let token = home.watch.secret("token");
    home.server.accept_token_as(token.expose(), "ada");
    let program = script(&home, token.expose());
    home.write_config(&exec_command(&program, "Never"));
    let output = home.run(&["doctor"]);
    home.watch.text(&output.stdout);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.stderr, format!("running `{}`, if the plugin policy allows it\n", program.display()));
    for check in ["✓ program", "✓ safety", "✓ policy", "✓ credential  a token in ", "✓ expiry", "✓ server", "✓ clock"]
    {
        assert!(output.stdout.contains(check), "{check}: {output:?}");
    }
    assert!(output.stdout.contains("✓ accepted    authenticated as \"ada\"\nAll checks passed.\n"), "{output:?}");
    assert!(!output.stdout.contains('✗'), "{output:?}");
}

#[test]
fn shows_install_hint() {
    let home = CliSandbox::with_user(
        "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: acme-login, \
         installHint: \"get it from\\e the intranet\"}}",
    );
    let output = home.run(&["doctor"]);
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stdout.contains("✗ program     `acme-login` is not installed\n"), "{output:?}");
    assert!(output.stdout.contains("hint: get it fromU+001B the intranet\n"), "{output:?}");
}

#[test]
fn applies_the_plugin_policy() {
    let (home, plugin, _) = CliSandbox::with_token_plugin();
    deny_all(&home);
    let output = home.run(&["doctor"]);
    assert!(output.stdout.contains("✗ policy"), "{output:?}");
    assert_eq!((output.code, plugin.runs()), (Some(4), 0), "{output:?}");
}

fn deny_all(home: &CliSandbox) {
    let kuberc = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    fs::write(home.path(".kube/kuberc"), kuberc).unwrap();
}

#[test]
fn reports_world_writable_program() {
    let home = CliSandbox::empty();
    let program = script(&home, "a token");
    fs::set_permissions(&program, Permissions::from_mode(0o777)).unwrap();
    home.write_config(&exec_command(&program, "Never"));
    let output = home.run(&["doctor"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stdout.contains("is writable by all users"), "{output:?}");
    assert!(
        output.stdout.contains(&format!("hint: run `chmod go-w {}`", program.canonicalize().unwrap().display())),
        "{output:?}"
    );
    assert!(output.stdout.contains("✓ accepted"), "the rest is examined all the same: {output:?}");
}

#[test]
fn includes_stderr_of_a_failing_plugin() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::failing(1, "please run `acme login`\n");
    home.write_config(&exec(&plugin, "Never"));
    let json = home.run(&["doctor", "-o", "json"]).json();
    let check = json[0]["checks"].as_array().unwrap().last().unwrap();
    assert_eq!(check["name"], "credential");
    assert!(check["message"].as_str().unwrap().ends_with("exited with code 1: please run `acme login`"), "{check}");
    assert_eq!(json[0]["ok"], false);
}

#[test]
fn reports_expired_and_rejected_token() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::answering("a token").expired_since(Duration::from_secs(600));
    home.write_config(&exec(&plugin, "Never"));
    home.server.revoke_all();
    let output = home.run(&["doctor"]);
    assert!(output.stdout.contains("✗ expiry      expired: "), "{output:?}");
    assert!(output.stdout.contains("✗ accepted    the server returned 401 Unauthorized"), "{output:?}");
}

#[test]
fn reports_unreachable_server() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["doctor", "--server", "https://127.0.0.1:1"]);
    assert_eq!(output.code, Some(6), "{output:?}");
    assert!(output.stdout.contains("✗ server      127.0.0.1:1 cannot be reached"), "{output:?}");
}

#[test]
fn all_checks_every_plugin_and_cluster() {
    let (home, plugin, _) = CliSandbox::with_token_plugin();
    let more = "- name: again\n  context: {cluster: blue, user: ada}\n- name: other\n  context: {cluster: red, user: \
                ada}\n- name: plain\n  context: {cluster: blue, user: bob}\nusers:\n- name: bob\n  user: {token: t}\n";
    let config = home.config(&exec(&plugin, "Never")).replace("users:\n", more);
    fs::write(home.path(".kube/config"), config).unwrap();
    let output = home.run(&["doctor", "--all", "-o", "json"]);
    let json = output.json();
    let contexts: Vec<_> = json.as_array().unwrap().iter().map(|report| &report["context"]).collect();
    assert_eq!(contexts, ["blue", "other"], "{json}");
    assert_eq!(json[1]["checks"][0]["name"], "kubeconfig", "{json}");
    assert_eq!(plugin.runs(), 1);
}
