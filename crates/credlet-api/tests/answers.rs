//! A plugin's answers: what is read, what is refused, and that no refusal quotes them.

use credlet_api::exec::{AnswerError, ApiVersion, ExecCredentialSpec, ExecCredentialStatus, failure_message};
use credlet_api::{Fault, Secret};
use proptest::prelude::*;

const V1: &str = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
const V1ALPHA1: &str = r#""apiVersion":"client.authentication.k8s.io/v1alpha1""#;

fn decode(version: ApiVersion, stdout: impl AsRef<[u8]>) -> Result<ExecCredentialStatus, AnswerError> {
    ExecCredentialStatus::decode(stdout.as_ref(), version, &ExecCredentialSpec::default())
}

fn v1(members: &str) -> Result<ExecCredentialStatus, AnswerError> {
    decode(ApiVersion::V1, format!("{{{V1},{members}}}"))
}

#[test]
fn each_kind_of_nonsense_has_its_own_error() {
    let unreadable = |stdout: &str| match decode(ApiVersion::V1, stdout) {
        Err(AnswerError::Unreadable(fault)) => fault,
        other => panic!("{stdout}: {other:?}"),
    };
    assert_eq!(decode(ApiVersion::V1, ""), Err(AnswerError::Empty));
    assert_eq!(decode(ApiVersion::V1, " \n\t"), Err(AnswerError::Empty));
    for versionless in ["{}", "null", "error: something", "{\"kind\":\"ExecCredential\"}"] {
        assert_eq!(decode(ApiVersion::V1, versionless), Err(AnswerError::NoVersion), "{versionless}");
    }
    assert!(matches!(unreadable("total 0\n-rw-r--r-- 1 root"), Fault::Syntax { .. } | Fault::NotAnObject { .. }));
    assert!(matches!(unreadable("[]"), Fault::NotAnObject { .. }));
    assert!(matches!(unreadable("WARNING: old\n{\"kind\":"), Fault::Syntax { .. } | Fault::NotAnObject { .. }));
    let half = format!("{{{V1},\"status\":{{\"token\":\"hun");
    assert!(matches!(unreadable(&half), Fault::Syntax { .. }));
    assert!(matches!(unreadable(&format!("{{{V1}}} oops")), Fault::Trailing { .. }));
    assert!(matches!(
        unreadable(&format!("{{{V1},\n \"status\":{{\"token\":5}}}}")),
        Fault::Type { field: "status.token", expected: "a string", at } if at.line == 2
    ));
    assert!(matches!(unreadable(&format!("{{{V1},\"status\":[]}}")), Fault::Type { field: "status", .. }));
    assert!(matches!(decode(ApiVersion::V1, b"\xff\xfe{\0"), Err(AnswerError::Unreadable(Fault::NotText { byte: 0 }))));

    assert_eq!(v1(r#""x":1"#), Err(AnswerError::NoStatus));
    assert_eq!(v1(r#""status":null"#), Err(AnswerError::NoStatus));
    assert_eq!(v1(r#""status":{}"#), Err(AnswerError::NoCredential));
    assert_eq!(v1(r#""status":{"Token":"t"}"#), Err(AnswerError::NoCredential));
    assert_eq!(v1(r#""status":{"expirationTimestamp":"2030-01-02T03:04:05Z"}"#), Err(AnswerError::NoCredential));
    assert_eq!(v1(r#""status":{"token":"t","clientCertificateData":"c"}"#), Err(AnswerError::OnlyCertificate));
    assert_eq!(v1(r#""status":{"clientKeyData":"k"}"#), Err(AnswerError::OnlyKey));
    assert_eq!(v1(r#""status":{"token":"to\nken"}"#), Err(AnswerError::ControlCharacterInToken { index: 3 }));
    assert_eq!(
        decode(ApiVersion::V1beta1, format!("{{{V1},\"status\":{{\"token\":\"t\"}}}}")),
        Err(AnswerError::OtherVersion { asked: ApiVersion::V1beta1, answered: ApiVersion::V1 })
    );
    assert_eq!(
        decode(ApiVersion::V1, r#"{"kind":"Status","apiVersion":"v1"}"#),
        Err(AnswerError::OtherKind { found: "Status of v1".into() })
    );
}

#[test]
fn a_name_that_might_be_a_secret_is_not_repeated() {
    for odd in [
        r#"{"kind":"eyJhbGciOiJSUzI1NiJ9.hunter2","apiVersion":"v1"}"#,
        r#"{"kind":"Pod","apiVersion":"hunter2-hunter2-hunter2-hunter2"}"#,
    ] {
        let error = decode(ApiVersion::V1, odd).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

#[test]
fn yaml_is_read_too_the_first_document_of_it() {
    let yaml = "---\nkind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\nstatus:\n  token: tok\n";
    for text in [yaml.to_owned(), format!("{yaml}---\n[broken"), format!("\u{feff}{yaml}...\nrest")] {
        assert_eq!(decode(ApiVersion::V1, &text).unwrap().token, Secret::new("tok"), "{text}");
    }
}

#[test]
fn a_yaml_bomb_is_too_complex() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{},", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    bomb.push_str("status: {token: *a11}\napiVersion: client.authentication.k8s.io/v1\n");
    assert_eq!(decode(ApiVersion::V1, &bomb), Err(AnswerError::Unreadable(Fault::TooComplex)));
}

#[test]
fn v1alpha1_answers_are_read_in_both_shapes() {
    let shipped = format!(r#"{{"kind":"ExecCredential",{V1ALPHA1},"status":{{"token":"t"}}}}"#);
    let designed = format!(r#"{{"kind":"ExecCredentials",{V1ALPHA1},"token":"t","expiry":1893553445}}"#);
    assert_eq!(decode(ApiVersion::V1alpha1, shipped).unwrap(), ExecCredentialStatus::token("t"));
    assert_eq!(
        decode(ApiVersion::V1alpha1, designed).unwrap(),
        ExecCredentialStatus::token("t").expiring("2030-01-02T03:04:05Z".parse().unwrap())
    );
    let pair = format!(r#"{{{V1ALPHA1},"clientCertificateData":"c","clientKeyData":"k"}}"#);
    assert_eq!(decode(ApiVersion::V1alpha1, pair).unwrap(), ExecCredentialStatus::certificate("c", "k"));
    let expiry = format!(r#"{{{V1ALPHA1},"token":"t","expiry":9223372036854775807}}"#);
    assert_eq!(decode(ApiVersion::V1alpha1, expiry), Err(AnswerError::Expiry));
    assert_eq!(decode(ApiVersion::V1alpha1, format!("{{{V1ALPHA1}}}")), Err(AnswerError::NoStatus));
    // Only there: in v1 such members are unknown, and unknown ones are ignored.
    assert_eq!(v1(r#""token":5,"expiry":"x","status":{"token":"t"}"#).unwrap(), ExecCredentialStatus::token("t"));
}

#[test]
fn a_proxy_is_an_answer_only_to_those_who_understand_it() {
    let stdout = format!(
        r#"{{{V1},"status":{{"proxyConfig":{{"URL":"unix:///run/s.sock","certificateAuthorityData":"UEVN"}}}}}}"#
    );
    assert_eq!(decode(ApiVersion::V1, &stdout), Err(AnswerError::NoCredential));
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
fn a_status_object_says_why_a_plugin_failed() {
    let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"log in first"}"#;
    assert_eq!(failure_message(status.as_bytes()).as_deref(), Some("log in first"));
    assert_eq!(failure_message(b"log in first"), None);
    assert_eq!(failure_message(b"{}"), None);
}

/// Text as plugins print it, with a secret somewhere inside.
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
    fn no_error_quotes_what_was_printed(text in around_a_secret()) {
        for version in ApiVersion::ALL {
            if let Err(error) = decode(version, &text) {
                let shown = format!("{error} {error:?} {error:#?}");
                prop_assert!(!shown.contains("hunter2"), "{shown}");
            }
        }
    }

    #[test]
    fn any_bytes_are_answered_with_an_error_or_a_credential(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for version in ApiVersion::ALL {
            let _ = decode(version, &bytes);
        }
    }

    #[test]
    fn what_a_plugin_answers_is_what_its_client_reads(
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
