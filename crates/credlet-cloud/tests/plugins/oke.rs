use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;

use crate::support::{PluginRun, Sandbox, jwt, key};

const CLUSTER: &str = "ocid1.cluster.oc1.eu-frankfurt-1.aaaa";

fn sandbox(more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    // Like a key from the console, with a label below it.
    sandbox.file(".oci/key.pem", format!("{}OCI_API_KEY\n", key().pem));
    sandbox.file(
        ".oci/config",
        format!("[DEFAULT]\nuser=ocid1.user\nfingerprint=aa:bb\nkey_file=~/.oci/key.pem\ntenancy=ocid1.tenancy\nregion=eu-frankfurt-1\n{more}"),
    );
    sandbox
}

/// The URL in the token.
#[track_caller]
fn url(run: &PluginRun) -> String {
    String::from_utf8(URL_SAFE.decode(run.token()).unwrap()).unwrap()
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut parts = text.split('%');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |all, part| {
        format!("{all}{}{}", char::from(u8::from_str_radix(&part[..2], 16).unwrap()), &part[2..])
    })
}

#[test]
fn signs_like_oci_cli() {
    let run = sandbox("").oke(&format!("ce cluster generate-token --cluster-id {CLUSTER} --region eu-frankfurt-1"));
    assert_eq!(run.expires(), "2026-11-15T19:21:49Z");
    let url = url(&run);
    let host = "containerengine.eu-frankfurt-1.oraclecloud.com";
    let (place, query) = url.split_once('?').unwrap();
    assert_eq!(place, format!("https://{host}/cluster_request/{CLUSTER}"));
    let (authorization, date) = query.strip_prefix("authorization=").unwrap().split_once("&date=").unwrap();
    assert!(authorization.starts_with("Signature+algorithm%3D%22rsa-sha256%22%2C"), "{authorization}");
    assert_eq!(decoded(date), "Sun, 15 Nov 2026 19:17:49 GMT");
    let authorization = decoded(authorization);
    let (head, tail) = authorization.split_once(",signature=\"").unwrap();
    assert_eq!(
        head,
        r#"Signature algorithm="rsa-sha256",headers="date (request-target) host",keyId="ocid1.tenancy/ocid1.user/aa:bb""#
    );
    let signature = tail.strip_suffix("\",version=\"1\"").unwrap();
    let signed = format!("date: {}\n(request-target): get /cluster_request/{CLUSTER}\nhost: {host}", decoded(date));
    assert!(key().has_signed(&signed, signature));
    assert!(!key().has_signed(&signed.replace("aaaa", "bbbb"), signature));
}

#[test]
fn profile_and_env_settings() {
    let sandbox = sandbox("[work]\nuser=ocid1.other\nregion=US-Gov-Ashburn-1\n");
    let at = url(&sandbox.oke(&format!("--cluster-id {CLUSTER} --profile work")));
    assert!(at.starts_with("https://containerengine.us-gov-ashburn-1.oraclecloud.com/"), "as oci-cli has it: {at}");
    assert!(at.contains("ocid1.tenancy%2Focid1.other%2Faa%3Abb"), "the profile DEFAULT is behind each: {at}");
    let sandbox =
        sandbox.var("OCI_CLI_PROFILE", "work").var("OCI_CLI_REGION", "eu-frankfurt-2").var("OCI_CLI_USER", "me");
    let at = url(&sandbox.oke(&format!("--cluster-id {CLUSTER}")));
    assert!(
        at.starts_with("https://containerengine.eu-frankfurt-2.oraclecloud.com/") && at.contains("%2Fme%2F"),
        "{at}"
    );
    let at = url(&sandbox.oke(&format!("--cluster-id {CLUSTER} --endpoint http://127.0.0.1:8080/")));
    assert!(at.starts_with("http://127.0.0.1:8080/cluster_request/"), "{at}");
}

