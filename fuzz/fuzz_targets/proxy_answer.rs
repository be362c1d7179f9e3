//! End of the document in the output of a plugin that may stay alive as a proxy.

#![no_main]

use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, proxy_document_end};

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    let whole = proxy_document_end(stdout);
    // With input byte by byte, the end is found with the last byte of the document and never moves.
    let first = (0..=stdout.len()).find_map(|length| Some((length, proxy_document_end(&stdout[..length])?)));
    assert_eq!(first, whole.map(|end| (end, end)));
    if let Some(end) = whole {
        // Output that is cut there decodes to a proxy, if it decodes.
        let request = ExecCredentialSpec { lock_file_path: Some("/run/lock".into()), ..ExecCredentialSpec::default() };
        if let Ok(status) = ExecCredentialStatus::decode(&stdout[..end], ApiVersion::V1, &request) {
            assert!(status.proxy_config.is_some());
        }
    }
});
