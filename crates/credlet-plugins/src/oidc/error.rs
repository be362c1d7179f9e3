use std::path::PathBuf;
use std::time::Duration;

use credlet_api::Fault;
use credlet_api::plugin::Failure;
use http::StatusCode;
use jiff::Timestamp;

use super::verify::TokenError;
use crate::web::WebError;

/// Why there is no token. The variants stand in the order of who must act: whoever wrote the kubeconfig, the person who
/// logs in, the network, the issuer's operator, nobody.
///
/// None of them holds a token, a code, a client secret, or anything else that an issuer has sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing works without it.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A flag that makes no sense.
    #[error("`{flag}` {reason}")]
    Flag {
        /// Which.
        flag: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file that a flag names.
    #[error("the file in `{flag}` cannot be read ({})", path.display())]
    File {
        /// Which flag.
        flag: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Somebody else listens where the browser is to come back to.
    #[error("none of the addresses {tried} can be listened on, so the browser cannot come back")]
    Listen {
        /// All of them.
        tried: String,
        /// Why the last one cannot.
        #[source]
        source: std::io::Error,
    },
    /// The issuer does not know this client, or not by this secret.
    #[error("the issuer {host} does not accept the client")]
    Client {
        /// The issuer.
        host: String,
    },
    /// The issuer cannot do it.
    #[error("the issuer {issuer} has no {what}")]
    Unsupported {
        /// The issuer.
        issuer: String,
        /// What is missing.
        what: Endpoint,
    },
    /// A person said no.
    #[error("the login was refused at the issuer{}", .code.map(|code| format!(" ({code})")).unwrap_or_default())]
    Denied {
        /// The issuer's reason, if it is one that a specification knows.
        code: Option<&'static str>,
    },
    /// Nobody came back.
    #[error("nobody logged in within {} s", after.as_secs())]
    Unanswered {
        /// How long was waited.
        after: Duration,
    },
    /// The device's code is too old.
    #[error("the code was not entered in time")]
    CodeExpired,
    /// A login went wrong a short while ago, and another browser window would not help.
    #[error("the last login did not succeed ({why}), and no other browser window is opened before {until}")]
    Patience {
        /// What went wrong.
        why: String,
        /// Until when.
        until: Timestamp,
    },
    /// The one whom this run waited for did not get a token either.
    #[error("another run was logging in meanwhile, and did not succeed ({why})")]
    Shared {
        /// What went wrong.
        why: String,
    },
    /// Somebody else is logging in, and takes too long.
    #[error("{0}")]
    Busy(String),
    /// What came back is not the answer to what was asked.
    #[error("the browser came back with {0}")]
    Callback(&'static str),
    /// There is no answer.
    #[error("the issuer's {what} cannot be asked")]
    Web {
        /// What was asked.
        what: Endpoint,
        /// Why not.
        #[source]
        source: WebError,
    },
    /// An answer that is no answer.
    #[error("the issuer's {what} at {host} answered {status}{}", .code.map(|code| format!(" ({code})")).unwrap_or_default())]
    Status {
        /// What was asked.
        what: Endpoint,
        /// Where that is.
        host: String,
        /// What it said.
        status: StatusCode,
        /// The issuer's reason, if it is one that a specification knows.
        code: Option<&'static str>,
    },
    /// An answer that nobody understands.
    #[error("the answer of the issuer's {what} at {host} {fault}")]
    Nonsense {
        /// What was asked.
        what: Endpoint,
        /// Where that is.
        host: String,
        /// What is wrong with it.
        fault: Fault,
    },
    /// It is somebody else, or thinks so.
    #[error("the issuer at {expected} calls itself `{found}`")]
    Issuer {
        /// As the flags have it.
        expected: String,
        /// As it says itself.
        found: String,
    },
    /// The issuer refused what it had given.
    #[error("the issuer {host} did not accept the {what}: it is too old, was used before, or has been revoked")]
    Grant {
        /// The issuer.
        host: String,
        /// A code or a refresh token.
        what: &'static str,
    },
    /// An answer without the one thing that is of use.
    #[error("the issuer {host} gave no {what}")]
    NoToken {
        /// The issuer.
        host: String,
        /// What is missing.
        what: &'static str,
    },
    /// A token that is not believed.
    #[error("the issuer's token is not accepted")]
    Token(#[from] TokenError),
    /// There is no login to end.
    #[error("there is no login with these settings")]
    NotLoggedIn,
    /// This machine has no random numbers.
    #[error("this machine gives no random numbers")]
    NoRandom,
}

impl Error {
    /// What the person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Listen { .. } => "name a free one with --listen-address, or use --grant-type=device-code",
            Self::Client { .. } => {
                "correct --oidc-client-id and --oidc-client-secret, or ask the issuer's operator whether this client may do it"
            }
            Self::Unsupported { .. } => "choose another --grant-type",
            Self::Patience { .. } | Self::Shared { .. } => {
                "run `credlet plugin oidc login` with the same flags in a terminal"
            }
            Self::Unanswered { .. } => "run it again and follow the browser, or use --grant-type=device-code",
            Self::Denied { .. } | Self::CodeExpired | Self::Grant { .. } => "log in again",
            Self::Callback(_) => "log in again, in one browser window only",
            Self::Issuer { .. } => "correct --oidc-issuer-url: it must be written exactly as the issuer writes it",
            Self::NoToken { what: "id_token", .. } => {
                "ask the issuer's operator whether this client may have the scope `openid`"
            }
            Self::Nonsense { .. } => "a proxy or a login page of the network may have answered in its place",
            Self::Web { source, .. } => return source.hint(),
            Self::Token(error) => error.hint(),
            _ => return None,
        })
    }

    /// In one line with its causes, for those who cannot have the error itself.
    pub fn story(&self) -> String {
        let mut story = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            story.push_str(": ");
            story.push_str(&error.to_string());
            cause = error.source();
        }
        story
    }
}

/// As a plugin tells it.
pub fn failure(error: &Error) -> Failure {
    let failure = Failure::new(error.story());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What an issuer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// The document in which it describes itself.
    Discovery,
    /// Its public keys.
    Keys,
    /// The page on which people log in.
    Authorization,
    /// Tokens.
    Token,
    /// Codes for devices without a browser.
    Device,
    /// The place to give tokens back.
    Revocation,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Discovery => "discovery document",
            Self::Keys => "list of public keys",
            Self::Authorization => "authorization endpoint",
            Self::Token => "token endpoint",
            Self::Device => "device authorization endpoint",
            Self::Revocation => "revocation endpoint",
        })
    }
}
