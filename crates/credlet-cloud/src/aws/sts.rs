//! Security Token Service: `AssumeRole`, `AssumeRoleWithWebIdentity`, `GetCallerIdentity`.

use std::time::Duration;

use credlet_api::{Secret, escape_control_chars, redact};
use http::{HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};

use super::request::PostRequest;
use super::resolve::AwsRole;
use super::{AwsCredentials, AwsError, CredentialChain, time, xml};
use crate::oauth::IdentityToken;
use credlet_http::fetch::{FetchRequest, FetchResponse, encode_form};

const VERSION: (&str, &str) = ("Version", "2011-06-15");
const FORM: &str = "application/x-www-form-urlencoded";

/// STS rejects signatures whose time differs by more than this.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

impl CredentialChain {
    pub(super) async fn assume(
        &self,
        role: &AwsRole,
        credentials: &AwsCredentials,
    ) -> Result<AwsCredentials, AwsError> {
        let code = match &role.mfa_serial {
            Some(serial) => Some(self.prompt_mfa_code(role, serial)?),
            None => None,
        };
        let (name, seconds) = (self.session_name_for(role), role.duration_seconds.map(|seconds| seconds.to_string()));
        let mut fields = vec![("Action", "AssumeRole"), VERSION, ("RoleArn", &*role.arn), ("RoleSessionName", &*name)];
        fields.extend(seconds.as_deref().map(|seconds| ("DurationSeconds", seconds)));
        fields.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
        fields.extend(role.mfa_serial.as_deref().map(|serial| ("SerialNumber", serial)));
        fields.extend(code.as_ref().map(|code| ("TokenCode", code.expose())));
        let response = self.call_sts(&credentials_of(&role.arn), &fields, Some(credentials)).await?;
        parse_credentials(&response, &role.arn)
    }

    /// Assumes a role with a token of an identity provider that the role trusts, for example a service account token. The
    /// credentials do not outlive the token.
    ///
    /// # Errors
    /// When STS rejects the token or denies the role.
    pub async fn assume_with_web_identity(
        &self,
        role: &AwsRole,
        token: &IdentityToken,
    ) -> Result<AwsCredentials, AwsError> {
        let name = self.session_name_for(role);
        let fields = [
            ("Action", "AssumeRoleWithWebIdentity"),
            VERSION,
            ("RoleArn", &*role.arn),
            ("RoleSessionName", &*name),
            ("WebIdentityToken", token.expose()),
        ];
        let response = self.call_sts(&credentials_of(&role.arn), &fields, None).await?;
        Ok(parse_credentials(&response, &role.arn)?.limit_expiry(token.expires()))
    }

    /// Returns the ARN of the identity that the credentials belong to.
    pub(super) async fn get_caller_arn(&self, credentials: &AwsCredentials) -> Result<String, AwsError> {
        let what = "the caller identity";
        let response = self.call_sts(what, &[("Action", "GetCallerIdentity"), VERSION], Some(credentials)).await?;
        let failed = |source| AwsError::Request { what: what.into(), source };
        let arn = xml::text(response.text().map_err(failed)?, "Arn");
        arn.map(|arn| arn.expose().to_owned()).ok_or_else(|| failed(response.invalid_response("it has no Arn")))
    }

    fn session_name_for(&self, role: &AwsRole) -> String {
        let generated = || format!("credlet-{}", self.platform.clock.now().as_second());
        role.session_name.clone().unwrap_or_else(generated)
    }

    fn prompt_mfa_code(&self, role: &AwsRole, serial: &str) -> Result<Secret, AwsError> {
        let unavailable =
            |reason: String| AwsError::MfaUnavailable { role: role.arn.clone(), serial: serial.to_owned(), reason };
        let mfa_prompt = self.mfa_prompt.as_ref().ok_or_else(|| unavailable("not an interactive terminal".into()))?;
        let code = mfa_prompt.read_code(&format!(
            "MFA code of {} for {}: ",
            escape_control_chars(serial),
            escape_control_chars(&role.arn)
        ));
        let code = code.map_err(|error| unavailable(error.kind().to_string()))?;
        let code = code.expose().trim();
        if code.len() < 6 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(unavailable("invalid code: must be six digits".into()));
        }
        Ok(Secret::new(code))
    }

    /// Calls an STS action. `signer`: credentials to sign with; `None` for actions that carry their own token.
    async fn call_sts(
        &self,
        what: &str,
        fields: &[(&str, &str)],
        signer: Option<&AwsCredentials>,
    ) -> Result<FetchResponse, AwsError> {
        let failed = |source| AwsError::Request { what: what.to_owned(), source };
        let endpoint = self.sts();
        let mut request = FetchRequest::post_form(format!("{}/", endpoint.url), fields)
            .policy(endpoint.policy())
            .header(header::ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(credentials) = signer {
            let body = encode_form(fields);
            let post = PostRequest { service: "sts", headers: &[("content-type", FORM)], body: body.as_bytes() };
            request = self.sign_post(request, &endpoint, &post, credentials).map_err(failed)?;
        }
        let response = self.fetcher.fetch(request).await.map_err(failed)?;
        self.check_clock_skew(&response)?;
        if response.status == StatusCode::OK { Ok(response) } else { Err(rejection(&response, what, fields, signer)) }
    }

    /// Compares the local clock with the `Date` header of the response. A cluster rejects a token that was signed with a wrong time
    /// without giving the reason.
    pub(super) fn check_clock_skew(&self, response: &FetchResponse) -> Result<(), AwsError> {
        let Some(theirs) = response.headers.get(header::DATE).and_then(|date| parse_http_date(date.to_str().ok()?))
        else {
            return Ok(());
        };
        let off = self.platform.clock.now().duration_since(theirs);
        if off.abs() <= MAX_CLOCK_SKEW {
            return Ok(());
        }
        let ahead = off.is_positive();
        let off = Duration::try_from(off.abs()).unwrap_or_default();
        Err(AwsError::ClockSkew { host: response.host.clone(), off, ahead })
    }
}

