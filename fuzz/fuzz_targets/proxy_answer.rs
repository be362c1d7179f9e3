//! Where the answer of a plugin ends that may go on to live as a proxy.

#![no_main]

use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, proxy_answer};

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    let whole = proxy_answer(stdout);
    // A pipe may deliver it byte by byte: the answer is there with its last byte, not before, and not elsewhere.
    let first = (0..=stdout.len()).find_map(|length| Some((length, proxy_answer(&stdout[..length])?)));
    assert_eq!(first, whole.map(|end| (end, end)));
    if let Some(end) = whole {
        // Who ended the answer there reads a proxy in it, if it reads anything.
        let asked = ExecCredentialSpec { lock_file_path: Some("/run/lock".into()), ..ExecCredentialSpec::default() };
        if let Ok(status) = ExecCredentialStatus::decode(&stdout[..end], ApiVersion::V1, &asked) {
            assert!(status.proxy_config.is_some());
        }
    }
});
