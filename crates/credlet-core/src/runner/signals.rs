use std::convert::Infallible;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use super::group::Group;

/// The signals that ask a process to end, caught so that they can be passed on.
#[derive(Debug, Default)]
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// From here on they do nothing to this process.
    pub(super) fn catch() -> Self {
        let caught = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].into_iter().filter_map(|signal| {
            let stream = unix::signal(SignalKind::from_raw(signal.as_raw())).ok()?;
            Some((signal, stream))
        });
        Self(caught.collect())
    }

    /// Passes them on for as long as this is polled.
    pub(super) async fn pass_on(mut self, group: &Group) -> Infallible {
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