/// Parses the value of a `Date` header, such as `Sun, 15 Nov 2026 19:17:49 GMT`.
pub(super) fn parse_http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split_ascii_whitespace().skip(1);
    let (day, month, year, clock) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let month = MONTHS.find(month).filter(|at| month.len() == 3 && at % 3 == 0)? / 3 + 1;
    format!("{year}-{month:02}-{day:0>2}T{clock}Z").parse().ok()
}

fn parse_credentials(response: &FetchResponse, arn: &str) -> Result<AwsCredentials, AwsError> {
    let invalid = |fault| AwsError::Request { what: credentials_of(arn), source: response.invalid_response(fault) };
    let text = response.text().map_err(|source| AwsError::Request { what: credentials_of(arn), source })?;
    let value = |name: &str| xml::text(text, name).filter(|value| !value.is_empty());
    let (Some(id), Some(secret)) = (value("AccessKeyId"), value("SecretAccessKey")) else {
        return Err(invalid("it has no credentials"));
    };
    let expires = value("Expiration").and_then(|at| time::parse(at.expose()));
    // Without an expiry it would count as permanent.
    let expires = expires.ok_or_else(|| invalid("it has no valid Expiration"))?;
    Ok(AwsCredentials::new(id, secret, value("SessionToken")).expiring(Some(expires)))
}

/// Returns an error code for messages: alphanumeric, at most 64 bytes. Anything else is untrusted text and is replaced.
pub(super) fn sanitize_code(code: &str) -> String {
    let is_word = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    (if is_word && !code.is_empty() { code } else { "an unknown code" }).to_owned()
}

/// Returns a message of AWS with sent secrets redacted, control characters escaped, and at most 400 characters.
pub(super) fn sanitize_message<'a>(message: &str, sent: impl IntoIterator<Item = &'a Secret>) -> Option<String> {
    const LONGEST: usize = 400;
    let message: String = escape_control_chars(&redact(message, sent)).chars().take(LONGEST).collect();
    Some(message).filter(|message| !message.is_empty())
}

fn credentials_of(role_arn: &str) -> String {
    format!("credentials of role {role_arn}")
}

fn rejection(
    response: &FetchResponse,
    what: &str,
    fields: &[(&str, &str)],
    signer: Option<&AwsCredentials>,
) -> AwsError {
    let text = response.text().unwrap_or_default();
    let Some(code) = xml::text(text, "Code") else {
        let fault = if text.trim_start().starts_with('<') { "it is a web page" } else { "it is not an STS response" };
        return AwsError::Request { what: what.to_owned(), source: response.invalid_response(fault) };
    };
    let code = sanitize_code(code.expose());
    let sent: Vec<Secret> = fields
        .iter()
        .filter(|(name, _)| matches!(*name, "WebIdentityToken" | "TokenCode"))
        .map(|(_, value)| Secret::from(*value))
        .collect();
    let known = signer.into_iter().flat_map(AwsCredentials::secrets).chain(&sent);
    let message = xml::text(text, "Message")
        // This message repeats the whole request.
        .filter(|_| code != "SignatureDoesNotMatch")
        .and_then(|message| sanitize_message(message.expose(), known));
    AwsError::Rejected { host: response.host.clone(), what: what.to_owned(), code, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_http_date() {
        assert_eq!(parse_http_date("Sun, 15 Nov 2026 19:17:49 GMT"), "2026-11-15T19:17:49Z".parse().ok());
        assert_eq!(parse_http_date("Sun, 5 Jan 2026 09:17:49 GMT"), "2026-01-05T09:17:49Z".parse().ok());
        for bad in ["", "now", "Sun, 15 ovD 2026 19:17:49 GMT", "Sun, 99 Nov 2026 19:17:49 GMT"] {
            assert_eq!(parse_http_date(bad), None, "{bad}");
        }
    }
}
