//! Regression tests for inputs that fuzzing has found: each file under `crashes/` is checked as by its fuzz target.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use credlet_api::duration;
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

fn check_output(version: ApiVersion) -> impl Fn(&[u8]) {
    move |stdout| {
        let request = ExecCredentialSpec::default();
        if let Ok(status) = ExecCredentialStatus::decode(stdout, version, &request) {
            let written = status.encode(version);
            let again = ExecCredentialStatus::decode(written.as_bytes(), version, &request).unwrap();
            assert!(again.expiration_timestamp <= status.expiration_timestamp);
        }
    }
}

#[test]
fn decoded_output_round_trips() {
    each("answer_v1", check_output(ApiVersion::V1));
    each("answer_v1alpha1", check_output(ApiVersion::V1alpha1));
}

#[test]
fn decoded_exec_info_round_trips() {
    each("exec_info", |data| {
        let info = ExecInfo::decode(data).unwrap();
        let encoded = info.spec.encode(info.version);
        let again = ExecInfo::decode(encoded.as_bytes()).unwrap();
        assert_eq!(again.spec.encode(again.version), encoded);
    });
}

#[test]
fn duration_round_trips() {
    each("duration", |text| {
        let duration = duration::parse(std::str::from_utf8(text).unwrap()).unwrap();
        let written = duration::format(duration.unsigned_abs());
        assert_eq!(duration::parse(&written), Ok(duration), "{written}");
    });
}
