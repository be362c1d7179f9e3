use credlet_api::Fault;
use http::StatusCode;

use crate::conn;
use crate::kubeconfig::FileProblem;

/// Why an ID token that has expired could not be renewed. The variants stand in the order of who must act: whoever wrote
/// the kubeconfig, the person who has to log in, the network, the issuer's operator, nobody.
///
/// None of them holds a token, a client secret, or anything else that an issuer has sent.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OidcError {
    /// Without this setting nothing can be renewed.
    #[error(
        "the id-token cannot be renewed because `{0}` is missing in the user's auth-provider: log in again, \
         or use `exec` with kubelogin or with `credlet plugin oidc`"
    )]
    Missing(&'static str),
    /// Tokens do not travel in the clear.
    #[error(
        "the id-token cannot be renewed because `idp-issuer-url` in the user's auth-provider {0}: correct it, \
         or use `exec` with kubelogin or with `credlet plugin oidc`"
    )]
    Issuer(&'static str),
    /// The file with the issuer's certificate authority cannot be read.
    #[error("the file in `idp-certificate-authority` of the user's auth-provider {0}")]
    AuthorityFile(FileProblem),
    /// The issuer's certificate authority is none.
    #[error("`{field}` of the user's auth-provider {reason}")]
    Authority {
        /// Where it is.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The issuer does not know this client, or not by this secret.
    #[error(
        "the issuer {host} does not accept the client: correct `client-id` and `client-secret` in the user's auth-provider"
    )]
    Client {
        /// The issuer.
        host: String,
    },
    /// The refresh token has been used up, has been revoked or is too old.
    #[error(
        "the issuer {host} no longer accepts the `refresh-token` in the user's auth-provider: log in again, \
         or use `exec` with kubelogin or with `credlet plugin oidc`"
    )]
    RefreshToken {
        /// The issuer.
        host: String,
    },
    /// There was no answer.
    #[error("the issuer's {what} cannot be asked")]
    Connection {
        /// What was asked.
        what: Endpoint,
        /// Why not.
        #[source]
        source: conn::Error,
    },
    /// It took too long.
    #[error("the issuer did not renew the id-token within {} seconds", super::LIMIT.as_secs())]
    TimedOut,
    /// An answer that is no answer.
    #[error("the issuer's {what} at {host} answered {status}{}", .code.map(|code| format!(" ({code})")).unwrap_or_default())]
    Status {
        /// What was asked.
        what: Endpoint,
        /// Where that is.
        host: String,
        /// What it said.
        status: StatusCode,
        /// The issuer's reason, if it is one that the specification knows.
        code: Option<&'static str>,
    },
    /// It wants to send us elsewhere.
    #[error("the issuer's {what} at {host} sends us to another place, where no credential of ours may go")]
    Redirected {
        /// What was asked.
        what: Endpoint,
        /// Where that is.
        host: String,
    },
    /// Larger than any honest answer.
    #[error("the answer of the issuer's {what} at {host} is larger than 1 MiB")]
    TooLarge {
        /// What was asked.
        what: Endpoint,
        /// Where that is.
        host: String,
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
    /// The issuer does not say where tokens are to be had.
    #[error("the issuer {host} names a token_endpoint that {reason}")]
    TokenEndpoint {
        /// The issuer.
        host: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An answer without the one thing that is of use.
    #[error(
        "the issuer {host} renewed the login without an id_token: log in again with the scope `openid`, \
         or ask the issuer's operator for id_tokens on refresh"
    )]
    NoIdToken {
        /// The issuer.
        host: String,
    },
    /// The runtime in which the token was being renewed has been shut down.
    #[error("renewing the id-token was abandoned because its runtime was shut down")]
    Abandoned,
}

/// What an issuer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// The document in which it describes itself.
    Discovery,
    /// Tokens.
    Token,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Discovery => "discovery document",
            Self::Token => "token endpoint",
        })
    }
}
