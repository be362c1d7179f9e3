use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_testkit::plugin::Plugin;

use super::support::{Home, exec};

/// A token with claims in it, and a secret for a signature.
fn jwt(home: &Home, claims: &str) -> String {
    let signature = home.watch.secret("signature");
    let [header, claims] = [r#"{"alg":"none"}"#, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    format!("{header}.{claims}.{}", signature.expose())
}

#[test]
fn the_server_and_the_token_say_who_it_is() {
    let home = Home::empty();
    let token = jwt(&home, r#"{"iss":"https://id.example","sub":"ada@example","exp":4102444800}"#);
    home.server.accept_token_as(&token, "ada");
    let plugin = Plugin::answering(&token);
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["whoami"]);
    home.watch.text(&ran.stdout);
    let text = ran.data();
    for line in
        ["The server says\n  username  ada\n", "iss     https://id.example\n", "exp     2100-01-01T00:00:00Z (in "]
    {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    let json = home.run(&["whoami", "-o", "json"]).json();
    assert_eq!(json["server"]["username"], "ada");
    assert_eq!(json["credential"]["facts"]["claims"]["sub"], "ada@example");
}

#[test]
fn the_certificate_says_who_it_is() {
    let home = Home::empty();
    let identity = home.ca.client("ada").organisations(["devs", "ops"]).issue();
    home.watch.adopt("key", identity.key_pem());
    home.server.accept_client("ada");
    let plugin = Plugin::new().answers_with_certificate(identity.cert_pem(), identity.key_pem());
    home.write_config(&exec(&plugin, "Never"));
    let ran = home.run(&["whoami", "-o", "yaml"]);
    home.watch.text(&ran.stdout);
    let text = ran.data();
    assert!(text.contains("  username: ada\n"), "{text}");
    assert!(text.contains("CN=ada"), "{text}");
    assert!(text.contains("  - devs\n  - ops\n"), "{text}");
    assert_eq!(plugin.runs(), 1);
}

#[test]
fn what_the_credential_says_is_shown_also_if_it_is_refused() {
    let home = Home::empty();
    let token = jwt(&home, r#"{"sub":"mallory"}"#);
    home.server.revoke_all();
    home.write_config(&format!("{{token: {token}}}"));
    let ran = home.run(&["whoami"]);
    home.watch.text(&ran.stdout);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("mallory") && !ran.stdout.contains("The server says"), "{ran:?}");
    assert!(ran.stderr.starts_with("error: the server said 401 Unauthorized"), "{ran:?}");
}
