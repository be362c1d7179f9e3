//! The questions, in the order in which one answer makes the next one possible.

use std::path::Path;
use std::time::Duration;

use credlet_client::kubeconfig::{Exec, Resolved};
use credlet_client::{Client, ClientOptions};
use credlet_core::{Clock as _, LookupError, SystemClock, SystemEnv, World, look_up};
use http::header::DATE;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::patient::Patient;
use super::report::Report;
use super::safety;
use crate::args::Global;
use crate::commands::{answer, request, whoami};
use crate::credential::Credential;
use crate::duration::rough;
use crate::error::CliError;
use crate::exit::Exit;
use crate::facts::{Facts, when};

/// How long the server may take if nobody says otherwise.
const SERVER: Duration = Duration::from_secs(30);

/// A clock that is wrong by more makes tokens of a minute useless.
const SKEW: Duration = Duration::from_secs(30);

/// Examines.
pub(super) struct Doctor {
    options: ClientOptions,
    /// With a limit for the server's answers.
    global: Global,
    clock: SystemClock,
    /// Kept, because plugins are run once for all who share them, and that is as long as somebody has them.
    clients: Vec<Client>,
}

impl Doctor {
    pub(super) fn new(global: &Global, world: World) -> Result<Self, CliError> {
        let mut options = global.client_options_in(world)?;
        // Examined is what a client does at once; a refused credential is told, and not replaced.
        options.on_refusal = credlet_client::http::OnRefusal::Refresh;
        let global = Global { request_timeout: global.request_timeout.or(Some(SERVER)), ..global.clone() };
        Ok(Self { options, global, clock: SystemClock::new(), clients: Vec::new() })
    }

    pub(super) async fn examine(&mut self, patient: &Patient) -> Report {
        let mut report = Report::new(patient);
        match &patient.resolved {
            Err(error) => report.bad("kubeconfig", error),
            Ok(resolved) => {
                // An error was reported; there is nothing more to find out.
                let _ = self.all(patient, resolved, &mut report).await;
            }
        }
        report
    }

    /// `None`: it makes no sense to go on.
    async fn all(&mut self, patient: &Patient, resolved: &Resolved, report: &mut Report) -> Option<()> {
        if let Some(exec) = patient.exec() {
            self.program(exec, report)?;
        }
        let client = match Client::new(resolved, self.options.clone()) {
            Ok(client) => client,
            Err(error) => {
                report.bad("kubeconfig", &error.into());
                return None;
            }
        };
        self.clients.push(client.clone());
        let credential = self.credential(resolved, report).await?;
        self.expiry(&credential, report);
        self.server(&client, resolved, report).await
    }

    /// Is it there, is it safe, is it allowed?
    fn program(&self, exec: &Exec, report: &mut Report) -> Option<()> {
        let command = &exec.config.command;
        let found = look_up(command, &SystemEnv);
        match &found {
            Ok(path) => {
                report.good("program", path.display().to_string());
                self.safety(path, report);
            }
            Err(error) => report.bad("program", &missing(error, exec)),
        }
        match self.options.exec.policy.check(command, &found, &SystemEnv) {
            Ok(()) => report.good("policy", "allowed"),
            Err(error) => report.bad(
                "policy",
                &CliError::new(Exit::Denied, error.to_string())
                    .hint("if you trust it, add it to `credentialPluginAllowlist` in your kuberc file"),
            ),
        }
        report.problem().filter(|problem| *problem != Exit::Usage).is_none().then_some(())
    }

    fn safety(&self, program: &Path, report: &mut Report) {
        match safety::exposed(program) {
            None => report.good("safety", "nobody else can change it"),
            Some((path, reason)) => report.bad(
                "safety",
                &CliError::usage(format!("{} {reason}, who could run anything as you", path.display()))
                    .hint(format!("`chmod go-w {}`, or install the program elsewhere", path.display())),
            ),
        }
    }

