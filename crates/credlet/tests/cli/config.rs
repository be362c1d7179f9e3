use std::fs;

use super::support::Home;

const EXEC: &str = "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./bin/login, args: [login, \
                    --client-secret, SECRET, --audience=x], env: [{name: PASS, value: SECRET}]}}";

#[test]
fn what_would_be_used_is_shown_with_file_and_line() {
    let home = Home::of("{token: t}");
    let text = home.run(&["config", "resolve"]);
    let config = home.path(".kube/config");
    let server = format!("server                  {}  ({}, line 7)\n", home.server.url(), config.display());
    assert!(text.data().contains(&server), "{text:?}");
    let json = home.run(&["config", "resolve", "-o", "json", "-n", "other"]).json();
    assert_eq!(json["server"]["value"], home.server.url());
    assert_eq!(json["server"]["line"], 7);
    assert_eq!(json["server"]["file"], config.to_str().unwrap());
    assert_eq!(json["namespace"]["value"], "other");
    assert_eq!(json["certificate-authority"]["value"], home.path("ca.pem").to_str().unwrap());
    assert_eq!(home.server.counts().connections, 0);
}

#[test]
fn secrets_in_it_are_masked_unless_asked_for() {
    let home = Home::empty();
    let secret = home.watch.secret("secret");
    home.write_config(&EXEC.replace("SECRET", secret.expose()));
    let proxy = format!("http://jane:{}@proxy.example:3128", secret.expose());
    for format in ["text", "json", "yaml"] {
        let args = ["config", "resolve", "-o", format, "--proxy-url", &proxy];
        let masked = home.run(&args);
        home.watch.text(masked.data());
        assert!(masked.stdout.contains("--audience=x"), "{masked:?}");
        assert!(masked.stdout.contains("[redacted]@proxy.example:3128"), "{masked:?}");
        let revealed = home.run(&[&args[..], &["--reveal"]].concat());
        assert_eq!(revealed.data().matches(secret.expose()).count(), 3, "{revealed:?}");
    }
}

#[test]
fn all_mistakes_are_found_at_once_also_beside_a_file_that_cannot_be_read() {
    let home = Home::empty();
    fs::write(home.path("broken"), "clusters: 5\n").unwrap();
    fs::write(
        home.path("wrong"),
        "clusters:\n- name: a\n  cluster: {server: 'host:1'}\nusers:\n- name: u\n  user: {exec: {command: x}}\n\
         contexts:\n- name: c\n  context: {cluster: none, user: u}\n",
    )
    .unwrap();
    let list = format!("{}:/no/such:{}", home.path("broken").display(), home.path("wrong").display());
    let run = |format| {
        let mut command = home.command(&["config", "check", "-o", format]);
        command.env("KUBECONFIG", &list);
        home.finish(command)
    };
    let text = run("text");
    assert_eq!(text.code, Some(2));
    for part in ["broken", "`server` has no scheme", "`exec.apiVersion` is empty", "\"none\", which is in none"] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    let json = run("json").json();
    let findings = json.as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["line"] == 3), "{json}");
    assert_eq!(findings.len(), text.stdout.lines().count());
}

#[test]
fn a_good_kubeconfig_has_no_mistakes() {
    let home = Home::of("{token: t}");
    let ran = home.run(&["config", "check"]);
    assert!(ran.data().starts_with("✓ no mistakes in "), "{ran:?}");
    assert_eq!(home.run(&["config", "check", "-o", "json"]).data(), "[]\n");
    fs::write(home.path(".kube/kuberc"), "kind: Preference\n").unwrap();
    let ran = home.run(&["config", "check"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("kuberc"), "{ran:?}");
}

#[test]
fn control_characters_in_a_kubeconfig_are_seen_and_not_obeyed() {
    let home = Home::empty();
    let config = home.config("{token: t}").replace("ada", r#""a\e[2Jda""#);
    fs::write(home.path(".kube/config"), config).unwrap();
    let ran = home.run(&["config", "resolve"]);
    assert!(ran.data().contains("aU+001B[2Jda"), "{ran:?}");
}
