//! Reading what a program writes, until it has ended or answered, or one of its limits has.

use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin};
use zeroize::Zeroizing;

use super::process::Streams;
use super::system::StderrSink;
use super::tail::Tail;
use super::{AnswerEnd, Limits, RunError};

/// How much of standard error is kept for the error message.
const TAIL: usize = 4 << 10;

/// How long we wait for the rest of the output once the program has ended. Nothing it wrote itself needs this time, it
/// is all in the pipe by then; a process it left behind may hold the pipe open for ever.
const LINGER: Duration = Duration::from_millis(200);

/// How long a program that has answered may take to end, to be known as one that is done: what it prints before it
/// fails is no answer.
const FAREWELL: Duration = Duration::from_millis(100);

/// What a program wrote, and how it ended.
pub(super) struct Collected {
    pub(super) status: Outcome,
    pub(super) stdout: Zeroizing<Vec<u8>>,
    pub(super) stderr: Zeroizing<Vec<u8>>,
}

pub(super) enum Outcome {
    Ended(ExitStatus),
    /// It has answered, and goes on.
    Alive(Streams),
}

/// Reads both streams of `child`, feeding it `input` meanwhile. With an `answer` to look for, `child` need not end.
pub(super) async fn collect(
    child: &mut Child,
    input: &[u8],
    limits: Limits,
    sink: &StderrSink,
    answer: Option<AnswerEnd>,
) -> Result<Collected, RunError> {
    let (stdin, mut out, mut err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut stdout = Zeroizing::new(Vec::with_capacity(4 << 10));
    let mut tail = Tail::new(TAIL);
    let mut chunk = Zeroizing::new(vec![0; 16 << 10]);
    let mut status = None;
    let deadline = tokio::time::Instant::now() + limits.time;
    let mut time_is_up = pin!(tokio::time::sleep_until(deadline));
    let mut lingered = pin!(tokio::time::sleep(Duration::MAX));
    let mut fed = pin!(feed(stdin, input));
    let mut feeding = true;
    let mut answered = None;
    let mut farewell = pin!(tokio::time::sleep(Duration::MAX));

    let failed = |error: io::Error| RunError::Read { reason: error.into() };
    while status.is_none() || out.is_some() || err.is_some() {
        tokio::select! {
            () = &mut time_is_up => return Err(RunError::TimedOut { limit: limits.time, stderr: tail.into_bytes() }),
            () = &mut fed, if feeding => feeding = false,
            read = read_some(&mut out, &mut stdout, limits.stdout), if out.is_some() => match read.map_err(failed)? {
                Read::Some => {
                    if answered.is_none() && let Some(end) = answer.and_then(|end| end(&stdout)) {
                        answered = Some(end);
                        farewell.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
                    }
                    // What follows the answer is nothing to us.
                    stdout.truncate(answered.unwrap_or(usize::MAX));
                }
                Read::End => out = None,
                Read::TooMuch => {
                    return Err(RunError::TooMuchOutput { limit: limits.stdout, stderr: tail.into_bytes() });
                }
            },
            read = read_chunk(&mut err, &mut chunk), if err.is_some() => match read.map_err(failed)? {
                0 => err = None,
                length => {
                    tail.push(&chunk[..length]);
                    // A reader of ours that has gone to sleep must not keep us beyond the program's time.
                    let _ = tokio::time::timeout_at(deadline, sink.write(&chunk[..length])).await;
                }
            },
            ended = child.wait(), if status.is_none() => {
                status = Some(ended.map_err(failed)?);
                lingered.as_mut().reset(tokio::time::Instant::now() + LINGER);
            }
            () = &mut lingered, if status.is_some() => break,
            // If we are late ourselves, it may have ended without our having heard of it.
            () = &mut farewell, if answered.is_some() && status.is_none() => match child.try_wait().map_err(failed)? {
                Some(ended) => {
                    status = Some(ended);
                    lingered.as_mut().reset(tokio::time::Instant::now() + LINGER);
                }
                None => break,
            },
        }
    }
    match (status, answered) {
        (Some(status), _) => Ok(Collected { status: Outcome::Ended(status), stdout, stderr: tail.into_bytes() }),
        (None, Some(_)) => {
            Ok(Collected { status: Outcome::Alive(Streams { out, err }), stdout, stderr: tail.into_bytes() })
        }
        (None, None) => Err(failed(io::ErrorKind::UnexpectedEof.into())),
    }
}

enum Read {
    Some,
    End,
    TooMuch,
}

async fn read_some(
    stream: &mut Option<impl AsyncRead + Unpin>,
    into: &mut Zeroizing<Vec<u8>>,
    limit: usize,
) -> io::Result<Read> {
    let Some(stream) = stream else { return Ok(Read::End) };
    grow(into);
    Ok(match stream.read_buf(&mut **into).await? {
        0 => Read::End,
        _ if into.len() > limit => Read::TooMuch,
        _ => Read::Some,
    })
}

/// A growing `Vec` leaves its old memory behind as it is; ours holds a secret.
fn grow(bytes: &mut Zeroizing<Vec<u8>>) {
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

/// A program need not read what it is given, so an error here is none.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
}
