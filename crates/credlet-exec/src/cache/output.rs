//! Converts a plugin's output to the version that the client requested.

use credlet_api::exec::{ApiVersion, ExecCredentialStatus, InvalidCredential, rewrite_exec_credential};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::{CacheEntry, CacheRequest, lifetime};

/// A valid plugin output.
pub(super) struct DecodedOutput {
    /// The document to print, in the requested version.
    pub(super) text: Zeroizing<Vec<u8>>,
    /// When the credential expires, if that is known.
    pub(super) expires_at: Option<Timestamp>,
    /// Digest of the credential, see [`CacheEntry::digest_of`].
    pub(super) digest: String,
    /// Whether the output may be served to other calls.
    pub(super) cacheable: bool,
}

/// Returns `None` if `stdout` is not a valid `ExecCredential`. It is then passed to the client unchanged.
pub(super) fn decode(stdout: &[u8], request: &CacheRequest) -> Option<DecodedOutput> {
    let requested = request.version.unwrap_or(ApiVersion::V1);
    let (status, received) = match ExecCredentialStatus::decode(stdout, requested, &request.spec) {
        Ok(status) => (status, requested),
        Err(InvalidCredential::VersionMismatch { received, .. })
            if request.version.is_none() || is_same_schema(requested, received) =>
        {
            (ExecCredentialStatus::decode(stdout, received, &request.spec).ok()?, received)
        }
        Err(_) => return None,
    };
    let expires_at = lifetime::expiry(&status);
    let digest = CacheEntry::digest_of(&[status.token.expose(), &status.client_certificate_data]);
    // Never later than the credential's own expiry. An absent or zero date is left out, even a literal `null`.
    let expiration =
        lifetime::stated_expiry(&status).map(|stated| expires_at.map_or(stated, |expires_at| expires_at.min(stated)));
    let wanted = request.version.unwrap_or(received);
    let dated = || stdout.windows(DATE.len()).any(|window| window == DATE);
    let same = received == wanted && expiration == status.expiration_timestamp && (expiration.is_some() || !dated());
    let cacheable = status.proxy_config.is_none() && !lifetime::is_single_use(&status.token);
    let text = if same {
        Zeroizing::new(stdout.to_vec())
    } else {
        let status = ExecCredentialStatus { expiration_timestamp: expiration, ..status };
        // YAML output is encoded anew, which drops unknown fields.
        let text = rewrite_exec_credential(stdout, wanted, expiration).unwrap_or_else(|| status.encode(wanted));
        Zeroizing::new(text.as_bytes().to_vec())
    };
    Some(DecodedOutput { text, expires_at, digest, cacheable })
}

const DATE: &[u8] = b"expirationTimestamp";

/// Whether both are of `v1` and `v1beta1`, which differ only in their name.
fn is_same_schema(one: ApiVersion, other: ApiVersion) -> bool {
    let newer = [ApiVersion::V1, ApiVersion::V1beta1];
    newer.contains(&one) && newer.contains(&other)
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::ExecCredentialSpec;

    use super::*;

    fn printed(version: Option<ApiVersion>, output: &str) -> Option<String> {
        let request = CacheRequest { version, spec: ExecCredentialSpec::default() };
        let read = decode(output.as_bytes(), &request)?;
        Some(String::from_utf8(read.text.to_vec()).unwrap())
    }

    fn of(version: &str, status: &str) -> String {
        format!(r#"{{"apiVersion":"client.authentication.k8s.io/{version}","odd":[1.0],"status":{{{status}}}}}"#)
    }

    #[test]
    fn requested_version_is_passed_on_unchanged() {
        let output = format!(" {}\n\n", of("v1", r#""token":"t""#));
        assert_eq!(printed(Some(ApiVersion::V1), &output), Some(output.clone()));
        assert_eq!(printed(None, &output), Some(output));
        let beta = of("v1beta1", r#""token":"t""#);
        assert_eq!(printed(None, &beta), Some(beta));
    }

    #[test]
    fn converts_between_v1_and_v1beta1() {
        let (beta, v1) = (of("v1beta1", r#""token":"t""#), of("v1", r#""token":"t""#));
        assert_eq!(printed(Some(ApiVersion::V1), &beta), Some(format!("{v1}\n")));
        assert_eq!(printed(Some(ApiVersion::V1beta1), &v1), Some(format!("{beta}\n")));
        assert_eq!(printed(Some(ApiVersion::V1alpha1), &v1), None);
        let yaml = "apiVersion: client.authentication.k8s.io/v1beta1\nstatus:\n  token: t\n";
        assert!(printed(Some(ApiVersion::V1), yaml).unwrap().contains("k8s.io/v1\""));
    }

    #[test]
    fn empty_expiration_is_removed() {
        for nothing in ["null", r#""0001-01-01T00:00:00Z""#] {
            let output = of("v1", &format!(r#""token":"t","expirationTimestamp":{nothing}"#));
            assert_eq!(printed(Some(ApiVersion::V1), &output), Some(format!("{}\n", of("v1", r#""token":"t""#))));
        }
    }

    #[test]
    fn invalid_output_is_not_decoded() {
        for output in ["", "hello", "{}", &of("v2", r#""token":"t""#), &of("v1", "")] {
            assert_eq!(printed(Some(ApiVersion::V1), output), None, "{output}");
        }
    }
}
