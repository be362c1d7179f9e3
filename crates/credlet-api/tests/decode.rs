//! Decoding of a plugin's output: accepted forms, errors, and that errors quote nothing.

use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, InvalidCredential, status_message};
use credlet_api::{DocumentError, Secret};
use proptest::prelude::*;

const V1: &str = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
const V1ALPHA1: &str = r#""apiVersion":"client.authentication.k8s.io/v1alpha1""#;

fn decode(version: ApiVersion, stdout: impl AsRef<[u8]>) -> Result<ExecCredentialStatus, InvalidCredential> {
    ExecCredentialStatus::decode(stdout.as_ref(), version, &ExecCredentialSpec::default())
}

fn v1(members: &str) -> Result<ExecCredentialStatus, InvalidCredential> {
    decode(ApiVersion::V1, format!("{{{V1},{members}}}"))
}

#[test]
fn rejects_invalid_output() {
    let unreadable = |stdout: &str| match decode(ApiVersion::V1, stdout) {
        Err(InvalidCredential::InvalidDocument(fault)) => fault,
        other => panic!("{stdout}: {other:?}"),
    };
    assert_eq!(decode(ApiVersion::V1, ""), Err(InvalidCredential::Empty));
    assert_eq!(decode(ApiVersion::V1, " \n\t"), Err(InvalidCredential::Empty));
    for versionless in ["{}", "null", "error: something", "{\"kind\":\"ExecCredential\"}"] {
        assert_eq!(decode(ApiVersion::V1, versionless), Err(InvalidCredential::MissingApiVersion), "{versionless}");
    }
    assert!(matches!(
        unreadable("total 0\n-rw-r--r-- 1 root"),
        DocumentError::Syntax { .. } | DocumentError::NotAnObject { .. }
    ));
    assert!(matches!(unreadable("[]"), DocumentError::NotAnObject { .. }));
    assert!(matches!(
        unreadable("WARNING: old\n{\"kind\":"),
        DocumentError::Syntax { .. } | DocumentError::NotAnObject { .. }
    ));
    let half = format!("{{{V1},\"status\":{{\"token\":\"hun");
    assert!(matches!(unreadable(&half), DocumentError::Syntax { .. }));
    assert!(matches!(unreadable(&format!("{{{V1}}} oops")), DocumentError::TrailingData { .. }));
    assert!(matches!(
        unreadable(&format!("{{{V1},\n \"status\":{{\"token\":5}}}}")),
        DocumentError::InvalidType { field: "status.token", expected: "a string", at } if at.line == 2
    ));
    assert!(matches!(
        unreadable(&format!("{{{V1},\"status\":[]}}")),
        DocumentError::InvalidType { field: "status", .. }
    ));
    assert!(matches!(
        decode(ApiVersion::V1, b"\xff\xfe{\0"),
        Err(InvalidCredential::InvalidDocument(DocumentError::NotUtf8 { byte: 0 }))
    ));

    assert_eq!(v1(r#""x":1"#), Err(InvalidCredential::MissingStatus));
    assert_eq!(v1(r#""status":null"#), Err(InvalidCredential::MissingStatus));
    assert_eq!(v1(r#""status":{}"#), Err(InvalidCredential::MissingCredential));
    assert_eq!(v1(r#""status":{"Token":"t"}"#), Err(InvalidCredential::MissingCredential));
    assert_eq!(
        v1(r#""status":{"expirationTimestamp":"2030-01-02T03:04:05Z"}"#),
        Err(InvalidCredential::MissingCredential)
    );
    assert_eq!(v1(r#""status":{"token":"t","clientCertificateData":"c"}"#), Err(InvalidCredential::MissingClientKey));
    assert_eq!(v1(r#""status":{"clientKeyData":"k"}"#), Err(InvalidCredential::MissingClientCertificate));
    assert_eq!(v1(r#""status":{"token":"to\nken"}"#), Err(InvalidCredential::ControlCharacterInToken { index: 3 }));
    assert_eq!(
        decode(ApiVersion::V1beta1, format!("{{{V1},\"status\":{{\"token\":\"t\"}}}}")),
        Err(InvalidCredential::VersionMismatch { requested: ApiVersion::V1beta1, received: ApiVersion::V1 })
    );
    assert_eq!(
        decode(ApiVersion::V1, r#"{"kind":"Status","apiVersion":"v1"}"#),
        Err(InvalidCredential::UnexpectedKind { found: "Status of v1".into() })
    );
}

#[test]
fn error_omits_kind_that_may_be_a_secret() {
    for odd in [
        r#"{"kind":"eyJhbGciOiJSUzI1NiJ9.hunter2","apiVersion":"v1"}"#,
        r#"{"kind":"Pod","apiVersion":"hunter2-hunter2-hunter2-hunter2"}"#,
    ] {
        let error = decode(ApiVersion::V1, odd).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[test]
fn decodes_first_yaml_document() {
    let yaml = "---\nkind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\nstatus:\n  token: tok\n";
    for text in [yaml.to_owned(), format!("{yaml}---\n[broken"), format!("\u{feff}{yaml}...\nrest")] {
        assert_eq!(decode(ApiVersion::V1, &text).unwrap().token, Secret::new("tok"), "{text}");
    }
}

#[test]
fn rejects_yaml_bombs() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{},", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    bomb.push_str("status: {token: *a11}\napiVersion: client.authentication.k8s.io/v1\n");
    assert_eq!(decode(ApiVersion::V1, &bomb), Err(InvalidCredential::InvalidDocument(DocumentError::TooComplex)));
}

#[test]
fn decodes_both_forms_of_v1alpha1() {
    let shipped = format!(r#"{{"kind":"ExecCredential",{V1ALPHA1},"status":{{"token":"t"}}}}"#);
    let designed = format!(r#"{{"kind":"ExecCredentials",{V1ALPHA1},"token":"t","expiry":1893553445}}"#);
    assert_eq!(decode(ApiVersion::V1alpha1, shipped).unwrap(), ExecCredentialStatus::token("t"));
    assert_eq!(
        decode(ApiVersion::V1alpha1, designed).unwrap(),
        ExecCredentialStatus::token("t").with_expiration("2030-01-02T03:04:05Z".parse().unwrap())
    );
    let pair = format!(r#"{{{V1ALPHA1},"clientCertificateData":"c","clientKeyData":"k"}}"#);
    assert_eq!(decode(ApiVersion::V1alpha1, pair).unwrap(), ExecCredentialStatus::certificate("c", "k"));
    let expiry = format!(r#"{{{V1ALPHA1},"token":"t","expiry":9223372036854775807}}"#);
    assert_eq!(decode(ApiVersion::V1alpha1, expiry), Err(InvalidCredential::InvalidExpiry));
    assert_eq!(decode(ApiVersion::V1alpha1, format!("{{{V1ALPHA1}}}")), Err(InvalidCredential::MissingStatus));
    // In v1 these members are unknown and ignored.
    assert_eq!(v1(r#""token":5,"expiry":"x","status":{"token":"t"}"#).unwrap(), ExecCredentialStatus::token("t"));
}

#[test]
fn proxy_config_requires_lock_file() {
    let stdout = format!(
        r#"{{{V1},"status":{{"proxyConfig":{{"URL":"unix:///run/s.sock","certificateAuthorityData":"UEVN"}}}}}}"#
    );
    assert_eq!(decode(ApiVersion::V1, &stdout), Err(InvalidCredential::MissingCredential));
    let asked = ExecCredentialSpec { lock_file_path: Some("/run/lock".into()), ..ExecCredentialSpec::default() };
    let status = ExecCredentialStatus::decode(stdout.as_bytes(), ApiVersion::V1, &asked).unwrap();
    let proxy = status.proxy_config.clone().unwrap();
    assert_eq!((&*proxy.url, &*proxy.certificate_authority_data), ("unix:///run/s.sock", &b"PEM"[..]));
    assert!(
        status
            .encode(ApiVersion::V1)
            .contains(r#""proxyConfig":{"url":"unix:///run/s.sock","certificate-authority-data":"UEVN"}"#)
    );
}

#[test]
fn status_message_of_failed_plugin() {
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"log in first"}"#;
    assert_eq!(status_message(status.as_bytes()).as_deref(), Some("log in first"));
    assert_eq!(status_message(b"log in first"), None);
    assert_eq!(status_message(b"{}"), None);
}

/// Random fragments of plugin output, including a secret.
fn around_a_secret() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "'",
        "\n",
        " ",
        "- ",
        "status",
        "token",
        "\"token\"",
        "kind",
        "apiVersion",
        "client.authentication.k8s.io/v1",
        "&a",
        "*a",
        "|",
        "true",
        "5",
        "null",
        "!!int ",
        "\\u00",
        "\t",
        "---\n",
        "expirationTimestamp",
        "\"ExecCredential\"",
        "hunter2-hunter2",
        "\"hunter2-hunter2\"",
    ]);
    prop::collection::vec(piece, 1..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn errors_never_quote_output(text in around_a_secret()) {
        for version in ApiVersion::ALL {
            if let Err(error) = decode(version, &text) {
                let shown = format!("{error} {error:?} {error:#?}");
                prop_assert!(!shown.contains("hunter2"), "{shown}");
            }
        }
    }

    #[test]
    fn decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for version in ApiVersion::ALL {
            let _ = decode(version, &bytes);
        }
    }

    #[test]
    fn encoded_status_round_trips(
        token in "[ -~]{1,80}",
        seconds in prop::option::of(-60_000_000_000_i64..250_000_000_000),
        pair in prop::option::of(("[ -~\n]{1,80}", "[ -~\n]{1,80}")),
    ) {
        let (chain, key) = pair.unwrap_or_default();
        let status = ExecCredentialStatus {
            expiration_timestamp: seconds.map(|seconds| jiff::Timestamp::from_second(seconds).unwrap()),
            client_key_data: key.into(),
            client_certificate_data: chain,
            ..ExecCredentialStatus::token(token)
        };
        for version in ApiVersion::ALL {
            prop_assert_eq!(&decode(version, status.encode(version).as_bytes()).unwrap(), &status);
        }
    }
}
