use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Somebody who counts: what happens to plugins, told as it happens.
///
/// It is called on the way of requests, so it should return at once.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Takes note.
    fn observe(&self, event: &Event);
}

/// What happens to a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The policy was asked.
    PolicyChecked {
        /// What it said.
        allowed: bool,
    },
    /// A run was tried, after the policy had allowed it.
    Called {
        /// How it went, in the words of client-go's metric.
        status: CallStatus,
        /// The exit code; -1 for a signal, 1 if there was no process.
        code: i32,
        /// How long it took.
        took: Duration,
    },
    /// That run, too, and of a plugin that answers with a proxy (KEP-2718) or did so when it last answered.
    CalledForProxy {
        /// How it went.
        status: CallStatus,
        /// The exit code, as above.
        code: i32,
    },
    /// A plugin's proxy could not be used: it could not be reached, is not who it should be, or its address is wrong.
    ProxyFailed,
    /// Somebody was given the last error, because it is too soon to run the plugin again.
    BackedOff,
    /// A request found its credential ready.
    Hit,
    /// A holder of credentials has a client certificate now, in place of any that it had before.
    CertificateHeld {
        /// Which holder, by a number that no other has.
        holder: u64,
        /// When the certificate's life ends.
        not_after: Timestamp,
        /// How long the certificate that it replaces had lived, if there was one.
        replaced_age: Option<SignedDuration>,
    },
    /// A holder has no client certificate any more, or is gone itself.
    CertificateDropped {
        /// Which holder.
        holder: u64,
    },
}

/// How a run went, in the words of client-go's metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallStatus {
    /// It exited with 0, whatever it printed.
    NoError,
    /// It exited otherwise, or was ended.
    PluginExecutionError,
    /// It is not there, or cannot be started.
    PluginNotFoundError,
    /// It was not started for a reason of our own.
    ClientInternalError,
}

impl CallStatus {
    /// As it stands in the label `call_status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoError => "no_error",
            Self::PluginExecutionError => "plugin_execution_error",
            Self::PluginNotFoundError => "plugin_not_found_error",
            Self::ClientInternalError => "client_internal_error",
        }
    }
}

/// Nobody counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn observe(&self, _: &Event) {}
}
