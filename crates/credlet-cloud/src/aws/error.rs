use std::path::PathBuf;
use std::time::Duration;

use credlet_exec::{ProgramError, RunError};
use credlet_platform::fs::ReadError;

use credlet_http::fetch::FetchError;

/// Why AWS credentials are unavailable. The variants are ordered by the party that has to act: author of the configuration, user
/// (login), owner of the machine, account administrator, network.
///
/// No variant contains a key, token or code. Messages of AWS are included with secrets redacted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwsError {
    /// The selected profile does not exist.
    #[error("AWS profile `{name}` not found in {} or {}", config.display(), credentials.display())]
    ProfileNotFound {
        /// Name of the profile.
        name: String,
        /// The config file.
        config: PathBuf,
        /// The credentials file.
        credentials: PathBuf,
        /// Names of the existing profiles.
        others: Vec<String>,
    },
    /// A profile, environment variable or token is invalid.
    #[error("invalid AWS configuration: {setting} {reason}")]
    InvalidConfig {
        /// The invalid setting: ``profile `x` ``, or an environment variable.
        setting: String,
        /// What is wrong with the setting.
        reason: String,
    },
    /// A file cannot be read.
    #[error("failed to read AWS configuration: {} {reason}", path.display())]
    ReadFile {
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be read.
        reason: ReadError,
    },
    /// A profile of `aws login`, which stores its session in a format of awscli.
    #[error("AWS profile `{profile}` uses `aws login`, which is not supported")]
    UnsupportedLogin {
        /// Name of the profile.
        profile: String,
    },
    /// The SSO login is missing, expired or rejected.
    #[error("SSO login of AWS profile `{profile}` {reason}")]
    SsoLoginRequired {
        /// Name of the profile.
        profile: String,
        /// State of the login.
        reason: &'static str,
    },
    /// The role requires an MFA code, which could not be read.
    #[error("failed to read the MFA code of {serial} for role {role}: {reason}")]
    MfaUnavailable {
        /// ARN of the role.
        role: String,
        /// Serial number of the MFA device.
        serial: String,
        /// Why no code was read, such as no interactive terminal.
        reason: String,
    },
    /// No source of the chain has credentials.
    #[error("no AWS credentials found: {}", tried.join("; "))]
    NoCredentials {
        /// Why each source has none.
        tried: Vec<String>,
    },
    /// The credentials have expired.
    #[error("AWS credentials of {origin} expired at {at}")]
    Expired {
        /// Source of the credentials.
        origin: String,
        /// Time at which they expired.
        at: jiff::Timestamp,
    },
    /// The `credential_process` is not installed, or the policy denies it.
    #[error("failed to run credential_process of AWS profile `{profile}`")]
    ProcessNotFound {
        /// Name of the profile.
        profile: String,
        /// Why the program is denied, or cannot be found.
        #[source]
        source: ProgramError,
    },
    /// The `credential_process` did not start, or was killed.
    #[error("credential_process of AWS profile `{profile}` failed")]
    ProcessFailed {
        /// Name of the profile.
        profile: String,
        /// Error of the operating system, or the exceeded limit.
        #[source]
        source: RunError,
    },
    /// The `credential_process` exited with an error or printed invalid output.
    #[error("credential_process of AWS profile `{profile}` {reason}")]
    InvalidProcessOutput {
        /// Name of the profile.
        profile: String,
        /// Exit status, or what is wrong with the output.
        reason: String,
    },
    /// The task that fetches the credentials was cancelled.
    #[error("failed to fetch AWS credentials: cancelled")]
    Cancelled,
    /// The clocks differ by more than a few minutes, so AWS rejects signatures.
    #[error("invalid local clock: {} min {} that of {host}", off.as_secs() / 60, if *ahead { "ahead of" } else { "behind" })]
    ClockSkew {
        /// The server that the local clock was compared with.
        host: String,
        /// Absolute difference of the clocks.
        off: Duration,
        /// Whether the local clock is ahead.
        ahead: bool,
    },
    /// AWS rejected the request.
    #[error("{host} rejected the request for {what}: {code}{}", message.as_deref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Rejected {
        /// `host:port` of the server.
        host: String,
        /// The requested object.
        what: String,
        /// Error code of AWS, or the HTTP status.
        code: String,
        /// Message of AWS, redacted and truncated.
        message: Option<String>,
    },
    /// The request failed, or the response is invalid.
    #[error("failed to fetch {what}")]
    Request {
        /// The requested object.
        what: String,
        /// Error of the connection or of the response.
        #[source]
        source: FetchError,
    },
}

impl AwsError {
    /// Returns hints for the user, one line each.
    pub fn hints(&self) -> Vec<String> {
        let line = |text: &str| vec![text.to_owned()];
        match self {
            Self::ProfileNotFound { others, .. } if others.is_empty() => line("create a profile with `aws configure`"),
            Self::ProfileNotFound { others, .. } => vec![format!("use one of: {}", others.join(", "))],
            Self::UnsupportedLogin { profile } => vec![format!(
                "add a profile with `credential_process = aws configure export-credentials --profile {profile} --format process` and use it instead"
            )],
            Self::SsoLoginRequired { profile, .. } => vec![format!("log in with `aws sso login --profile {profile}`")],
            Self::MfaUnavailable { .. } => line(
                "run the command in a terminal, with `interactiveMode: IfAvailable` in the kubeconfig user; the role's credentials are cached until they expire",
            ),
            Self::NoCredentials { .. } => vec![
                "select a profile with `--profile` or AWS_PROFILE, or create one with `aws configure` or `aws configure sso`".into(),
                "or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into(),
            ],
            Self::Expired { .. } => line("renew the credentials at their source; if they are new, check the local clock"),
            Self::ClockSkew { .. } => line("correct the local clock, for example with `timedatectl set-ntp true`"),
            Self::Rejected { code, .. } => refusal_hint(code).map(line).unwrap_or_default(),
            Self::ProcessNotFound { source, .. } => source.hints(),
            Self::Request { source, .. } => source.hint().map(line).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

fn refusal_hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "AccessDenied" => {
            "the role's trust policy must allow this identity, and this identity's policy must allow sts:AssumeRole"
        }
        "AccessDeniedException" => {
            "this identity's policy must allow ecr:GetAuthorizationToken, and for public registries \
             ecr-public:GetAuthorizationToken and sts:GetServiceBearerToken"
        }
        "ExpiredToken" | "ExpiredTokenException" => "renew the credentials at their source",
        "InvalidClientTokenId" | "UnrecognizedClientException" => {
            "the access key does not exist in this AWS partition: check AWS_ACCESS_KEY_ID and the profile"
        }
        "SignatureDoesNotMatch" => "the secret access key does not belong to the access key",
        "InvalidIdentityToken" | "IDPRejectedClaim" | "ExpiredIdentityToken" => {
            "STS rejected the web identity token: check that its file is renewed, and the role's identity provider"
        }
        "ForbiddenException" => "request access to this SSO role from the account administrator",
        _ => return None,
    })
}
