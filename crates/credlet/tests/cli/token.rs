use std::time::Duration;

use credlet_testkit::plugin::TestPlugin;

use super::support::{CliSandbox, exec};

#[test]
fn masks_secrets_unless_revealed() {
    let (home, _plugin, token) = CliSandbox::with_token_plugin();
    for format in ["text", "json", "yaml"] {
        let masked = home.run(&["token", "-o", format]);
        home.watch.text(masked.data());
        assert!(masked.stdout.contains("[redacted, 41 characters]"), "{masked:?}");
        let revealed = home.run(&["token", "-o", format, "--reveal"]);
        assert!(revealed.data().contains(token.expose()), "{format}");
    }
    // The command sends no request.
    assert_eq!(home.server.counts().connections, 0);
}

#[test]
fn raw_formats_contain_the_token() {
    let (home, _plugin, token) = CliSandbox::with_token_plugin();
    let token = token.expose();
    assert_eq!(home.run(&["token", "-o", "raw"]).data(), format!("{token}\n"));
    assert_eq!(home.run(&["token", "-o", "header"]).data(), format!("Authorization: Bearer {token}\n"));
    let json = home.run(&["token", "-o", "exec-credential"]).json();
    assert_eq!(json["kind"], "ExecCredential");
    assert_eq!(json["status"]["token"], token);
}

#[test]
fn shows_source_duration_and_expiry() {
    let home = CliSandbox::empty();
    let plugin = TestPlugin::answering("a token").expiring_in(Duration::from_secs(3000));
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["token"]);
    let text = output.data();
    assert!(text.contains(&format!("source   plugin `{}` (", plugin.command().display())), "{text}");
    assert!(text.contains(".kube/config, line 14)\n"), "{text}");
    assert!(text.contains(" min)\n"), "{text}");
    assert!(text.contains("took "), "{text}");
    let json = home.run(&["token", "-o", "json"]).json();
    assert_eq!(json["source"]["kind"], "exec");
    assert!(json["expirationTimestamp"].is_string() && json["tookMilliseconds"].is_u64(), "{json}");
}

#[test]
fn reports_certificate_without_token() {
    let home = CliSandbox::empty();
    let identity = home.ca.client("ada").issue();
    home.watch.adopt("key", identity.key_pem());
    let plugin = TestPlugin::new().answers_with_certificate(identity.cert_pem(), identity.key_pem());
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["token", "-o", "raw"]);
    assert!(
        output.failure(3).contains("hint: the credential is a client certificate: print it with `-o exec-credential`"),
        "{output:?}"
    );
    let masked = home.run(&["token", "-o", "json"]);
    home.watch.text(masked.data());
    let used = home.run(&["token", "-o", "exec-credential"]).json();
    assert_eq!(used["status"]["clientKeyData"], identity.key_pem());
}

#[test]
fn prints_basic_authorization() {
    let home = CliSandbox::empty();
    let password = home.watch.secret("password");
    home.write_config("{}");
    let args = ["token", "--username", "ada", "--password", password.expose()];
    home.watch.text(home.run(&args).data());
    let output = home.run(&[&args[..], &["-o", "header"]].concat());
    assert!(output.data().starts_with("Authorization: Basic "), "{output:?}");
}

#[test]
fn anonymous_user_has_no_token() {
    let home = CliSandbox::with_user("{}");
    assert!(home.run(&["token"]).data().contains("requests are anonymous"));
    home.run(&["token", "-o", "raw"]).failure(3);
}

#[test]
fn reads_token_file() {
    let home = CliSandbox::empty();
    let token = home.watch.secret("token");
    std::fs::write(home.path("token"), token.expose()).unwrap();
    home.write_config("{tokenFile: ../token}");
    assert_eq!(home.run(&["token", "-o", "raw"]).data(), format!("{}\n", token.expose()));
    let json = home.run(&["token", "-o", "json"]).json();
    assert_eq!(
        (&json["source"]["kind"], &json["expirationTimestamp"]),
        (&"tokenFile".into(), &serde_json::Value::Null)
    );
}
