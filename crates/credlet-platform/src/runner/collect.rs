//! Reads the output of a child process until it exits, its output is complete, or a limit is exceeded.

use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin};
use zeroize::Zeroizing;

use super::running::OutputStreams;
use super::system::StderrSink;
use super::tail_buffer::TailBuffer;
use super::{OutputEndFn, RunError, RunLimits};

/// How many bytes of standard error are retained for error messages.
const STDERR_TAIL_LEN: usize = 4 << 10;

/// How long to read on after the process has exited. Its own output is already in the pipe; a background process that it
/// started may hold the pipe open indefinitely.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// How long to wait for an exit after the output is complete, before the process counts as one that keeps running. The
/// output of a process that fails within this time is not used.
const EXIT_GRACE: Duration = Duration::from_millis(100);

/// Output of a process, and its state when reading stopped.
pub(super) struct CollectedOutput {
    pub(super) state: ProcessState,
    pub(super) stdout: Zeroizing<Vec<u8>>,
    pub(super) stderr: Zeroizing<Vec<u8>>,
}

pub(super) enum ProcessState {
    Exited(ExitStatus),
    /// The output is complete and the process keeps running.
    Running(OutputStreams),
}

/// Reads both output streams of `child` while writing `input` to its standard input. Without `output_end`, returns only
/// after the process has exited.
pub(super) async fn collect_output(
    child: &mut Child,
    input: &[u8],
    limits: RunLimits,
    sink: &StderrSink,
    output_end: Option<OutputEndFn>,
) -> Result<CollectedOutput, RunError> {
    let RunLimits { timeout: limit, max_stdout } = limits;
    let (stdin, mut out, mut err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut stdout = Zeroizing::new(Vec::with_capacity(4 << 10));
    let mut tail = TailBuffer::new(STDERR_TAIL_LEN);
    let mut forwarded = sink.stream();
    let mut chunk = Zeroizing::new(vec![0; 16 << 10]);
    let mut status = None;
    let deadline = tokio::time::Instant::now() + limit;
    let mut timeout = pin!(tokio::time::sleep_until(deadline));
    let mut drain_timeout = pin!(tokio::time::sleep(Duration::MAX));
    let mut write_input = pin!(write_stdin(stdin, input));
    let mut writing = true;
    let mut stdout_end = None;
    let mut grace_over = pin!(tokio::time::sleep(Duration::MAX));

    let failed = |error: io::Error| RunError::Read { reason: error.into() };
    while status.is_none() || out.is_some() || err.is_some() {
        tokio::select! {
            () = &mut timeout => return Err(RunError::TimedOut { limit, stderr: tail.into_bytes() }),
            () = &mut write_input, if writing => writing = false,
            read = read_into(&mut out, &mut stdout, max_stdout), if out.is_some() => match read.map_err(failed)? {
                ReadOutcome::Data => {
                    if stdout_end.is_none() && let Some(end) = output_end.and_then(|find| find(&stdout)) {
                        stdout_end = Some(end);
                        grace_over.as_mut().reset(tokio::time::Instant::now() + EXIT_GRACE);
                    }
                    // Output after the document is ignored.
                    stdout.truncate(stdout_end.unwrap_or(usize::MAX));
                }
                ReadOutcome::Eof => out = None,
                ReadOutcome::LimitExceeded => {
                    return Err(RunError::OutputTooLarge { limit: max_stdout, stderr: tail.into_bytes() });
                }
            },
            read = read_chunk(&mut err, &mut chunk), if err.is_some() => match read.map_err(failed)? {
                0 => err = None,
                length => {
                    tail.push(&chunk[..length]);
                    // A blocked reader of our standard error must not extend the process's timeout.
                    let _ = tokio::time::timeout_at(deadline, forwarded.write(&chunk[..length])).await;
                }
            },
            exited = child.wait(), if status.is_none() => {
                status = Some(exited.map_err(failed)?);
                drain_timeout.as_mut().reset(tokio::time::Instant::now() + PIPE_DRAIN_TIMEOUT);
            }
            () = &mut drain_timeout, if status.is_some() => break,
            // If this task was delayed, the process may have exited without `child.wait()` having been polled.
            () = &mut grace_over, if stdout_end.is_some() && status.is_none() => match child.try_wait().map_err(failed)? {
                Some(exited) => {
                    status = Some(exited);
                    drain_timeout.as_mut().reset(tokio::time::Instant::now() + PIPE_DRAIN_TIMEOUT);
                }
                None => break,
            },
        }
    }
    let _ = tokio::time::timeout_at(deadline, forwarded.finish()).await;
    let state = match (status, stdout_end) {
        (Some(status), _) => ProcessState::Exited(status),
        (None, Some(_)) => ProcessState::Running(OutputStreams { out, err }),
        (None, None) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
    };
    Ok(CollectedOutput { state, stdout, stderr: tail.into_bytes() })
}

enum ReadOutcome {
    Data,
    Eof,
    LimitExceeded,
}

async fn read_into(
    stream: &mut Option<impl AsyncRead + Unpin>,
    into: &mut Zeroizing<Vec<u8>>,
    limit: usize,
) -> io::Result<ReadOutcome> {
    let Some(stream) = stream else { return Ok(ReadOutcome::Eof) };
    grow_zeroizing(into);
    Ok(match stream.read_buf(&mut **into).await? {
        0 => ReadOutcome::Eof,
        _ if into.len() > limit => ReadOutcome::LimitExceeded,
        _ => ReadOutcome::Data,
    })
}

/// Doubles the capacity of a full buffer. `Vec` would not zeroize the memory that it frees when it grows.
fn grow_zeroizing(bytes: &mut Zeroizing<Vec<u8>>) {
    if bytes.len() == bytes.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(bytes.capacity() * 2));
        larger.extend_from_slice(bytes);
        *bytes = larger;
    }
}

pub(super) async fn read_chunk(stream: &mut Option<impl AsyncRead + Unpin>, chunk: &mut [u8]) -> io::Result<usize> {
    match stream {
        Some(stream) => stream.read(chunk).await,
        None => Ok(0),
    }
}

/// Errors are ignored: a process need not read its standard input.
async fn write_stdin(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
}
