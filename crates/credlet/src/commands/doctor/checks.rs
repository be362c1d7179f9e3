//! The checks, in the order in which they depend on each other.

use std::path::Path;
use std::time::Duration;

use credlet_client::{Client, ClientOptions};
use credlet_exec::{Clock as _, LookupError, Platform, SystemClock, SystemEnv, find_program};
use credlet_kubeconfig::{ResolvedConfig, ResolvedExec};
use http::header::DATE;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::permissions;
use super::report::CheckReport;
use super::target::CheckTarget;
use crate::args::GlobalArgs;
use crate::commands::{request, response, whoami};
use crate::credential::RequestCredential;
use crate::credential_details::{CredentialDetails, format_time};
use crate::duration::format_duration;
use crate::error::CliError;
use crate::exit::ExitStatus;

/// Time limit of a request to the server if `--request-timeout` is not set.
const SERVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Largest accepted clock difference. A larger one makes tokens with a lifetime of one minute useless.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);

/// Runs the checks of all targets.
pub(super) struct CheckRunner {
    options: ClientOptions,
    /// The flags, with a time limit for requests.
    global: GlobalArgs,
    clock: SystemClock,
    /// Kept alive, because targets with the same plugin share one run only while a client of it exists.
    clients: Vec<Client>,
}

impl CheckRunner {
    pub(super) fn new(global: &GlobalArgs, platform: Platform) -> Result<Self, CliError> {
        let mut options = global.client_options_in(platform)?;
        // A rejected credential is reported, so the request is not retried with another one.
        options.on_unauthorized = credlet_client::layer::OnUnauthorized::Refresh;
        let global = GlobalArgs { request_timeout: global.request_timeout.or(Some(SERVER_TIMEOUT)), ..global.clone() };
        Ok(Self { options, global, clock: SystemClock::new(), clients: Vec::new() })
    }

    pub(super) async fn run_checks(&mut self, target: &CheckTarget) -> CheckReport {
        let mut report = CheckReport::new(target);
        match &target.resolved {
            Err(error) => report.fail("kubeconfig", error),
            Ok(resolved) => {
                // `None` means that a check failed, which is in the report.
                let _ = self.check_resolved(target, resolved, &mut report).await;
            }
        }
        report
    }

    /// Runs the checks. Returns `None` if a failed check makes the following ones impossible.
    async fn check_resolved(
        &mut self,
        target: &CheckTarget,
        resolved: &ResolvedConfig,
        report: &mut CheckReport,
    ) -> Option<()> {
        if let Some(exec) = target.exec() {
            self.check_program(exec, report)?;
        }
        let client = match Client::new(resolved, self.options.clone()) {
            Ok(client) => client,
            Err(error) => {
                report.fail("kubeconfig", &error.into());
                return None;
            }
        };
        self.clients.push(client.clone());
        let credential = self.check_credential(resolved, report).await?;
        self.check_expiry(&credential, report);
        self.check_server(&client, resolved, report).await
    }

    /// Checks that the plugin exists, that no other user can replace it and that the policy allows it.
    fn check_program(&self, exec: &ResolvedExec, report: &mut CheckReport) -> Option<()> {
        let command = &exec.config.command;
        let found = find_program(command, &SystemEnv);
        match &found {
            Ok(path) => {
                report.pass("program", path.display().to_string());
                self.check_permissions(path, report);
            }
            Err(error) => report.fail("program", &lookup_error(error, exec)),
        }
        match self.options.exec.policy.check(command, &found, &SystemEnv) {
            Ok(()) => report.pass("policy", "allowed"),
            Err(error) => report.fail(
                "policy",
                &CliError::new(ExitStatus::PolicyDenied, error.to_string())
                    .hint("add it to `credentialPluginAllowlist` in your kuberc file if you trust it"),
            ),
        }
        report.failure().filter(|problem| *problem != ExitStatus::Usage).is_none().then_some(())
    }

    fn check_permissions(&self, program: &Path, report: &mut CheckReport) {
        match permissions::find_exposed(program) {
            None => report.pass("safety", "not writable by other users"),
            Some((path, reason)) => report.fail(
                "safety",
                &CliError::usage(format!("{} {reason}, which allows another user to run code as you", path.display()))
                    .hint(format!("run `chmod go-w {}`, or install the program elsewhere", path.display())),
            ),
        }
    }

