use std::convert::Infallible;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use super::process_group::ProcessGroup;

/// Forwards the termination signals that this process receives to a child.
#[derive(Debug, Default)]
pub(super) struct SignalForwarder(Vec<(Signal, unix::Signal)>);

impl SignalForwarder {
    /// Installs handlers, so that the signals no longer terminate this process.
    pub(super) fn install() -> Self {
        let handlers = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].into_iter().filter_map(|signal| {
            let stream = crate::signals::signal(SignalKind::from_raw(signal.as_raw())).ok()?;
            Some((signal, stream))
        });
        Self(handlers.collect())
    }

    /// Forwards signals to `group` while polled.
    pub(super) async fn forward_to(mut self, group: &ProcessGroup) -> Infallible {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                while let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    group.signal(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}
