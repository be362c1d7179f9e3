//! Asking the Security Token Service for the credentials of a role.

use std::time::Duration;

use credlet_api::{Secret, scrub, visible};
use http::{HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};

use super::call::Post;
use super::source::Role;
use super::{AwsError, Chain, Credentials, time, xml};
use crate::web::{Answer, Ask, form};

const VERSION: (&str, &str) = ("Version", "2011-06-15");
const FORM: &str = "application/x-www-form-urlencoded";

/// STS takes no signature that is further from its own time.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

impl Chain {
    pub(super) async fn assume(&self, role: &Role, credentials: &Credentials) -> Result<Credentials, AwsError> {
        let code = match &role.mfa_serial {
            Some(serial) => Some(self.code(role, serial)?),
            None => None,
        };
        let (name, seconds) = (self.session(role), role.duration_seconds.map(|seconds| seconds.to_string()));
        let mut fields = vec![("Action", "AssumeRole"), VERSION, ("RoleArn", &*role.arn), ("RoleSessionName", &*name)];
        fields.extend(seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
        fields.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
        fields.extend(role.mfa_serial.as_deref().map(|serial| ("SerialNumber", serial)));
        fields.extend(code.as_ref().map(|code| ("TokenCode", code.expose())));
        let answer = self.ask_sts(&format!("the role {}", role.arn), &fields, Some(credentials)).await?;
        lent(&answer, &role.arn)
    }

    /// With a token of an identity provider that the role trusts, of a service account for example.
    ///
    /// # Errors
    /// When STS does not give the role to whoever holds it.
    pub async fn assume_with_web_identity(&self, role: &Role, token: &Secret) -> Result<Credentials, AwsError> {
        let name = self.session(role);
        let fields = [
            ("Action", "AssumeRoleWithWebIdentity"),
            VERSION,
            ("RoleArn", &*role.arn),
            ("RoleSessionName", &*name),
            ("WebIdentityToken", token.expose()),
        ];
        let answer = self.ask_sts(&format!("the role {}", role.arn), &fields, None).await?;
        lent(&answer, &role.arn)
    }

    /// Who the credentials belong to.
    pub(super) async fn caller_arn(&self, credentials: &Credentials) -> Result<String, AwsError> {
        let what = "the identity of the credentials";
        let answer = self.ask_sts(what, &[("Action", "GetCallerIdentity"), VERSION], Some(credentials)).await?;
        let failed = |source| AwsError::Web { what: what.into(), source };
        let arn = xml::text(answer.text().map_err(failed)?, "Arn");
        arn.map(|arn| arn.expose().to_owned()).ok_or_else(|| failed(answer.nonsense("that names nobody")))
    }

    fn session(&self, role: &Role) -> String {
        let made_up = || format!("credlet-{}", self.world.clock.now().as_second());
        role.session_name.clone().unwrap_or_else(made_up)
    }

    fn code(&self, role: &Role, serial: &str) -> Result<Secret, AwsError> {
        let nobody =
            |reason: String| AwsError::NobodyToAsk { role: role.arn.clone(), serial: serial.to_owned(), reason };
        let person = self.person.as_ref().ok_or_else(|| nobody("this is not run from a terminal".into()))?;
        let code = person.ask(&format!("MFA code of {} for {}: ", visible(serial), visible(&role.arn)));
        let code = code.map_err(|error| nobody(error.kind().to_string()))?;
        let code = code.expose().trim();
        if code.len() < 6 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(nobody("what was typed is no code of six digits".into()));
        }
        Ok(Secret::new(code))
    }

