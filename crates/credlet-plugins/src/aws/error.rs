use std::io;
use std::path::PathBuf;
use std::time::Duration;

use credlet_core::{LookupError, RunError};

use crate::web::WebError;

/// Why there are no credentials. The variants stand in the order of who must act: whoever wrote the configuration, the
/// person who has to log in, the machine's owner, the account's administrator, the network.
///
/// None of them holds a key, a token or a code. What AWS says is kept, without anything that looks like one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwsError {
    /// There is no such profile.
    #[error("there is no AWS profile `{name}` in {} or {}", config.display(), credentials.display())]
    NoProfile {
        /// What was asked for.
        name: String,
        /// The config file.
        config: PathBuf,
        /// The credentials file.
        credentials: PathBuf,
        /// What there is.
        others: Vec<String>,
    },
    /// A profile or a variable says something that cannot be.
    #[error("{place} {reason}")]
    Config {
        /// Which: ``the AWS profile `x` ``, or a variable.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read.
    #[error("{} cannot be read ({reason})", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        reason: io::ErrorKind,
    },
    /// A profile of `aws login`, whose store is awscli's own.
    #[error("the AWS profile `{profile}` uses `aws login`, which only awscli can read")]
    AwscliOnly {
        /// Which.
        profile: String,
    },
    /// The login of single sign-on is missing or over.
    #[error("the SSO login of the AWS profile `{profile}` {reason}")]
    LogIn {
        /// Whose.
        profile: String,
        /// How it ended.
        reason: &'static str,
    },
    /// A code is needed, and nobody can be asked for it.
    #[error("the role {role} needs an MFA code of {serial}, and nobody can be asked for it: {reason}")]
    NobodyToAsk {
        /// The role.
        role: String,
        /// The device.
        serial: String,
        /// Why not.
        reason: String,
    },
    /// Nothing was found anywhere.
    #[error("there are no AWS credentials: {}", tried.join("; "))]
    NoCredentials {
        /// Where was looked, with what was found.
        tried: Vec<String>,
    },
    /// They are no longer good.
    #[error("the AWS credentials of {origin} expired at {at}")]
    Expired {
        /// Where they come from.
        origin: String,
        /// When.
        at: jiff::Timestamp,
    },
    /// The program that should give credentials is not there.
    #[error("the credential_process of the AWS profile `{profile}` cannot be run")]
    NoProcess {
        /// Whose.
        profile: String,
        /// Why not.
        #[source]
        source: LookupError,
    },
    /// The program did not come to its end.
    #[error("the credential_process of the AWS profile `{profile}` did not finish")]
    Process {
        /// Whose.
        profile: String,
        /// Why not.
        #[source]
        source: RunError,
    },
    /// The program failed, or answered something else.
    #[error("the credential_process of the AWS profile `{profile}` {reason}")]
    ProcessAnswer {
        /// Whose.
        profile: String,
        /// What it did.
        reason: String,
    },
    /// Signatures carry the time, and AWS takes none that are minutes off.
    #[error("this machine's clock is {} min {} that of {host}", off.as_secs() / 60, if *ahead { "ahead of" } else { "behind" })]
    Clock {
        /// Who has another time.
        host: String,
        /// By how much.
        off: Duration,
        /// In which direction.
        ahead: bool,
    },
    /// AWS said no.
    #[error("{host} refused {what}: {code}{}", message.as_deref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Refused {
        /// Who.
        host: String,
        /// What was asked for.
        what: String,
        /// AWS's code, or the status.
        code: String,
        /// In AWS's words.
        message: Option<String>,
    },
    /// There was no answer, or none that makes sense.
    #[error("{what} cannot be had")]
    Web {
        /// What was asked for.
        what: String,
        /// Why not.
        #[source]
        source: WebError,
    },
}

impl AwsError {
    /// What the person can do about it, a line each.
    pub fn hints(&self) -> Vec<String> {
        let line = |text: &str| vec![text.to_owned()];
        match self {
            Self::NoProfile { others, .. } if others.is_empty() => line("make one with `aws configure`"),
            Self::NoProfile { others, .. } => vec![format!("there is: {}", others.join(", "))],
            Self::AwscliOnly { profile } => vec![format!(
                "give another profile `credential_process = aws configure export-credentials --profile {profile} --format process` and use that one"
            )],
            Self::LogIn { profile, .. } => vec![format!("log in with `aws sso login --profile {profile}`")],
            Self::NobodyToAsk { .. } => line(
                "run it from a terminal, and let the kubeconfig user say `interactiveMode: IfAvailable`; the answer is kept for as long as the role lasts",
            ),
            Self::NoCredentials { .. } => vec![
                "name a profile with `--profile` or AWS_PROFILE, or make one with `aws configure` or `aws configure sso`".into(),
                "or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into(),
            ],
            Self::Expired { .. } => line("get new ones where these came from; if they are new, see whether this machine's clock is right"),
            Self::Clock { .. } => line("set this machine's clock right, for example with `timedatectl set-ntp true`"),
            Self::Refused { code, .. } => refusal_hint(code).map(line).unwrap_or_default(),
            Self::Web { source, .. } => source.hint().map(line).unwrap_or_default(),
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
        "ExpiredToken" | "ExpiredTokenException" => "get new credentials where these came from",
        "InvalidClientTokenId" | "UnrecognizedClientException" => {
            "this access key does not exist, or not in this partition of AWS: see AWS_ACCESS_KEY_ID and the profile"
        }
        "SignatureDoesNotMatch" => "the secret access key does not belong to the access key",
        "InvalidIdentityToken" | "IDPRejectedClaim" | "ExpiredIdentityToken" => {
            "the token in the web identity file is not accepted: see whether it is renewed, and the role's identity provider"
        }
        "ForbiddenException" => "ask the account's administrator for this role in SSO",
        _ => return None,
    })
}
