use serde::Deserialize;
use serde::de::IgnoredAny;

use super::decode::Document;
use crate::wire::document::{self, Duplicates};

/// Where the first document ends, if it is there whole and names a proxy. Such a plugin may go on to live, so nobody
/// can wait until it has closed its output; any other is done when it has ended.
///
/// One that names a proxy and has something wrong in it counts as well: what is wrong is for who reads it to say, and
/// nobody should wait for more.
///
/// Only JSON says by itself where it ends, so only JSON is found.
///
/// ```
/// use credlet_api::exec::proxy_answer;
///
/// let printed = br#"{"status": {"proxyConfig": {"url": "unix:///run/acme/s.sock"}}} listening"#;
/// assert_eq!(proxy_answer(printed), Some(printed.len() - " listening".len()));
/// assert_eq!(proxy_answer(&printed[..40]), None);
/// assert_eq!(proxy_answer(br#"{"status": {"token": "a token"}}"#), None);
/// ```
pub fn proxy_answer(stdout: &[u8]) -> Option<usize> {
    if stdout.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(stdout).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let end = values.byte_offset();
    let names_proxy = match document::read::<Document>(&stdout[..end], Duplicates::LastWins) {
        Ok(document) => document.names_proxy(),
        Err(_) => serde_json::from_slice::<Outline>(&stdout[..end]).is_ok_and(|it| it.status.proxy_config.is_some()),
    };
    names_proxy.then_some(end)
}

/// All that can be said of a document that is not right.
#[derive(Deserialize)]
struct Outline {
    status: StatusOutline,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusOutline {
    proxy_config: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_of_an_answer_is_no_answer_and_nothing_behind_it_matters() {
        let answer = r#" {"kind":"ExecCredential","status":{"proxyConfig":{"URL":"unix:///s","certificate-authority-data":null}}}"#;
        for length in 0..answer.len() {
            assert_eq!(proxy_answer(&answer.as_bytes()[..length]), None, "{}", &answer[..length]);
        }
        for rest in ["", "\n", "{", "}", "[1", "\u{7f}"] {
            assert_eq!(proxy_answer(format!("{answer}{rest}").as_bytes()), Some(answer.len()), "{rest:?}");
        }
    }

    #[test]
    fn an_answer_that_names_a_proxy_and_is_wrong_is_not_waited_for_any_longer() {
        for answer in [
            r#"{"status":{"expirationTimestamp":"tomorrow","proxyConfig":{"url":"unix:///s"}}}"#,
            r#"{"status":{"proxyConfig":{"url":7}}}"#,
            r#"{"status":{"proxyConfig":{"url":"unix:///s","certificate-authority-data":"!"}}}"#,
            r#"{"status":{"proxyConfig":"unix:///s"}}"#,
        ] {
            assert_eq!(proxy_answer(format!("{answer} listening").as_bytes()), Some(answer.len()), "{answer}");
        }
        for other in [r#"{"status":{"token":7}}"#, r#"{"status":7}"#, r#"{"status":{"token":7,"proxyConfig":null}}"#] {
            assert_eq!(proxy_answer(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn yaml_other_values_and_a_proxy_that_is_null_are_left_to_the_end_of_the_program() {
        for other in ["status: {proxyConfig: {url: unix:///s}}", "[]", "1", r#"{"status":{"proxyConfig":null}}"#, "{]"]
        {
            assert_eq!(proxy_answer(other.as_bytes()), None, "{other}");
        }
    }
}