    /// Signed, unless the answer is for everybody who brings a token of another kind.
    async fn ask_sts(
        &self,
        what: &str,
        fields: &[(&str, &str)],
        signer: Option<&Credentials>,
    ) -> Result<Answer, AwsError> {
        let failed = |source| AwsError::Web { what: what.to_owned(), source };
        let endpoint = self.sts();
        let mut ask = Ask::post_form(format!("{}/", endpoint.url), fields)
            .plain(endpoint.plain())
            .header(header::ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(credentials) = signer {
            let body = form(fields);
            let post = Post { service: "sts", headers: &[("content-type", FORM)], body: body.as_bytes() };
            ask = self.signed(ask, &endpoint, &post, credentials).map_err(failed)?;
        }
        let answer = self.web.fetch(ask).await.map_err(failed)?;
        self.compare_clocks(&answer)?;
        if answer.status == StatusCode::OK { Ok(answer) } else { Err(refusal(&answer, what, fields, signer)) }
    }

    /// A token that is signed with the wrong time is refused by the cluster, which does not say why. STS says what time
    /// it is with every answer.
    pub(super) fn compare_clocks(&self, answer: &Answer) -> Result<(), AwsError> {
        let Some(theirs) = answer.headers.get(header::DATE).and_then(|date| http_date(date.to_str().ok()?)) else {
            return Ok(());
        };
        let off = self.world.clock.now().duration_since(theirs);
        if off.abs() <= TOLERANCE {
            return Ok(());
        }
        let ahead = off.is_positive();
        let off = Duration::try_from(off.abs()).unwrap_or_default();
        Err(AwsError::Clock { host: answer.host.clone(), off, ahead })
    }
}

/// `Sun, 15 Nov 2026 19:17:49 GMT`
fn http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split_ascii_whitespace().skip(1);
    let (day, month, year, clock) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? / 3 + 1;
    format!("{year}-{month:02}-{day:0>2}T{clock}Z").parse().ok()
}

fn lent(answer: &Answer, arn: &str) -> Result<Credentials, AwsError> {
    let nonsense = |fault| AwsError::Web { what: format!("the role {arn}"), source: answer.nonsense(fault) };
    let text = answer.text().map_err(|source| AwsError::Web { what: format!("the role {arn}"), source })?;
    let value = |name: &str| xml::text(text, name).filter(|value| !value.is_empty());
    let (Some(id), Some(secret)) = (value("AccessKeyId"), value("SecretAccessKey")) else {
        return Err(nonsense("that has no credentials in it"));
    };
    let expires = value("Expiration").and_then(|at| time::parse(at.expose()));
    // Without a time it could not be told from one that lasts for ever.
    let expires = expires.ok_or_else(|| nonsense("that does not say when the credentials end"))?;
    Ok(Credentials::new(id, secret, value("SessionToken")).expiring(Some(expires)))
}

/// A code is a word; anything else is foreign text that was put in its place.
pub(super) fn word(code: &str) -> String {
    let is_word = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    (if is_word && !code.is_empty() { code } else { "an unknown code" }).to_owned()
}

/// What AWS says, without anything that was sent, and no longer than anybody reads.
pub(super) fn told<'a>(message: &str, sent: impl IntoIterator<Item = &'a Secret>) -> Option<String> {
    const LONGEST: usize = 400;
    let message: String = visible(&scrub(message, sent)).chars().take(LONGEST).collect();
    Some(message).filter(|message| !message.is_empty())
}

fn refusal(answer: &Answer, what: &str, fields: &[(&str, &str)], signer: Option<&Credentials>) -> AwsError {
    let text = answer.text().unwrap_or_default();
    let Some(code) = xml::text(text, "Code") else {
        let fault = if text.trim_start().starts_with('<') { "that is a web page" } else { "that is no answer of STS" };
        return AwsError::Web { what: what.to_owned(), source: answer.nonsense(fault) };
    };
    let code = word(code.expose());
    let sent: Vec<Secret> = fields
        .iter()
        .filter(|(name, _)| matches!(*name, "WebIdentityToken" | "TokenCode"))
        .map(|(_, value)| Secret::from(*value))
        .collect();
    let known = signer.into_iter().flat_map(Credentials::secrets).chain(&sent);
    let message = xml::text(text, "Message")
        // The one about signatures repeats the whole request and helps nobody.
        .filter(|_| code != "SignatureDoesNotMatch")
        .and_then(|message| told(message.expose(), known));
    AwsError::Refused { host: answer.host.clone(), what: what.to_owned(), code, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_is_read() {
        assert_eq!(http_date("Sun, 15 Nov 2026 19:17:49 GMT"), "2026-11-15T19:17:49Z".parse().ok());
        assert_eq!(http_date("Sun, 5 Jan 2026 09:17:49 GMT"), "2026-01-05T09:17:49Z".parse().ok());
        for bad in ["", "now", "Sun, 15 ovD 2026 19:17:49 GMT", "Sun, 99 Nov 2026 19:17:49 GMT"] {
            assert_eq!(http_date(bad), None, "{bad}");
        }
    }
}
