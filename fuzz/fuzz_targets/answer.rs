//! What must hold for any bytes that a plugin prints.

use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, failure_message};

pub fn check(stdout: &[u8], version: ApiVersion) {
    let asked = ExecCredentialSpec { lock_file_path: Some("/run/lock".into()), ..ExecCredentialSpec::default() };
    let _ = failure_message(stdout);
    match ExecCredentialStatus::decode(stdout, version, &asked) {
        Ok(status) => {
            // A header can carry what was accepted as a token.
            assert!(!status.token.expose().contains(char::is_control));
            // What was read can be written, and is read again as the same; fractions of a second are not written.
            let written = status.encode(version);
            let again = ExecCredentialStatus::decode(written.as_bytes(), version, &asked).expect("our own answer");
            assert_eq!(again.token, status.token);
            assert_eq!(again.client_certificate_data, status.client_certificate_data);
            assert_eq!(again.client_key_data, status.client_key_data);
            assert_eq!(again.proxy_config, status.proxy_config);
            assert!(again.expiration_timestamp <= status.expiration_timestamp);
        }
        Err(error) => quotes_nothing(stdout, &format!("{error} {error:?}")),
    }
}

/// No line of what was printed is in the error, unless it is short enough to be a name.
fn quotes_nothing(stdout: &[u8], error: &str) {
    let Ok(text) = std::str::from_utf8(stdout) else { return };
    for word in text.split(|c: char| c.is_whitespace() || "\"'{}[]:,".contains(c)) {
        assert!(word.len() <= 80 || !error.contains(word), "{error}");
    }
}
