use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_testkit::plugin::TestPlugin;

use super::support::{CliSandbox, exec};

/// A JWT with these claims and a secret signature.
fn jwt(home: &CliSandbox, claims: &str) -> String {
    let signature = home.watch.secret("signature");
    let [header, claims] = [r#"{"alg":"none"}"#, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!("{header}.{claims}.{}", signature.expose())
}

#[test]
fn shows_server_user_and_claims() {
    let home = CliSandbox::empty();
    let token = jwt(&home, r#"{"iss":"https://id.example","sub":"ada@example","exp":4102444800}"#);
    home.server.accept_token_as(&token, "ada");
    let plugin = TestPlugin::answering(&token);
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["whoami"]);
    home.watch.text(&output.stdout);
    let text = output.data();
    for line in
        ["Authenticated as\n  username  ada\n", "iss     https://id.example\n", "exp     2100-01-01T00:00:00Z (in "]
    {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    let json = home.run(&["whoami", "-o", "json"]).json();
    assert_eq!(json["server"]["username"], "ada");
    assert_eq!(json["credential"]["facts"]["claims"]["sub"], "ada@example");
}

#[test]
fn shows_certificate_subject() {
    let home = CliSandbox::empty();
    let identity = home.ca.client("ada").organisations(["devs", "ops"]).issue();
    home.watch.adopt("key", identity.key_pem());
    home.server.accept_client("ada");
    let plugin = TestPlugin::new().answers_with_certificate(identity.cert_pem(), identity.key_pem());
    home.write_config(&exec(&plugin, "Never"));
    let output = home.run(&["whoami", "-o", "yaml"]);
    home.watch.text(&output.stdout);
    let text = output.data();
    assert!(text.contains("  username: ada\n"), "{text}");
    assert!(text.contains("CN=ada"), "{text}");
    assert!(text.contains("  - devs\n  - ops\n"), "{text}");
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn shows_credential_although_rejected() {
    let home = CliSandbox::empty();
    let token = jwt(&home, r#"{"sub":"mallory"}"#);
    home.server.revoke_all();
    home.write_config(&format!("{{token: {token}}}"));
    let output = home.run(&["whoami"]);
    home.watch.text(&output.stdout);
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains("mallory") && !output.stdout.contains("Authenticated as"), "{output:?}");
    assert!(output.stderr.starts_with("error: the server returned 401 Unauthorized"), "{output:?}");
}
