//! A plugin's answer, made into the one that was asked for.

use credlet_api::exec::{AnswerError, ApiVersion, ExecCredentialStatus, rewrite};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::{Entry, Question, life};

/// An answer that a client can take.
pub(super) struct Read {
    /// The bytes to print.
    pub(super) text: Zeroizing<Vec<u8>>,
    /// When it ends, if that is known.
    pub(super) end: Option<Timestamp>,
    /// What tells its credential from another one.
    pub(super) digest: String,
    /// Whether another call may be given the same.
    pub(super) keepable: bool,
}

/// `None`: it is nothing that we understand, and the client should see it as it is.
pub(super) fn read(stdout: &[u8], question: &Question) -> Option<Read> {
    let asked = question.version.unwrap_or(ApiVersion::V1);
    let (status, answered) = match ExecCredentialStatus::decode(stdout, asked, &question.spec) {
        Ok(status) => (status, asked),
        Err(AnswerError::OtherVersion { answered, .. }) if question.version.is_none() || alike(asked, answered) => {
            (ExecCredentialStatus::decode(stdout, answered, &question.spec).ok()?, answered)
        }
        Err(_) => return None,
    };
    let end = life::end(&status);
    let digest = Entry::digest_of(&[status.token.expose(), &status.client_certificate_data]);
    // Never later than the credential's real life; and without a date where there is none, not even `null`.
    let expiration = life::given(&status).map(|given| end.map_or(given, |end| end.min(given)));
    let wanted = question.version.unwrap_or(answered);
    let dated = || stdout.windows(DATE.len()).any(|window| window == DATE);
    let same = answered == wanted && expiration == status.expiration_timestamp && (expiration.is_some() || !dated());
    let keepable = status.proxy_config.is_none() && !life::is_for_one_request(&status.token);
    let text = if same {
        Zeroizing::new(stdout.to_vec())
    } else {
        let status = ExecCredentialStatus { expiration_timestamp: expiration, ..status };
        // Written as YAML, it loses what nobody knows.
        let text = rewrite(stdout, wanted, expiration).unwrap_or_else(|| status.encode(wanted));
        Zeroizing::new(text.as_bytes().to_vec())
    };
    Some(Read { text, end, digest, keepable })
}

const DATE: &[u8] = b"expirationTimestamp";

/// These two differ in nothing but their name.
fn alike(one: ApiVersion, other: ApiVersion) -> bool {
    let newer = [ApiVersion::V1, ApiVersion::V1beta1];
    newer.contains(&one) && newer.contains(&other)
}

#[cfg(test)]
mod tests {
    use credlet_api::exec::ExecCredentialSpec;

    use super::*;

    fn printed(version: Option<ApiVersion>, answer: &str) -> Option<String> {
        let question = Question { version, spec: ExecCredentialSpec::default() };
        let read = read(answer.as_bytes(), &question)?;
        Some(String::from_utf8(read.text.to_vec()).unwrap())
    }

    fn of(version: &str, status: &str) -> String {
        format!(r#"{{"apiVersion":"client.authentication.k8s.io/{version}","odd":[1.0],"status":{{{status}}}}}"#)
    }

    #[test]
    fn an_answer_in_the_version_asked_for_is_passed_on_to_the_byte() {
        let answer = format!(" {}\n\n", of("v1", r#""token":"t""#));
        assert_eq!(printed(Some(ApiVersion::V1), &answer), Some(answer.clone()));
        assert_eq!(printed(None, &answer), Some(answer));
        let beta = of("v1beta1", r#""token":"t""#);
        assert_eq!(printed(None, &beta), Some(beta));
    }

    #[test]
    fn the_two_versions_that_are_alike_are_turned_into_each_other() {
        let (beta, v1) = (of("v1beta1", r#""token":"t""#), of("v1", r#""token":"t""#));
        assert_eq!(printed(Some(ApiVersion::V1), &beta), Some(format!("{v1}\n")));
        assert_eq!(printed(Some(ApiVersion::V1beta1), &v1), Some(format!("{beta}\n")));
        assert_eq!(printed(Some(ApiVersion::V1alpha1), &v1), None);
        let yaml = "apiVersion: client.authentication.k8s.io/v1beta1\nstatus:\n  token: t\n";
        assert!(printed(Some(ApiVersion::V1), yaml).unwrap().contains("k8s.io/v1\""));
    }

    #[test]
    fn no_date_is_printed_where_there_is_none() {
        for nothing in ["null", r#""0001-01-01T00:00:00Z""#] {
            let answer = of("v1", &format!(r#""token":"t","expirationTimestamp":{nothing}"#));
            assert_eq!(printed(Some(ApiVersion::V1), &answer), Some(format!("{}\n", of("v1", r#""token":"t""#))));
        }
    }

    #[test]
    fn what_is_no_answer_is_left_alone() {
        for answer in ["", "hello", "{}", &of("v2", r#""token":"t""#), &of("v1", "")] {
            assert_eq!(printed(Some(ApiVersion::V1), answer), None, "{answer}");
        }
    }
}
