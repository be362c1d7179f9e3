//! Runs hyper's two futures of an HTTP/2 connection in one task.
//!
//! hyper puts requests on the connection in one future and reads from it in another. If they run on two threads, a GOAWAY
//! can be read while a request is being put on the connection. hyper then reports the request, which was sent, with the
//! same error as a request that the server did not process, and a retry could send a write twice. In one task nothing is
//! read between these steps, and the error is reliable.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::Executor;
use tokio::sync::oneshot;

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// hyper's future that reads from and writes to the connection.
pub(super) struct H2IoTask(Option<BoxedTask>);

impl H2IoTask {
    /// Polls the future. May be called again after it has completed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(task) = &mut self.0 {
            std::task::ready!(task.as_mut().poll(cx));
            self.0 = None;
        }
        Poll::Ready(())
    }
}

/// Executor that hands the first future, the one that does the I/O, to [`CapturedTask`], and spawns all others (one per
/// request).
#[derive(Clone)]
pub(super) struct CaptureExecutor(Arc<Mutex<Option<oneshot::Sender<BoxedTask>>>>);

impl CaptureExecutor {
    pub(super) fn new() -> (Self, CapturedTask) {
        let (sender, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), CapturedTask(receiver))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for CaptureExecutor {
    fn execute(&self, future: F) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match sender {
            // If the receiver was dropped, the connection was abandoned and is dropped with its future.
            Some(sender) => drop(sender.send(Box::pin(future))),
            None => drop(tokio::spawn(future)),
        }
    }
}

/// Receives the future that a [`CaptureExecutor`] captured.
pub(super) struct CapturedTask(oneshot::Receiver<BoxedTask>);

impl CapturedTask {
    /// Returns the I/O future. To be called after the handshake.
    pub(super) fn into_io_task(mut self) -> H2IoTask {
        H2IoTask(self.0.try_recv().ok())
    }
}

impl fmt::Debug for CaptureExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CaptureExecutor")
    }
}