    /// Does it answer, and how fast?
    async fn credential(&self, resolved: &Resolved, report: &mut Report) -> Option<Credential> {
        let credential = match Credential::obtain(resolved, &self.options).await {
            Ok(credential) => credential,
            Err(error) => {
                report.bad("credential", &error);
                return None;
            }
        };
        let what = match (credential.header.is_some(), credential.certificate.is_some()) {
            (true, true) => "a token and a certificate",
            (true, false) => "a token",
            (false, true) => "a certificate",
            (false, false) => "nothing",
        };
        let what = match &credential.proxy {
            Some(proxy) => format!("a proxy at {proxy}"),
            None => what.to_owned(),
        };
        let how = match (resolved.identity.exec_in_use(), credential.took) {
            (Some(exec), Some(took)) => format!("{what} in {}, in {}", rough(took), exec.config.api_version),
            _ => format!("{what} from {}", credential.source.describe()),
        };
        report.good("credential", how);
        Some(credential)
    }

    /// For how long? By the word of the plugin, else of the token, else of the certificate.
    fn expiry(&self, credential: &Credential, report: &mut Report) {
        let facts = Facts::of(credential);
        let of_token = credential.token().and_then(credlet_api::oidc::expiry);
        let of_certificate = facts.certificate.as_ref().map(|certificate| certificate.not_after);
        let now = self.clock.now();
        match credential.expires.or(of_token).or(of_certificate) {
            None => report.good("expiry", "it does not say when it expires"),
            Some(at) if at >= now => report.good("expiry", when(at, now)),
            Some(at) => report.bad(
                "expiry",
                &CliError::new(Exit::NoCredential, format!("it has expired: {}", when(at, now)))
                    .hint("log in again with the plugin's own tool; if that does not help, check this machine's clock"),
            ),
        }
    }

    /// Is the server there, is our clock right, does it accept the credential?
    async fn server(&self, client: &Client, resolved: &Resolved, report: &mut Report) -> Option<()> {
        let began = self.clock.monotonic();
        let [newest, _] = credlet_api::review::SelfSubjectReview::VERSIONS;
        let response = match self.global.in_time(whoami::ask(client, newest)).await {
            Ok(response) => response,
            Err(error) => {
                report.bad("server", &error);
                return None;
            }
        };
        let took = self.clock.monotonic().saturating_sub(began);
        report.good("server", format!("{} answers in {}", resolved.server.value, rough(took)));
        self.clock(response.headers(), report);
        match response.status() {
            status if status.is_success() => {
                let body = answer::beginning(response.into_body()).await;
                let user = credlet_api::review::UserInfo::decode(&body).unwrap_or_default();
                report.good("accepted", format!("the server takes you for \"{}\"", user.username));
            }
            StatusCode::UNAUTHORIZED => report.bad("accepted", &refused(request::refusal(response).await)),
            // Somebody it does not know it would have refused.
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                report.good("accepted", "the server knows you, and does not say as whom");
            }
            _ => report.bad("accepted", &request::refusal(response).await),
        }
        Some(())
    }

    fn clock(&self, headers: &HeaderMap, report: &mut Report) {
        let Some(theirs) = headers.get(DATE).and_then(|date| date_in(date.as_bytes())) else { return };
        let ours = self.clock.now();
        let skew = theirs.duration_since(ours).unsigned_abs();
        if skew <= SKEW {
            return report.good("clock", "this machine and the server agree");
        }
        let direction = if theirs > ours { "behind" } else { "ahead of" };
        report.bad(
            "clock",
            &CliError::usage(format!("this machine's clock is {} {direction} the server's", rough(skew)))
                .hint("set the clock (`timedatectl set-ntp true`): tokens seem to expire too early or too late"),
        );
    }
}

fn missing(error: &LookupError, exec: &Exec) -> CliError {
    let hint = match (error, exec.config.install_hint.as_str()) {
        (LookupError::NotExecutable { path }, _) => format!("`chmod +x {}` if you trust it", path.display()),
        (error, hint) if error.is_missing() && !hint.is_empty() => hint.to_owned(),
        _ => "install it, or correct `command` in the kubeconfig's exec section".to_owned(),
    };
    CliError::new(Exit::NoCredential, error.to_string()).hint(hint)
}

fn refused(error: CliError) -> CliError {
    CliError::new(Exit::Refused, error.message())
        .hint("is it the right user for this cluster? `credlet whoami` shows what the credential says of itself")
        .hint("an API server takes up to some minutes to learn of a new user, and forgets a revoked token at once")
}

/// A date as HTTP writes it, which is how mail does, with `GMT` for the offset.
fn date_in(header: &[u8]) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(header).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_is_read() {
        let date = date_in(b"Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(date.to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(date_in(b"yesterday"), None);
    }
}