    /// Fetches the credential and reports how long that took.
    async fn check_credential(&self, resolved: &ResolvedConfig, report: &mut CheckReport) -> Option<RequestCredential> {
        let credential = match RequestCredential::fetch(resolved, &self.options).await {
            Ok(credential) => credential,
            Err(error) => {
                report.fail("credential", &error);
                return None;
            }
        };
        let what = match (credential.header.is_some(), credential.certificate.is_some()) {
            (true, true) => "a token and a certificate",
            (true, false) => "a token",
            (false, true) => "a certificate",
            (false, false) => "no credential",
        };
        let what = match &credential.proxy {
            Some(proxy) => format!("an exec proxy at {proxy}"),
            None => what.to_owned(),
        };
        let how = match (resolved.identity.exec_in_use(), credential.took) {
            (Some(exec), Some(took)) => format!("{what} in {}, in {}", format_duration(took), exec.config.api_version),
            _ => format!("{what} from {}", credential.source.describe()),
        };
        report.pass("credential", how);
        Some(credential)
    }

    /// Checks the expiry that the plugin reports, else that of the token, else that of the certificate.
    fn check_expiry(&self, credential: &RequestCredential, report: &mut CheckReport) {
        let credential_details = CredentialDetails::of(credential);
        let of_token = credential.token().and_then(credlet_api::oidc::jwt_expiry);
        let of_certificate = credential_details.certificate.as_ref().map(|certificate| certificate.not_after);
        let now = self.clock.now();
        match credential.expires.or(of_token).or(of_certificate) {
            None => report.pass("expiry", "no expiry known"),
            Some(at) if at >= now => report.pass("expiry", format_time(at, now)),
            Some(at) => report.fail(
                "expiry",
                &CliError::new(ExitStatus::NoCredential, format!("expired: {}", format_time(at, now)))
                    .hint("log in again with the plugin's own tool, then check the clock of this machine"),
            ),
        }
    }

    /// Checks that the server is reachable, that the clocks agree and that the server accepts the credential.
    async fn check_server(&self, client: &Client, resolved: &ResolvedConfig, report: &mut CheckReport) -> Option<()> {
        let began = self.clock.monotonic();
        let [newest, _] = credlet_api::review::SelfSubjectReview::VERSIONS;
        let response = match self.global.with_timeout(whoami::send_review(client, newest)).await {
            Ok(response) => response,
            Err(error) => {
                report.fail("server", &error);
                return None;
            }
        };
        let took = self.clock.monotonic().saturating_sub(began);
        report.pass("server", format!("{} responded in {}", resolved.server.value, format_duration(took)));
        self.check_clock(response.headers(), report);
        match response.status() {
            status if status.is_success() => {
                let body = response::read_prefix(response.into_body()).await;
                let user = credlet_api::review::UserInfo::decode(&body).unwrap_or_default();
                report.pass("accepted", format!("authenticated as \"{}\"", user.username));
            }
            StatusCode::UNAUTHORIZED => {
                report.fail("accepted", &unauthorized(request::error_from_response(response).await))
            }
            // The server authenticates before it authorizes, so these statuses mean that the credential is accepted.
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                report.pass("accepted", "authenticated; the server does not report the user");
            }
            _ => report.fail("accepted", &request::error_from_response(response).await),
        }
        Some(())
    }

    fn check_clock(&self, headers: &HeaderMap, report: &mut CheckReport) {
        let Some(theirs) = headers.get(DATE).and_then(|date| parse_http_date(date.as_bytes())) else { return };
        let ours = self.clock.now();
        let skew = theirs.duration_since(ours).unsigned_abs();
        if skew <= MAX_CLOCK_SKEW {
            return report.pass("clock", "in sync with the server");
        }
        let direction = if theirs > ours { "behind" } else { "ahead of" };
        report.fail(
            "clock",
            &CliError::usage(format!(
                "the clock of this machine is {} {direction} the server's",
                format_duration(skew)
            ))
            .hint("set the clock (`timedatectl set-ntp true`): tokens appear to expire too early or too late"),
        );
    }
}

fn lookup_error(error: &LookupError, exec: &ResolvedExec) -> CliError {
    let hint = match (error, exec.config.install_hint.as_str()) {
        (LookupError::NotExecutable { path }, _) => format!("run `chmod +x {}` if you trust it", path.display()),
        (error, hint) if error.is_missing() && !hint.is_empty() => hint.to_owned(),
        _ => "install it, or correct `command` in the kubeconfig's exec section".to_owned(),
    };
    CliError::new(ExitStatus::NoCredential, error.to_string()).hint(hint)
}

fn unauthorized(error: CliError) -> CliError {
    CliError::new(ExitStatus::ServerError, error.message())
        .hint(
            "check that the user is valid for this cluster: run `credlet whoami` to see the contents of the credential",
        )
        .hint("an API server may need some minutes to accept a new user; it rejects a revoked token at once")
}

/// Parses an HTTP date (RFC 9110, 5.6.7), which is an RFC 2822 date with `GMT` as the offset.
fn parse_http_date(header: &[u8]) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(header).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_http_date() {
        let date = parse_http_date(b"Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(date.to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(parse_http_date(b"yesterday"), None);
    }
}
