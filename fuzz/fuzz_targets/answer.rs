//! Invariants of decoding plugin output.

use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, status_message};

pub fn check(stdout: &[u8], version: ApiVersion) {
    let request = ExecCredentialSpec { lock_file_path: Some("/run/lock".into()), ..ExecCredentialSpec::default() };
    let _ = status_message(stdout);
    match ExecCredentialStatus::decode(stdout, version, &request) {
        Ok(status) => {
            // An accepted token is a valid header value.
            assert!(!status.token.expose().contains(char::is_control));
            // Encoding and decoding round-trips, except for fractions of a second.
            let written = status.encode(version);
            let again = ExecCredentialStatus::decode(written.as_bytes(), version, &request).expect("encoded by us");
            assert_eq!(again.token, status.token);
            assert_eq!(again.client_certificate_data, status.client_certificate_data);
            assert_eq!(again.client_key_data, status.client_key_data);
            assert_eq!(again.proxy_config, status.proxy_config);
            assert!(again.expiration_timestamp <= status.expiration_timestamp);
        }
        Err(error) => quotes_nothing(stdout, &format!("{error} {error:?}")),
    }
}

/// The error quotes no line of the output, unless it is short enough to be a name.
fn quotes_nothing(stdout: &[u8], error: &str) {
    let Ok(text) = std::str::from_utf8(stdout) else { return };
    for word in text.split(|c: char| c.is_whitespace() || "\"'{}[]:,".contains(c)) {
        assert!(word.len() <= 80 || !error.contains(word), "{error}");
    }
}
