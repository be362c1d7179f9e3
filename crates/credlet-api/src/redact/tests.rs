use std::cell::Cell;

use proptest::prelude::*;

use super::*;

thread_local! {
    pub(super) static STEPS: Cell<usize> = const { Cell::new(0) };
}

fn clean(text: &str) -> String {
    redact(text, [])
}

/// Each line holds `LEAK` somewhere, which must be gone.
fn assert_hidden(texts: &[&str]) {
    for text in texts {
        for secret in ["LEAK9x", "hunter2", "Xy7LEAK"] {
            let text = text.replace("LEAK", secret);
            let shown = clean(&text);
            assert!(!shown.contains(secret) && !shown.contains("LEAK"), "{text:?} became {shown:?}");
            assert!(shown.contains(REDACTED), "{text:?} became {shown:?}");
        }
    }
}

#[test]
fn removes_known_secrets() {
    let secret = Secret::new("s3cr3t-value");
    assert_eq!(redact("as3cr3t-valueb s3cr3t-value", [&secret]), "a[redacted]b [redacted]");
    let longer = Secret::new("s3cr3t-value-and-more");
    assert_eq!(redact("x s3cr3t-value-and-more x", [&secret, &longer]), "x [redacted] x");
}

#[test]
fn keeps_short_known_values() {
    assert_eq!(redact("true is true", [&Secret::new("true")]), "true is true");
}

#[test]
fn redacts_assignments() {
    assert_hidden(&[
        "token=LEAK",
        "error: token=LEAK: rejected",
        "password=LEAK",
        "PASSWORD=LEAK user=ada",
        "Password = LEAK",
        "client_secret=LEAK&grant_type=x",
        "secret_key_base=LEAK",
        "VAULT_TOKEN=LEAK",
        "export VAULT_TOKEN='LEAK'",
        "export VAULT_TOKEN=\"LEAK\"tail",
        "token='LEAK'\"LEAK\"",
        "token := LEAK",
        "token => LEAK",
        "os.environ[\"API_TOKEN\"]=LEAK",
        "--token=LEAK",
        "--token LEAK --verbose",
        "running plugin --client-secret LEAK get",
        "-password LEAK",
        "user=ada,password=LEAK,host=h",
        "user=ada;password=LEAK;host=h",
        "(token=LEAK)",
        "{Token:LEAK Expiry:2030}",
        "map[access_token:LEAK expires_in:3600]",
        "accessToken=LEAK",
        "API_KEY=LEAK",
        "api-key: LEAK",
        "AccountKey=LEAK;EndpointSuffix=x",
        "SharedAccessKey=LEAK",
        "secretAccessKey=LEAK",
        "_authToken=LEAK",
        "token%3DLEAK",
        "%22token%22%3A%22LEAK%22",
        "jwt=LEAK",
        "assertion=LEAK",
        "secret_id=LEAK",
        "\u{2028}token=LEAK",
        "é日本token=LEAK",
    ]);
}

