//! What fuzzing has broken once: every file under `crashes/`, held to what its fuzz target asserts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, ExecInfo};

fn each(target: &str, check: impl Fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crashes").join(target);
    let mut seen = 0;
    for entry in fs::read_dir(dir).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        seen += 1;
    }
    assert!(seen > 0, "nothing under {target}");
}

fn answer(version: ApiVersion) -> impl Fn(&[u8]) {
    move |stdout| {
        let asked = ExecCredentialSpec::default();
        if let Ok(status) = ExecCredentialStatus::decode(stdout, version, &asked) {
            let written = status.encode(version);
            let again = ExecCredentialStatus::decode(written.as_bytes(), version, &asked).unwrap();
            assert!(again.expiration_timestamp <= status.expiration_timestamp);
        }
    }
}

#[test]
fn an_answer_that_was_read_can_be_written_and_read_again() {
    each("answer_v1", answer(ApiVersion::V1));
    each("answer_v1alpha1", answer(ApiVersion::V1alpha1));
}

#[test]
fn what_a_plugin_understood_it_can_pass_on_unchanged() {
    each("exec_info", |data| {
        let info = ExecInfo::load(data).unwrap();
        let told = info.spec.encode(info.version);
        let again = ExecInfo::load(told.as_bytes()).unwrap();
        assert_eq!(again.spec.encode(again.version), told);
    });
}
