use std::fmt;
use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::{SetOnce, oneshot};
use zeroize::Zeroizing;

use super::ProcessExit;
use super::collect::read_chunk;
use super::process_group::ProcessGroup;
use super::system::{StderrSink, terminate_and_reap};

/// Handle to a process that keeps running after its output is complete. When the last clone is dropped, the process
/// receives SIGTERM and, after a grace period, SIGKILL.
///
/// Two handles are equal if they refer to the same process.
#[derive(Clone)]
pub struct RunningProcess {
    shared: Arc<Shared>,
}

struct Shared {
    exit: Arc<SetOnce<ProcessExit>>,
    /// Closes with the last handle, which makes the task terminate the process.
    _handle_alive: oneshot::Sender<()>,
}

impl RunningProcess {
    /// Spawns a task that drains the output of the process and reaps it.
    pub(super) fn supervise(child: Child, group: ProcessGroup, streams: OutputStreams, sink: StderrSink) -> Self {
        let exit = Arc::new(SetOnce::new());
        let (handle_alive, handles_dropped) = oneshot::channel();
        tokio::spawn(supervise(child, group.terminate_on_drop(), streams, sink, handles_dropped, Arc::clone(&exit)));
        Self { shared: Arc::new(Shared { exit, _handle_alive: handle_alive }) }
    }

    /// Returns how the process exited, or `None` while it is running.
    pub fn exit(&self) -> Option<ProcessExit> {
        self.shared.exit.get().copied()
    }

    /// Waits until the process exits, without terminating it.
    pub async fn wait(&self) -> ProcessExit {
        *self.shared.exit.wait().await
    }

    /// Drops this handle and waits until the process exits. It is terminated if this was the last handle.
    pub async fn terminate(self) -> ProcessExit {
        let exit = Arc::clone(&self.shared.exit);
        drop(self);
        *exit.wait().await
    }
}

impl PartialEq for RunningProcess {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for RunningProcess {}

impl fmt::Debug for RunningProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningProcess").field("exit", &self.exit()).finish()
    }
}

/// Output streams of a process that have not reached end of file.
pub(super) struct OutputStreams {
    pub(super) out: Option<ChildStdout>,
    pub(super) err: Option<ChildStderr>,
}

/// If the runtime drops this task, dropping `group` terminates the process.
async fn supervise(
    mut child: Child,
    group: ProcessGroup,
    streams: OutputStreams,
    sink: StderrSink,
    handles_dropped: oneshot::Receiver<()>,
    exit: Arc<SetOnce<ProcessExit>>,
) {
    let OutputStreams { mut out, mut err } = streams;
    let drain_output = async {
        // The process would block on a full pipe.
        tokio::join!(drain(&mut out, &StderrSink::Discard), drain(&mut err, &sink));
        std::future::pending::<()>().await;
    };
    let status = tokio::select! {
        () = drain_output => return,
        status = child.wait() => {
            group.release();
            status
        }
        _ = handles_dropped => {
            terminate_and_reap(&mut child, group).await;
            child.wait().await
        }
    };
    // `wait` does not fail for a child that was not reaped elsewhere.
    let status = status.map_or(ProcessExit::Killed(0), ProcessExit::from);
    tracing::debug!(%status, "long-running credential plugin exited");
    let _ = exit.set(status);
}

async fn drain(stream: &mut Option<impl AsyncRead + Unpin>, sink: &StderrSink) {
    // The output may contain secrets.
    let mut chunk = Zeroizing::new(vec![0; 4 << 10]);
    let mut forwarded = sink.stream();
    while let Ok(length @ 1..) = read_chunk(stream, &mut chunk).await {
        forwarded.write(&chunk[..length]).await;
    }
    forwarded.finish().await;
}