#[test]
fn values_may_contain_separators() {
    assert_eq!(clean("password=hun,ter;2&x user=ada"), "password=[redacted] user=ada");
    assert_eq!(clean("password=abc,user=b"), "password=[redacted],user=b");
    assert_eq!(clean("a?token=x&b=c"), "a?token=[redacted]&b=c");
    assert_eq!(clean(r#"{"url":"https://h/?token=abc","x":1}"#), r#"{"url":"https://h/?token=[redacted]","x":1}"#);
}

#[test]
fn redacts_members_of_documents() {
    assert_hidden(&[
        r#"{"token":"LEAK"}"#,
        r#""token" is missing {"token":"LEAK"}"#,
        r#""token" "token" x "token" : "LEAK""#,
        r#"{"x":1,"password" : "LEAK"}"#,
        "{\"token\":\n  \"LEAK\"}",
        r#"{"token":"a\"LEAK"}"#,
        r#"{"token":"a\\","password":"LEAK"}"#,
        r#"{\"token\":\"LEAK\"}"#,
        r#"{\"token\": \"a\\\"LEAK\"}"#,
        r#"{\\\"token\\\":\\\"LEAK\\\"}"#,
        r#"{'token': 'LEAK'}"#,
        r#"{"Token":"LEAK"}"#,
        r#"{"tokens":1,"access_token":["x","LEAK"]}"#,
        r#"{"clientKeyData":"LEAK"}"#,
        r#"{"client-key-data": "LEAK"}"#,
        r#"{"auths":{"h":{"auth":"LEAK"}}}"#,
        r#"{"token":"LEAK"#,
        "token: LEAK",
        "  token: LEAK\n",
        "- token: LEAK",
        "users:\n- user:\n    token: \"LEAK\"\n",
        "password: |\n  LEAK\n  LEAK\nuser: x",
        "token: >-\n  LEAK\n",
        "<Password>LEAK</Password>",
        "<SecretAccessKey>LEAK</SecretAccessKey>",
        "Credentials { token: \"LEAK\" }",
        "Credentials { token: LEAK }",
        "the access token: LEAK",
        "API key: LEAK",
        "secret key = LEAK",
    ]);
    assert_eq!(
        clean(r#"{"x":1,"password" : "p","token":"t"}"#),
        r#"{"x":1,"password" : "[redacted]","token":"[redacted]"}"#
    );
    assert_eq!(clean("{\"token\":\"a\nb\",\"x\":\"y\"}"), "{\"token\":\"[redacted]\",\"x\":\"y\"}");
    assert_eq!(clean("password: |\n  a\n  b\nuser: x"), "password: |\n  [redacted]\nuser: x");
}

#[test]
fn redacts_headers_and_addresses() {
    assert_hidden(&[
        "Authorization: Bearer LEAK",
        "authorization: bearer   LEAK",
        "Authorization: LEAK",
        "authorization=Bearer LEAK",
        "Proxy-Authorization: Basic LEAKLEAK==",
        "\"Authorization\": \"Bearer LEAK\"",
        "Authorization:[Bearer LEAK]",
        "Authorization: AWS4-HMAC-SHA256 Credential=x, Signature=LEAK",
        "Authorization: Negotiate LEAK",
        "-H 'Authorization: token LEAK'",
        "X-Api-Key: LEAK",
        "X-Vault-Token: LEAK",
        "Cookie: a=b; session=LEAK",
        "Set-Cookie: session=LEAK; Path=/",
        "got Bearer LEAK.",
        "https://ada:LEAK@host/x",
        "https://LEAK@host",
        "postgres://u:p/LEAK@host/db",
        "https://u:p@LEAK@host/db",
        "proxy ada:LEAK@proxy.example:3128",
        "HTTPS_PROXY=ada:LEAK@proxy:3128",
        "https://h/cb?code=LEAK&state=x",
        "https://h/#access_token=LEAK",
        "https://h/?a=b&id_token=LEAK",
        "https://s3/x?X-Amz-Signature=LEAK",
        "https://s3/x?X-Amz-Security-Token=LEAK&y=z",
        "https://blob/x?sv=1&sig=LEAK",
        "pkcs11:token=a;object=b?pin-value=LEAK",
        "pkcs11:token=a?pin-value=LEAK&module-path=/x",
        "PKCS11:token=a?PIN-VALUE=LEAK",
    ]);
    assert_eq!(clean("https://ada:x@host/p"), "https://[redacted]@host/p");
    assert_eq!(clean("pkcs11:token=a;object=b?pin-value=1&x=y"), "pkcs11:token=a;object=b?pin-value=[redacted]&x=y");
}

#[test]
fn redacts_pins() {
    for text in [
        "--pin 123456",
        "--pin=1234",
        "pin-value=1234",
        "pin: 1234",
        "the PIN: 1234",
        "PIN 123456 is wrong",
        "{\"pin\": 1234}",
    ] {
        let shown = clean(text);
        assert!(!shown.contains("1234") && shown.contains(REDACTED), "{text:?} became {shown:?}");
    }
}

#[test]
fn redacts_credentials_by_form() {
    let jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln";
    for (text, expected) in [
        (format!("got {jwt}!"), "got [redacted]!"),
        (format!("x{jwt}"), "x[redacted]"),
        (format!("a={jwt};b={jwt}, \"{jwt}\""), "a=[redacted];b=[redacted], \"[redacted]\""),
        (format!("token={jwt}"), "token=[redacted]"),
        (format!("jwt_{jwt}. Next"), "jwt_[redacted]. Next"),
        ("k8s-aws-v1.aHR0cHM6Ly9zdHM".into(), "[redacted]"),
        ("x=ghp_0123456789abcdef, y".into(), "x=[redacted], y"),
        ("github_pat_11ABCDEFG0123456789_x".into(), "[redacted]"),
        ("/repo/glpat-0123456789abcdef".into(), "/repo/[redacted]"),
        ("xoxp-0123456789-abc".into(), "[redacted]"),
        ("key AIzaSyA0123456789abcdefghijklmnopqrstu here".into(), "key [redacted] here"),
        ("ya29.a0AfH6SMBx".into(), "[redacted]"),
        ("hvs.CAESIJ0123456789abcdefgh".into(), "[redacted]"),
        ("sha256~0123456789abcdefghijkl".into(), "[redacted]"),
        ("abc8Q~0123456789abcdefghijklmnopqrstuvwx".into(), "[redacted]"),
        ("07401b.f395accd246ae52d".into(), "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(), "[redacted] [redacted]"),
        ("keys: ASIAIOSFODNN7EXAMPLE".into(), "keys: [redacted]"),
    ] {
        assert_eq!(clean(&text), expected);
    }
}

#[test]
fn redacts_private_keys() {
    for (text, expected) in [
        ("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nend", "[redacted]\nend"),
        ("cut -----BEGIN PRIVATE KEY-----\nabc", "cut [redacted]"),
        ("x-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----y", "x[redacted]y"),
        (r#""k":"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n""#, r#""k":"[redacted]\n""#),
        ("failed: AbC+/=\nDeF=\n-----END PRIVATE KEY-----\nend", "failed: [redacted]\nend"),
        (
            "-----BEGIN PRIVATE KEY-----\na\n-----END PRIVATE KEY-----\n-----BEGIN PRIVATE KEY-----\nb\n-----END PRIVATE KEY-----",
            "[redacted]\n[redacted]",
        ),
    ] {
        assert_eq!(clean(text), expected);
    }
}

#[test]
fn keeps_ordinary_messages() {
    for text in [
        "",
        "token is expired",
        "password required",
        "error: token=expired",
        "password: required",
        "token: missing",
        "error: could not read /home/ada/.aws/config: permission denied",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n",
        r#"unknown field "token": expected "name""#,
        r#"invalid token: "unexpected end of input""#,
        "eyJ is how one begins",
        "oauth2: cannot fetch token: 400 Bad Request",
        "oauth2: cannot fetch token: 401 Unauthorized",
        "failed to verify token: x509: certificate signed by unknown authority",
        "failed to verify token: oidc: malformed jwt",
        "could not get token: AzureCLICredential: ERROR: Please run 'az login' to setup account.",
        "reading secret: open /var/run/secrets/token: no such file or directory",
        "Error: failed to get token: Post \"https://login.microsoftonline.com/x/oauth2/token\": dial tcp: timeout",
        "the flag --token is deprecated, use --token-file instead",
        "--password requires a value",
        "flags: --token or --password-stdin",
        "secrets \"regcred\" not found",
        "User \"system:serviceaccount:default:builder\" cannot list resource \"secrets\"",
        "User \"oidc:ada@example.test\" cannot get pods",
        "image nginx:1.25@sha256:9b1d3b8f5e4d7d9a0a6f0e4f0cf6c1c8a4c1e2d3f4a5b6c7d8e9f0a1b2c3d4e5",
        "commit 49cf8832a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6",
        "connect https://127.0.0.1:6443/api: refused",
        "https://packages.example.test/@scope/pkg",
        "goroutine 1 [running]:\nmain.token.go:12 +0x1d\n\t/src/token.go:123: panic",
        "exit code=1, status code: 404",
        "token_type=Bearer expires_in=3600",
        "tokenFile: /var/run/secrets/token",
        "Bearer token is not valid",
        "WWW-Authenticate: Bearer realm=\"https://h\"",
        "unsupported scheme: basic authentication is disabled",
        "missing Authorization header",
        "authorization: the user may not do that",
        "enter the code WDJB-MJHT at https://login.example/device",
        "To sign in, use a web browser to open https://microsoft.com/devicelogin and enter the code ABCD1234",
        "PIN is wrong, 2 tries left",
        "Enter PIN: ",
        "pkcs11:token=My%20Card;object=key",
        "secret/data/foo: 403",
        "tokens: 12 of 20 used",
        "MFA code of arn:aws:iam::123456789012:mfa/ada for arn:aws:iam::123456789012:role/admin",
        "Der Schlüssel „token“ fehlt",
    ] {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn redaction_is_idempotent() {
    for text in
        ["token=abc9 x", "{\"token\":\"x\"}", "Bearer abc", "https://u:p@h/x", "password: |\n  a\nb: c", "--pin 1234"]
    {
        assert_eq!(clean(&clean(text)), clean(text));
    }
}

fn args(args: &[&str]) -> String {
    redact_args(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).join(" ")
}

#[test]
fn redacts_secrets_in_args() {
    for list in [
        &["login", "--oidc-client-secret=LEAK9x"][..],
        &["--Password", "LEAK9x", "x"],
        &["-p", "LEAK9x"],
        &["-p", "-LEAK9x"],
        &["-pLEAK9x"],
        &["-oLEAK9x"],
        &["-o", "LEAK9x"],
        &["-u", "ada:LEAK9x"],
        &["--user", "ada:LEAK9x"],
        &["--user=ada:LEAK9x"],
        &["VAULT_TOKEN=LEAK9x", "plugin"],
        &["password=LEAK9x"],
        &["-password=LEAK9x"],
        &["-password", "LEAK9x"],
        &["https://u:LEAK9x@host/"],
        &["--url=https://u:LEAK9x@host/"],
        &["--url", "https://host/?sig=LEAK9x"],
        &["--url", "https://host/?x=LEAK9xQ2w8E5r1T7y4U9"],
        &["--jwt", "LEAK9x"],
        &["--assertion=LEAK9x"],
        &["--pin", "LEAK9x"],
        &["--user-pin=LEAK9x"],
        &["pkcs11:token=a?pin-value=LEAK9x"],
        &["--uri", "pkcs11:token=a?pin-value=LEAK9x"],
        &["--anything", "LEAK9xQ2w8E5r1T7y4U9"],
        &["--anything=LEAK9xQ2w8E5r1T7y4U9"],
        &["FOO=LEAK9xQ2w8E5r1T7y4U9"],
        &["LEAK9xQ2w8E5r1T7y4U9"],
        &["--header", "Authorization: Bearer LEAK9x"],
        &["-H", "X-Api-Key: LEAK9x"],
        &["-c", "TOKEN=LEAK9x exec plugin"],
        &["--config", r#"{"password":"LEAK9x"}"#],
        &["--api-key", "LEAK9x"],
        &["--apikey=LEAK9x"],
        &["--passphrase", "LEAK9x"],
    ] {
        let shown = args(list);
        assert!(!shown.contains("LEAK") && shown.contains(REDACTED), "{list:?} became {shown:?}");
    }
    assert_eq!(args(&["--token", "--verbose", "x"]), "--token --verbose x");
    assert_eq!(args(&["k8s-aws-v1.aHR0cHM6Ly9zdHM"]), "[redacted]");
}

#[test]
fn keeps_args_without_secrets() {
    for list in [
        &["eks", "get-token", "--cluster-name", "blue", "--region=eu-west-1", "--output", "json"][..],
        &["token", "-i", "blue", "-r", "arn:aws:iam::123456789012:role/KubernetesAdmin1"],
        &["get-token", "--login", "msi", "--server-id", "6dae42f8-4368-4678-94ff-3960e28e3630"],
        &["-region", "eu-west-1", "-cluster=blue"],
        &["-o", "json", "-v", "9", "-ojson", "-v9"],
        &["--oidc-issuer-url=https://oidc.eks.eu-west-1.amazonaws.com/id/D539D4633E53DE1B716D3041EBC5A2B3"],
        &["--token-file", "/var/run/secrets/token", "--pin-file=/home/ada/pin"],
        &["proxy", "pkcs11", "pkcs11:token=My%20Card;object=key", "--", "x", "-"],
        &["--use_application_default_credentials", "--profile", "prod-admin-2"],
        &["AWS_PROFILE=prod", "aws"],
        &["--oidc-extra-scope", "offline_access"],
    ] {
        assert_eq!(args(list), list.join(" "));
    }
}

proptest! {
    #[test]
    fn any_text_is_accepted(text in any::<String>()) {
        clean(&text);
        redact_args(&[text.clone(), text]);
    }

    /// Text made of the parts that the scanner looks for.
    #[test]
    fn any_mixture_of_known_parts_is_accepted(parts in prop::collection::vec(prop::sample::select(vec![
        "token", "\"token\"", "pin", "password", "Authorization", "Bearer", "Cookie", "code", "=", ":", " ", "\n", "\"", "'", "\\",
        "\\\"", "[", "]", "{", "}", ",", "&", "?", "://", "@", "-----BEGIN ", "PRIVATE KEY", "-----END ", "-----", "eyJ", ".",
        "AKIA", "ASIAIOSFODNN7EXAMPLE", "é", "日", "\u{1b}[1m", "--", "|\n", ">", "<", "%3D", "%", "pkcs11:", "pin-value", "abc9",
        "[redacted]", "1234", ";", "/", "+", "~",
    ]), 0..60)) {
        let text = parts.concat();
        let shown = clean(&text);
        redact_args(&[text]);
        prop_assert!(shown.len() <= parts.concat().len() * (REDACTED.len() + 1));
    }

    #[test]
    fn finds_secrets_behind_noise(noise in "[a-zA-Z \"':={}\\[\\],.\\\\\n-]{0,40}", again in 1_usize..4) {
        let text = format!("{noise} \n{}", "{\"token\":\"Zq9LEAK\"} and password=Zq9LEAK \n".repeat(again));
        prop_assert!(!clean(&text).contains("Zq9LEAK"), "{:?}", clean(&text));
    }
}

/// Parts that make the scanner look ahead, repeated. Work is counted, not timed.
#[test]
fn hostile_text_takes_linear_time() {
    for part in [
        "token: ",
        "token:1:",
        "\"token\":x",
        "token=",
        "token: \"",
        "token: \\\"a b ",
        "a://b:c",
        "a://b:c@",
        "Authorization: x ",
        "Authorization: Digest ",
        "-----BEGIN PRIVATE ",
        "-----BEGIN X-----",
        "a-----",
        "AKIA",
        "eyJ",
        "a:a",
        "Bearer ",
        "pin 1 ",
        "token: '",
        "[redacted]",
        "token: \"[redacted] ",
        "\\\\\"token\\\":",
        "token: |\n token: |\n",
        "--token ",
        "--token -x ",
        "token:\t",
        "- token: x y\n",
        "%3D",
        "sk-",
        "IA",
        "\"token\"\n",
        "token=[\"",
        "cookie: ",
        "<token>",
        "-----END PRIVATE KEY-----",
    ] {
        let text = part.repeat((16 << 10) / part.len());
        STEPS.set(0);
        clean(&text);
        let steps = STEPS.get() / text.len();
        assert!(steps <= 200, "{steps} steps per byte for {part:?}");
    }
}
