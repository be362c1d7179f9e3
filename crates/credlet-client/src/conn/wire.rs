//! Where hyper's two halves of an HTTP/2 connection run: in one task, not in two.
//!
//! hyper puts a request on the connection in one future and reads from the connection in another. On two threads the
//! server's goodbye can be read in the middle of the first, which then reports it for a request that has already left
//! — in the same words as for one that the server will not look at. Nobody could tell whether it may be sent again.
//! In one task nothing is read between the two steps, and those words mean what they say.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::Executor;
use tokio::sync::oneshot;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The half that reads and writes.
pub(super) struct Wire(Option<Task>);

impl Wire {
    /// To be polled with the other half. It may be polled on after its end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(task) = &mut self.0 {
            std::task::ready!(task.as_mut().poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

/// An executor that keeps the first future for whoever asks for it, which is the one that reads and writes, and spawns
/// all others: one per request.
#[derive(Clone)]
pub(super) struct KeepWire(Arc<Mutex<Option<oneshot::Sender<Task>>>>);

impl KeepWire {
    pub(super) fn new() -> (Self, Kept) {
        let (keep, kept) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(keep)))), Kept(kept))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for KeepWire {
    fn execute(&self, future: F) {
        let keep = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match keep {
            // Nobody takes it any more: the connection is given up, and falls with its future.
            Some(keep) => drop(keep.send(Box::pin(future))),
            None => drop(tokio::spawn(future)),
        }
    }
}

/// What [`KeepWire`] keeps.
pub(super) struct Kept(oneshot::Receiver<Task>);

impl Kept {
    /// After the handshake.
    pub(super) fn wire(mut self) -> Wire {
        Wire(self.0.try_recv().ok())
    }
}

impl fmt::Debug for KeepWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeepWire")
    }
}
