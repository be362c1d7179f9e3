use std::time::Duration;

use credlet_client::conn;
use http::{HeaderName, StatusCode};

/// Why there is no answer. The variants stand in the order of who must act: whoever wrote the configuration, the network,
/// the server's operator.
///
/// None of them holds a path, a query, a header, or anything else that was sent or came back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// What should be an address is none.
    #[error("the address of `{host}` cannot be used")]
    Address {
        /// As much of it as is harmless.
        host: String,
        /// What is wrong with it.
        #[source]
        source: conn::Error,
    },
    /// Path or query cannot be sent.
    #[error("the address at {host} has characters that no URL can have")]
    Request {
        /// The server.
        host: String,
    },
    /// A secret that cannot be sent.
    #[error("the value for the header `{name}` has characters that no header can have")]
    Header {
        /// Which.
        name: HeaderName,
    },
    /// A secret does not travel in the clear.
    #[error("{host} is asked for over http, which would show credentials to everybody on the way: use https")]
    Plain {
        /// The server.
        host: String,
    },
    /// There is no way to it, or it broke off.
    #[error(transparent)]
    Connection {
        /// Names the host.
        source: conn::Error,
    },
    /// It took too long.
    #[error("{host} did not answer within {} s", after.as_secs_f32())]
    TimedOut {
        /// The server.
        host: String,
        /// The limit.
        after: Duration,
    },
    /// It wants to send us elsewhere.
    #[error("{host} sends us to another place, where no credential of ours may go")]
    Redirected {
        /// The server.
        host: String,
    },
    /// Larger than any honest answer.
    #[error("the answer of {host} is larger than {} KiB", limit / 1024)]
    TooLarge {
        /// The server.
        host: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// An answer that nobody understands.
    #[error("{host} answered {} with something {fault}", status.as_u16())]
    Nonsense {
        /// The server.
        host: String,
        /// What it said before.
        status: StatusCode,
        /// What is wrong with it.
        fault: &'static str,
    },
}

impl WebError {
    /// What the person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Nonsense { .. } | Self::Redirected { .. } => {
                Some("a proxy or a login page of the network may have answered in its place")
            }
            Self::Connection { source: conn::Error::Certificate { .. } } => {
                Some("a proxy that opens TLS needs its certificate authority to be trusted here")
            }
            Self::Connection { .. } | Self::TimedOut { .. } => {
                Some("see whether it can be reached from here, and whether HTTPS_PROXY and NO_PROXY are right")
            }
            _ => None,
        }
    }
}
