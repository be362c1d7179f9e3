use std::fs;

use super::support::CliSandbox;

const EXEC: &str = "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./bin/login, args: [login, \
                    --client-secret, SECRET, --audience=x], env: [{name: PASS, value: SECRET}]}}";

#[test]
fn resolve_shows_file_and_line() {
    let home = CliSandbox::with_user("{token: t}");
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
fn resolve_masks_secrets() {
    let home = CliSandbox::empty();
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
fn check_reports_all_errors() {
    let home = CliSandbox::empty();
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
    for part in ["broken", "missing scheme in `server`", "`exec.apiVersion` is empty", "refers to unknown"] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    let json = run("json").json();
    let findings = json.as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["line"] == 3), "{json}");
    assert_eq!(findings.len(), text.stdout.lines().count());
}

#[test]
fn check_accepts_a_valid_kubeconfig() {
    let home = CliSandbox::with_user("{token: t}");
    let output = home.run(&["config", "check"]);
    assert!(output.data().starts_with("✓ no errors in "), "{output:?}");
    assert_eq!(home.run(&["config", "check", "-o", "json"]).data(), "[]\n");
    fs::write(home.path(".kube/kuberc"), "kind: Preference\n").unwrap();
    let output = home.run(&["config", "check"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stdout.contains("kuberc"), "{output:?}");
}

#[test]
fn escapes_control_characters_of_kubeconfig() {
    let home = CliSandbox::empty();
    let config = home.config("{token: t}").replace("ada", r#""a\e[2Jda""#);
    fs::write(home.path(".kube/config"), config).unwrap();
    let output = home.run(&["config", "resolve"]);
    assert!(output.data().contains("aU+001B[2Jda"), "{output:?}");
}

#[test]
fn masks_secrets_in_exec_args() {
    let home = CliSandbox::empty();
    let secret = home.watch.secret("argument");
    for args in [
        "-p, SECRET",
        "-pSECRET",
        "-oSECRET",
        "-u, \"ada:SECRET\"",
        "VAULT_TOKEN=SECRET, plugin",
        "--password=SECRET",
        "--password, SECRET",
        "\"https://ada:SECRET@host/\"",
        "\"--url=https://host/?sig=SECRET\"",
        "--jwt, SECRET",
        "--assertion=SECRET",
        "--pin, SECRET",
        "\"pkcs11:token=a?pin-value=SECRET\"",
        "--header, \"Authorization: Bearer SECRET\"",
        "--anything, SECRET",
        "SECRET",
    ] {
        let user = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: env, args: [eks, get-token, {}]}}}}",
            args.replace("SECRET", secret.expose())
        );
        home.write_config(&user);
        for format in ["text", "json", "yaml"] {
            let output = home.run(&["config", "resolve", "-o", format]);
            home.watch.text(output.data());
            assert!(output.stdout.contains("get-token") && output.stdout.contains("[redacted]"), "{args}: {output:?}");
            let output = home.run(&["config", "resolve", "-o", format, "--reveal"]);
            assert!(output.data().contains(secret.expose()), "{args}: {output:?}");
        }
    }
}
