//! What a provider owes whoever asks it, kept by our own: `credlet-docker-helper`.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::{CREDLET, ImageSandbox};

/// Asks our provider, which asks a docker credential helper that is this shell script.
fn ask(node: &ImageSandbox, helper: &str, version: &str, image: &str) -> Output {
    let helpers = node.path("helpers");
    fs::create_dir_all(&helpers).unwrap();
    let script = helpers.join("docker-credential-script");
    fs::write(&script, format!("#!/bin/sh\n{helper}\n")).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let provider = node.path("credlet-docker-helper");
    if !provider.exists() {
        symlink(CREDLET, &provider).unwrap();
    }
    let mut command = node.command(provider.to_str().unwrap(), &["--helper", "script"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", helpers.display()));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let request = format!(
        "{{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/{version}\",\"image\":\"{image}\"}}\n"
    );
    // In two parts: whoever stops at the first does not know the image.
    let mut stdin = child.stdin.take().unwrap();
    let (begin, end) = request.as_bytes().split_at(40);
    stdin.write_all(begin).unwrap();
    stdin.flush().unwrap();
    stdin.write_all(end).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    node.watch.text(String::from_utf8_lossy(&output.stderr));
    output
}

fn helper(node: &ImageSandbox) -> String {
    format!(
        "cat >/dev/null; echo '{{\"ServerURL\":\"x\",\"Username\":\"ada\",\"Secret\":\"{}\"}}'",
        node.password.expose()
    )
}

#[test]
fn responds_in_request_version() {
    let node = ImageSandbox::new();
    for version in ["v1alpha1", "v1beta1", "v1"] {
        let output = ask(&node, &helper(&node), version, "a.io/team/app");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["kind"], "CredentialProviderResponse");
        assert_eq!(answer["apiVersion"], format!("credentialprovider.kubelet.k8s.io/{version}"));
        assert_eq!(answer["auth"]["a.io"]["password"], node.password.expose());
    }
    let unknown = ask(&node, &helper(&node), "v9", "a.io/team/app");
    assert!(!unknown.status.success() && unknown.stdout.is_empty());
}

#[test]
fn states_scope_and_only_requested_keys() {
    let node = ImageSandbox::new();
    let some: Value = serde_json::from_slice(&ask(&node, &helper(&node), "v1", "a.io:5000/team/app").stdout).unwrap();
    let keys: Vec<_> = some["auth"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((keys, &some["cacheKeyType"]), (vec!["a.io:5000"], &Value::from("Registry")));
    let nothing = "cat >/dev/null; echo 'credentials not found in native keychain'; exit 1";
    let output = ask(&node, nothing, "v1", "a.io/team/app");
    assert!(output.status.success());
    let none: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(none["cacheKeyType"], "Registry");
    assert_eq!(none["cacheDuration"], "0s", "that there is nothing is not remembered");
    assert!(none["auth"].as_object().is_none_or(serde_json::Map::is_empty));
}

#[test]
fn stderr_has_no_secrets() {
    let node = ImageSandbox::new();
    let secret = node.password.expose();
    let answer = helper(&node);
    let leaky = format!("{answer}; echo 'giving {secret} away' >&2");
    assert!(ask(&node, &leaky, "v1", "a.io/team/app").status.success());
    for (ends, told) in
        [("echo 'giving {} away' >&2; exit 3", "giving [redacted] away"), ("exit 3", "exited with code 3")]
    {
        let output = ask(&node, &format!("{answer}; {}", ends.replace("{}", secret)), "v1", "a.io/team/app");
        assert!(!output.status.success() && output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("docker-credential-script") && said.contains(told), "{said}");
    }
}
