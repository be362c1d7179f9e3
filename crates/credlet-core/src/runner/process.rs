use std::fmt;
use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::{SetOnce, oneshot};
use zeroize::Zeroizing;

use super::Ended;
use super::collect::read_chunk;
use super::group::Group;
use super::system::{StderrSink, end, ended};

/// A program that goes on after its answer. Clones share it; when the last one is dropped it is asked to end, and made
/// to if it does not.
///
/// Two are equal if they are the same process.
#[derive(Clone)]
pub struct Process {
    shared: Arc<Shared>,
}

struct Shared {
    ended: Arc<SetOnce<Ended>>,
    /// Dropped when nobody needs the program any more.
    _needed: oneshot::Sender<()>,
}

impl Process {
    /// Leaves the program to a task of its own, which takes what it writes and reaps it.
    pub(super) fn attend(child: Child, group: Group, streams: Streams, sink: StderrSink) -> Self {
        let ended = Arc::new(SetOnce::new());
        let (needed, dropped) = oneshot::channel();
        tokio::spawn(attend(child, group.polite(), streams, sink, dropped, Arc::clone(&ended)));
        Self { shared: Arc::new(Shared { ended, _needed: needed }) }
    }

    /// How it ended. `None`: it has not.
    pub fn ended(&self) -> Option<Ended> {
        self.shared.ended.get().copied()
    }

    /// Returns when it has ended by itself.
    pub async fn wait(&self) -> Ended {
        *self.shared.ended.wait().await
    }

    /// Asks it to end, unless somebody else needs it, and returns when it has ended.
    pub async fn end(self) -> Ended {
        let ended = Arc::clone(&self.shared.ended);
        drop(self);
        *ended.wait().await
    }
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Process {}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("ended", &self.ended()).finish()
    }
}

/// What is left of a program's outputs.
pub(super) struct Streams {
    pub(super) out: Option<ChildStdout>,
    pub(super) err: Option<ChildStderr>,
}

/// Dropped with its runtime, it asks the program to end by the way of `group`.
async fn attend(
    mut child: Child,
    group: Group,
    streams: Streams,
    sink: StderrSink,
    dropped: oneshot::Receiver<()>,
    ended_as: Arc<SetOnce<Ended>>,
) {
    let Streams { mut out, mut err } = streams;
    let talk = async {
        // A full pipe would stop it.
        tokio::join!(drain(&mut out, &StderrSink::Discard), drain(&mut err, &sink));
        std::future::pending::<()>().await;
    };
    let status = tokio::select! {
        () = talk => return,
        status = child.wait() => {
            group.release();
            status
        }
        _ = dropped => {
            end(&mut child, group).await;
            child.wait().await
        }
    };
    // Without a status, which does not happen, it counts as killed.
    let how = status.map_or(Ended::Killed(0), ended);
    tracing::debug!(%how, "a credential plugin that had gone on has ended");
    let _ = ended_as.set(how);
}

async fn drain(stream: &mut Option<impl AsyncRead + Unpin>, sink: &StderrSink) {
    // Whatever a plugin writes may be secret.
    let mut chunk = Zeroizing::new(vec![0; 4 << 10]);
    while let Ok(length @ 1..) = read_chunk(stream, &mut chunk).await {
        sink.write(&chunk[..length]).await;
    }
}
