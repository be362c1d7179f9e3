use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Receives plugin events, for metrics. Called in the request path, so it must not block.
pub trait PluginObserver: fmt::Debug + Send + Sync {
    /// Records an event.
    fn observe(&self, event: &PluginEvent);
}

/// An event in the life cycle of a plugin or of its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginEvent {
    /// The policy was checked.
    PolicyChecked {
        /// Whether the plugin may run.
        allowed: bool,
    },
    /// A run completed or failed, after the policy allowed it.
    Called {
        /// Status, as in client-go's metric.
        status: CallStatus,
        /// The exit code; -1 for a signal, 1 if there was no process.
        code: i32,
        /// Duration of the run.
        took: Duration,
    },
    /// The same run, if the plugin returns an exec proxy (KEP-2718) or did so in its last successful run.
    CalledForProxy {
        /// Status, as in client-go's metric.
        status: CallStatus,
        /// The exit code, as in [`Called`](Self::Called).
        code: i32,
    },
    /// An exec proxy was unreachable, failed authentication, or has an invalid address.
    ProxyFailed,
    /// A caller received the previous error because the backoff has not elapsed.
    BackedOff,
    /// A request used a cached credential.
    Hit,
    /// An authenticator obtained a client certificate, which replaces its previous one.
    CertificateHeld {
        /// Unique number of the authenticator.
        holder: u64,
        /// End of the validity period.
        not_after: Timestamp,
        /// Age of the replaced certificate, if there was one.
        replaced_age: Option<SignedDuration>,
    },
    /// An authenticator lost its client certificate or was dropped.
    CertificateDropped {
        /// Unique number of the authenticator.
        holder: u64,
    },
}

/// Label `call_status` of client-go's metric `rest_client_exec_plugin_call_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallStatus {
    /// Exited with code 0, whatever its output.
    NoError,
    /// Exited with another code, or was killed.
    PluginExecutionError,
    /// Not found, or failed to start.
    PluginNotFoundError,
    /// Not started because of a client error.
    ClientInternalError,
}

impl CallStatus {
    /// Returns the value of the label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoError => "no_error",
            Self::PluginExecutionError => "plugin_execution_error",
            Self::PluginNotFoundError => "plugin_not_found_error",
            Self::ClientInternalError => "client_internal_error",
        }
    }
}

/// Ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoopObserver;

impl PluginObserver for NoopObserver {
    fn observe(&self, _: &PluginEvent) {}
}