#[test]
fn session_token_limits_expiry() {
    let with = |claims: &str| {
        let sandbox = sandbox("[s]\nsecurity_token_file=~/.oci/token\n");
        sandbox.file(".oci/token", jwt(claims));
        sandbox.oke(&format!("--cluster-id {CLUSTER} --profile s --auth security_token"))
    };
    // One minute and one hour after the test's time.
    let run = with(r#"{"exp":1794770329}"#);
    assert_eq!(run.expires(), "2026-11-15T19:18:49Z");
    assert!(url(&run).contains("keyId%3D%22ST%24ey"));
    assert_eq!(with(r#"{"exp":1794773869}"#).expires(), "2026-11-15T19:21:49Z");
    let over = with(r#"{"exp":1794770000}"#);
    assert!(
        over.error()
            .contains("the OCI session expired at 2026-11-15T19:13:20Z\nhint: renew it with `oci session refresh`"),
        "{over:?}"
    );
}

#[test]
fn reports_missing_and_invalid_settings() {
    let run = |config: &str, key: &str, line: &str| {
        let sandbox = Sandbox::new();
        sandbox.file(".oci/config", config);
        sandbox.file(".oci/key.pem", key);
        sandbox.oke(line)
    };
    let whole = "[DEFAULT]\nuser=u\nfingerprint=f\nkey_file=~/.oci/key.pem\ntenancy=t\nregion=r-1\n";
    let cluster = format!("--cluster-id {CLUSTER}");
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (config, pem, line, told) in [
        (whole, "", cluster.as_str(), "invalid signing key: not a private key in PEM format"),
        (
            whole,
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
            &cluster,
            "invalid signing key: encrypted keys are not supported",
        ),
        (&whole.replace("user=u", "user="), &key().pem, &cluster, "missing `user` in profile `DEFAULT` of "),
        (
            &whole.replace("user=u", "security_token_file=t"),
            &key().pem,
            &cluster,
            "hint: this profile belongs to a session: add `--auth security_token`",
        ),
        (&whole.replace("key_file", "x"), &key().pem, &cluster, "missing `key_file` in profile `DEFAULT` of "),
        (&whole.replace("region", "x"), &key().pem, &cluster, "missing region (`--region`)"),
        (&whole.replace("r-1", "evil.example/"), &key().pem, &cluster, "invalid region: not a region name"),
        (whole, &key().pem, &format!("{cluster} --profile nope"), "invalid profile `nope`: not found in "),
        (
            whole,
            &key().pem,
            &format!("{cluster} --auth instance_principal"),
            "invalid --auth: unsupported kind `instance_principal`",
        ),
        (whole, &key().pem, &format!("{cluster} --endpoint nowhere:x:y"), "invalid --endpoint: not a URL"),
        (whole, &key().pem, &format!("{cluster} --endpoint containerengine.example"), "invalid --endpoint: not a URL"),
        (whole, &key().pem, "", "missing cluster id"),
        (whole, &key().pem, "--cluster-id a/../b", "invalid cluster id: not an OCID"),
        (whole, &key().pem, "iam user list", "unknown command `iam`"),
        ("", "", &cluster, "hint: create a configuration with `oci setup config`"),
        ("hunter2\n[half", "", &cluster, "hint: create a configuration with `oci setup config`"),
        (&whole.replace("key.pem", "nowhere.pem"), "", &cluster, "failed to read signing key: "),
        (&whole.replace("/key.pem", ""), "", &cluster, "is a directory"),
        (whole, "hunter2", &cluster, "invalid signing key: not a private key in PEM format"),
        (whole, "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n", &cluster, "not an RSA key"),
        (whole, &ec, &cluster, "invalid signing key: not an RSA key"),
        (whole, &key().pem, &format!("{cluster} --region x.evil.example"), "invalid region: not a region name"),
        (whole, &key().pem, &format!("{cluster} --region evil.example:443/"), "invalid region: not a region name"),
        (
            whole,
            &key().pem,
            &format!("{cluster} --endpoint https://user@evil.example"),
            "invalid --endpoint: not a URL",
        ),
        (whole, &key().pem, &format!("{cluster} --endpoint ftp://evil.example"), "invalid --endpoint: not a URL"),
        (whole, &key().pem, &format!("{cluster} --auth security_token"), "missing `security_token_file` in profile"),
        (
            &format!("{whole}security_token_file=/nowhere/token\n"),
            &key().pem,
            &format!("{cluster} --auth security_token"),
            "failed to read session token: /nowhere/token does not exist",
        ),
        (
            &format!("{whole}security_token_file=~/.oci/key.pem\n"),
            &key().pem,
            &format!("{cluster} --auth security_token"),
            "not a JSON web token (JWT), not sent",
        ),
    ] {
        let run = run(config, pem, line);
        assert!(run.error().contains(told), "{told}: {run:?}");
        assert!(!run.stderr.contains("hunter2") && !run.stderr.contains("aHVudGVyMg"), "{run:?}");
    }
    let sandbox = sandbox("");
    let run = sandbox.oke(&format!("{cluster} --config-file /nowhere/config"));
    assert!(run.error().contains("failed to read OCI configuration: /nowhere/config does not exist"), "{run:?}");
    sandbox.file(".oci/config", b"\xff\xfe");
    let run = sandbox.oke(&cluster);
    assert!(run.error().contains("not UTF-8 text"), "{run:?}");
}
