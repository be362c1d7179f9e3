use std::time::Duration;

use credlet_testkit::plugin::Plugin;

use super::support::{Home, exec};

#[test]
fn text_json_and_yaml_mask_secrets_unless_told_to_reveal_them() {
    let (home, _plugin, token) = Home::with_token_plugin();
    for format in ["text", "json", "yaml"] {
        let masked = home.run(&["token", "-o", format]);
        home.watch.text(masked.data());
        assert!(masked.stdout.contains("[redacted, 41 characters]"), "{masked:?}");
        let revealed = home.run(&["token", "-o", format, "--reveal"]);
        assert!(revealed.data().contains(token.expose()), "{format}");
    }
    // It is for looking, so the server is left alone.
    assert_eq!(home.server.counts().connections, 0);
}

#[test]
fn formats_that_are_made_to_be_used_show_the_token() {
    let (home, _plugin, token) = Home::with_token_plugin();
    let token = token.expose();
    assert_eq!(home.run(&["token", "-o", "raw"]).data(), format!("{token}\n"));
    assert_eq!(home.run(&["token", "-o", "header"]).data(), format!("Authorization: Bearer {token}\n"));
    let json = home.run(&["token", "-o", "exec-credential"]).json();
    assert_eq!(json["kind"], "ExecCredential");
    assert_eq!(json["status"]["token"], token);
}

#[test]
fn it_says_where_the_token_is_from_how_long_it_took_and_when_it_ends() {
    let home = Home::empty();
    let plugin = Plugin::answering("a token").expiring_in(Duration::from_secs(3000));
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["token"]);
    let text = ran.data();
    assert!(text.contains(&format!("source   plugin `{}` (", plugin.command().display())), "{text}");
    assert!(text.contains(".kube/config, line 14)\n"), "{text}");
    assert!(text.contains(" min)\n"), "{text}");
    assert!(text.contains("took "), "{text}");
    let json = home.run(&["token", "-o", "json"]).json();
    assert_eq!(json["source"]["kind"], "exec");
    assert!(json["expirationTimestamp"].is_string() && json["tookMilliseconds"].is_u64(), "{json}");
}

#[test]
fn a_certificate_is_no_token() {
    let home = Home::empty();
    let identity = home.ca.client("ada").issue();
    home.watch.adopt("key", identity.key_pem());
    let plugin = Plugin::new().answers_with_certificate(identity.cert_pem(), identity.key_pem());
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["token", "-o", "raw"]);
    assert!(ran.failure(3).contains("hint: the credential is a client certificate: `-o exec-credential`"), "{ran:?}");
    let masked = home.run(&["token", "-o", "json"]);
    home.watch.text(masked.data());
    let used = home.run(&["token", "-o", "exec-credential"]).json();
    assert_eq!(used["status"]["clientKeyData"], identity.key_pem());
}

#[test]
fn a_password_is_a_header() {
    let home = Home::empty();
    let password = home.watch.secret("password");
    home.write_config("{}");
    let args = ["token", "--username", "ada", "--password", password.expose()];
    home.watch.text(home.run(&args).data());
    let ran = home.run(&[&args[..], &["-o", "header"]].concat());
    assert!(ran.data().starts_with("Authorization: Basic "), "{ran:?}");
}

#[test]
fn nobody_has_no_token() {
    let home = Home::of("{}");
    assert!(home.run(&["token"]).data().contains("requests are anonymous"));
    home.run(&["token", "-o", "raw"]).failure(3);
}

#[test]
fn a_token_file_is_read() {
    let home = Home::empty();
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
