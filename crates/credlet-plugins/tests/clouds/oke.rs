use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;

use crate::support::{Run, Stage, jwt, key};

const CLUSTER: &str = "ocid1.cluster.oc1.eu-frankfurt-1.aaaa";

fn stage(more: &str) -> Stage {
    let stage = Stage::new();
    // As the console hands it out: with a label below.
    stage.file(".oci/key.pem", format!("{}OCI_API_KEY\n", key().pem));
    stage.file(
        ".oci/config",
        format!("[DEFAULT]\nuser=ocid1.user\nfingerprint=aa:bb\nkey_file=~/.oci/key.pem\ntenancy=ocid1.tenancy\nregion=eu-frankfurt-1\n{more}"),
    );
    stage
}

/// The URL in the token.
#[track_caller]
fn url(run: &Run) -> String {
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
fn a_request_is_signed_as_oci_signs_it() {
    let run = stage("").oke(&format!("ce cluster generate-token --cluster-id {CLUSTER} --region eu-frankfurt-1"));
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
fn the_profile_and_the_variables_are_heeded() {
    let stage = stage("[work]\nuser=ocid1.other\nregion=US-Gov-Ashburn-1\n");
    let at = url(&stage.oke(&format!("--cluster-id {CLUSTER} --profile work")));
    assert!(at.starts_with("https://containerengine.us-gov-ashburn-1.oraclecloud.com/"), "as oci-cli has it: {at}");
    assert!(at.contains("ocid1.tenancy%2Focid1.other%2Faa%3Abb"), "the profile DEFAULT is behind each: {at}");
    let stage = stage.var("OCI_CLI_PROFILE", "work").var("OCI_CLI_REGION", "eu-frankfurt-2").var("OCI_CLI_USER", "me");
    let at = url(&stage.oke(&format!("--cluster-id {CLUSTER}")));
    assert!(
        at.starts_with("https://containerengine.eu-frankfurt-2.oraclecloud.com/") && at.contains("%2Fme%2F"),
        "{at}"
    );
    let at = url(&stage.oke(&format!("--cluster-id {CLUSTER} --endpoint http://127.0.0.1:8080/")));
    assert!(at.starts_with("http://127.0.0.1:8080/cluster_request/"), "{at}");
}

#[test]
fn a_session_ends_with_its_token_and_nobody_is_asked() {
    let with = |claims: &str| {
        let stage = stage("[s]\nsecurity_token_file=~/.oci/token\n");
        stage.file(".oci/token", jwt(claims));
        stage.oke(&format!("--cluster-id {CLUSTER} --profile s --auth security_token"))
    };
    // A minute later than now, and an hour.
    let run = with(r#"{"exp":1794770329}"#);
    assert_eq!(run.expires(), "2026-11-15T19:18:49Z");
    assert!(url(&run).contains("keyId%3D%22ST%24ey"));
    assert_eq!(with(r#"{"exp":1794773869}"#).expires(), "2026-11-15T19:21:49Z");
    let over = with(r#"{"exp":1794770000}"#);
    assert!(
        over.refusal()
            .contains("the session of OCI ended at 2026-11-15T19:13:20Z\nhint: renew it with `oci session refresh`"),
        "{over:?}"
    );
}

#[test]
fn what_is_missing_or_malformed_is_told() {
    let run = |config: &str, key: &str, line: &str| {
        let stage = Stage::new();
        stage.file(".oci/config", config);
        stage.file(".oci/key.pem", key);
        stage.oke(line)
    };
    let whole = "[DEFAULT]\nuser=u\nfingerprint=f\nkey_file=~/.oci/key.pem\ntenancy=t\nregion=r-1\n";
    let cluster = format!("--cluster-id {CLUSTER}");
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (config, pem, line, told) in [
        (whole, "", cluster.as_str(), "the signing key is not a private key in PEM form"),
        (whole, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n", &cluster, "the signing key is encrypted"),
        (&whole.replace("user=u", "user="), &key().pem, &cluster, "`user` of the profile `DEFAULT` in "),
        (
            &whole.replace("user=u", "security_token_file=t"),
            &key().pem,
            &cluster,
            "hint: this profile is a session's: add `--auth security_token`",
        ),
        (&whole.replace("key_file", "x"), &key().pem, &cluster, "`key_file` of the profile `DEFAULT` in "),
        (&whole.replace("region", "x"), &key().pem, &cluster, "the region (`--region`) is missing"),
        (&whole.replace("r-1", "evil.example/"), &key().pem, &cluster, "the region is not the name of a region"),
        (whole, &key().pem, &format!("{cluster} --profile nope"), "the profile `nope` is not in "),
        (whole, &key().pem, &format!("{cluster} --auth instance_principal"), "--auth is `instance_principal`"),
        (whole, &key().pem, &format!("{cluster} --endpoint nowhere:x:y"), "--endpoint is not an address"),
        (whole, &key().pem, &format!("{cluster} --endpoint containerengine.example"), "--endpoint is not an address"),
        (whole, &key().pem, "", "which cluster?"),
        (whole, &key().pem, "--cluster-id a/../b", "characters that no OCID has"),
        (whole, &key().pem, "iam user list", "`iam` is no command of this plugin"),
        ("", "", &cluster, "hint: make a configuration with `oci setup config`"),
        ("hunter2\n[half", "", &cluster, "hint: make a configuration with `oci setup config`"),
        (&whole.replace("key.pem", "nowhere.pem"), "", &cluster, "the signing key cannot be read from "),
        (&whole.replace("/key.pem", ""), "", &cluster, "(invalid input parameter)"),
        (whole, "hunter2", &cluster, "the signing key is not a private key in PEM form"),
        (
            whole,
            "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n",
            &cluster,
            "is not an RSA key",
        ),
        (whole, &ec, &cluster, "the signing key is not an RSA key"),
        (whole, &key().pem, &format!("{cluster} --region x.evil.example"), "the region is not the name of a region"),
        (whole, &key().pem, &format!("{cluster} --region evil.example:443/"), "the region is not the name of a region"),
        (whole, &key().pem, &format!("{cluster} --endpoint https://user@evil.example"), "--endpoint is not an address"),
        (whole, &key().pem, &format!("{cluster} --endpoint ftp://evil.example"), "--endpoint is not an address"),
        (whole, &key().pem, &format!("{cluster} --auth security_token"), "`security_token_file` of the profile"),
        (
            &format!("{whole}security_token_file=/nowhere/token\n"),
            &key().pem,
            &format!("{cluster} --auth security_token"),
            "the session's token cannot be read from /nowhere/token",
        ),
        (
            &format!("{whole}security_token_file=~/.oci/key.pem\n"),
            &key().pem,
            &format!("{cluster} --auth security_token"),
            "holds more than a token",
        ),
    ] {
        let run = run(config, pem, line);
        assert!(run.refusal().contains(told), "{told}: {run:?}");
        assert!(!run.stderr.contains("hunter2") && !run.stderr.contains("aHVudGVyMg"), "{run:?}");
    }
    let stage = stage("");
    let run = stage.oke(&format!("{cluster} --config-file /nowhere/config"));
    assert!(run.refusal().contains("the configuration of OCI cannot be read from /nowhere/config"), "{run:?}");
    stage.file(".oci/config", b"\xff\xfe");
    let run = stage.oke(&cluster);
    assert!(run.refusal().contains("the configuration of OCI cannot be read from"), "{run:?}");
}
