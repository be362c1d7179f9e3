//! The only thread that calls the PKCS#11 library.
//!
//! A PKCS#11 session runs one operation at a time, and some libraries must always be called from the same thread. [`TokenWorkerHandle`]
//! sends jobs to the [`TokenWorker`] on that thread and waits for the replies.
//!
//! rustls requests signatures through a synchronous function, in the middle of a handshake on an async thread. On a multi-thread runtime
//! the waiting thread calls `block_in_place`, so that other tasks continue while the token computes or waits for a touch. A
//! current-thread runtime blocks; the proxy therefore uses a multi-thread runtime.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use credlet_api::Secret;
use credlet_exec::{Clock as _, SystemClock};
use rustls::SignatureScheme;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::token::{KeyDetails, OpenToken};
use super::{Pkcs11Error, Pkcs11Options};

/// Time limit of a job, which includes a touch by the user. kube-apiserver aborts a handshake after 10 s by default, others later.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which an idle worker checks that the token is present.
const PRESENCE_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Time limit for the current job and closing the session together. A TPM on a busy machine is slow.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A job and its deadline by the monotonic clock.
type QueuedJob = (TokenJob, Duration);

type ReplySender<T> = Sender<Result<T, Pkcs11Error>>;

/// Opens the token. Tests replace it.
type TokenOpener = Box<dyn Fn(&Pkcs11Options) -> Result<(OpenToken, KeyDetails), Pkcs11Error> + Send>;

enum TokenJob {
    Sign { scheme: SignatureScheme, message: Vec<u8>, reply: ReplySender<Vec<u8>> },
    Find { pin: Option<Secret>, reply: ReplySender<KeyDetails> },
    Close { done: Sender<()> },
}

/// Sends jobs to the worker thread. Dropping it closes the token.
pub(super) struct TokenWorkerHandle {
    jobs: Mutex<Sender<QueuedJob>>,
    state: Arc<WorkerState>,
}

#[derive(Default)]
struct WorkerState {
    /// Set when no further job is started.
    closing: AtomicBool,
    lost: AtomicBool,
    losses: AtomicU64,
    /// Label of the token that requires a PIN.
    locked: Mutex<Option<String>>,
    signatures: AtomicU64,
    /// Start of the current job by the monotonic clock.
    busy: Mutex<Option<Duration>>,
}

impl WorkerState {
    fn busy(&self) -> MutexGuard<'_, Option<Duration>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenWorkerHandle {
    /// Starts the thread. Returns the handle and the result of the first attempt to open the token.
    pub(super) fn open(options: Pkcs11Options) -> Result<(Self, Result<KeyDetails, Pkcs11Error>), Pkcs11Error> {
        Self::with(options, Box::new(OpenToken::open))
    }

    fn with(options: Pkcs11Options, open: TokenOpener) -> Result<(Self, Result<KeyDetails, Pkcs11Error>), Pkcs11Error> {
        let (jobs, jobs_rx) = mpsc::channel();
        let state = Arc::new(WorkerState::default());
        let worker = TokenWorker { options, open, token: None, state: state.clone() };
        let started = thread::Builder::new().name("credlet-pkcs11".to_owned()).spawn(move || worker.run(&jobs_rx));
        started.map_err(|_| worker_exited())?;
        let worker = Self { jobs: Mutex::new(jobs), state };
        let found = worker.find(None);
        Ok((worker, found))
    }

    pub(super) fn sign(&self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let message = message.to_vec();
        self.request(|reply| TokenJob::Sign { scheme, message, reply })
    }

    /// Returns whether the token was not available when it was last used.
    pub(super) fn is_lost(&self) -> bool {
        self.state.lost.load(Ordering::Acquire)
    }

    /// Returns the number of times that the token was lost.
    pub(super) fn key_losses(&self) -> u64 {
        self.state.losses.load(Ordering::Relaxed)
    }

    /// Returns the label of the token if it requires a PIN.
    pub(super) fn locked(&self) -> Option<String> {
        self.state.locked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the token unless it is open, with this PIN or with the last accepted one.
    pub(super) fn find(&self, pin: Option<Secret>) -> Result<KeyDetails, Pkcs11Error> {
        self.request(|reply| TokenJob::Find { pin, reply })
    }

    /// Returns the time since the start of the current job.
    pub(super) fn busy_for(&self) -> Duration {
        self.state.busy().map(|since| now().saturating_sub(since)).unwrap_or_default()
    }

    pub(super) fn signature_count(&self) -> u64 {
        self.state.signatures.load(Ordering::Relaxed)
    }

    /// Closes the session and stops the thread. Without this a TPM keeps its loaded objects, and some cards stay logged in. Queued jobs
    /// are dropped.
    pub(super) fn close(&self) {
        self.state.closing.store(true, Ordering::Release);
        let (done, closed) = mpsc::channel();
        if self
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send((TokenJob::Close { done }, Duration::MAX))
            .is_ok()
        {
            // A library that hangs must not block the shutdown.
            if block_outside_runtime(|| closed.recv_timeout(CLOSE_TIMEOUT)) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("closing the token timed out; it may keep loaded objects");
            }
        }
    }

    fn request<T>(&self, job: impl FnOnce(ReplySender<T>) -> TokenJob) -> Result<T, Pkcs11Error> {
        let (reply, result) = mpsc::channel();
        let deadline = now() + REPLY_TIMEOUT;
        self.jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send((job(reply), deadline))
            .map_err(|_| worker_exited())?;
        match block_outside_runtime(|| result.recv_timeout(REPLY_TIMEOUT)) {
            Ok(result) => result,
            Err(_) if now() >= deadline => Err(Pkcs11Error::Slow { seconds: REPLY_TIMEOUT.as_secs() }),
            Err(_) => Err(worker_exited()),
        }
    }
}

impl Drop for TokenWorkerHandle {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the error for an exited thread: it was closed, or the library made it panic.
fn worker_exited() -> Pkcs11Error {
    let said = "the worker thread has exited".to_owned();
    Pkcs11Error::Failed { doing: "calling the PKCS#11 library", said, lost: false, contention: false }
}

fn now() -> Duration {
    SystemClock::new().monotonic()
}

fn block_outside_runtime<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

/// Runs jobs on the worker thread until it is closed.
struct TokenWorker {
    options: Pkcs11Options,
    open: TokenOpener,
    token: Option<OpenToken>,
    state: Arc<WorkerState>,
}

impl TokenWorker {
    fn run(mut self, jobs_rx: &Receiver<QueuedJob>) {
        loop {
            let (job, deadline) = match jobs_rx.recv_timeout(PRESENCE_CHECK_INTERVAL) {
                Ok(queued) => queued,
                Err(RecvTimeoutError::Timeout) => {
                    self.check_presence();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.state.closing.load(Ordering::Acquire) && !matches!(job, TokenJob::Close { .. }) {
                continue;
            }
            // The caller has timed out, and the job might require a touch.
            if now() >= deadline {
                continue;
            }
            *self.state.busy() = Some(now());
            // Sending a reply fails if the caller has timed out.
            match job {
                TokenJob::Sign { scheme, message, reply } => {
                    let signed = self.sign(scheme, &message);
                    self.record_result(signed.as_ref().err());
                    let _ = reply.send(signed);
                }
                TokenJob::Find { pin, reply } => {
                    // An untried PIN must not replace an accepted one.
                    if self.token.is_none() {
                        self.options.pin = pin.or_else(|| self.options.pin.take());
                    }
                    let found = self.token().map(|(_, found)| found.clone());
                    self.record_result(found.as_ref().err());
                    let _ = reply.send(found);
                }
                TokenJob::Close { done } => {
                    self.token = None;
                    let _ = done.send(());
                    return;
                }
            }
            *self.state.busy() = None;
        }
    }

    /// Checks that the token is present, because PKCS#11 libraries do not report its removal.
    fn check_presence(&mut self) {
        if self.token.as_ref().is_some_and(|token| !token.is_present()) {
            tracing::warn!("token removed");
            self.lose();
            self.state.lost.store(true, Ordering::Release);
        }
    }

    fn lose(&mut self) {
        if self.token.take().is_some() {
            self.state.losses.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Signs. A lost session is reopened once: the card may have been reinserted, and some libraries close sessions when the machine
    /// resumes from sleep.
    fn sign(&mut self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let signed = match self.token()?.0.sign(scheme, message) {
            Err(error) if error.is_lost() => {
                tracing::warn!(%error, "session of the token lost; reopening");
                self.lose();
                self.token()?.0.sign(scheme, message)
            }
            signed => signed,
        };
        if signed.is_ok() {
            let count = self.state.signatures.fetch_add(1, Ordering::Relaxed) + 1;
            tracing::debug!(count, ?scheme, "the token has signed");
        }
        signed
    }

    fn record_result(&mut self, error: Option<&Pkcs11Error>) {
        if error.is_some_and(Pkcs11Error::is_lost) {
            self.lose();
        }
        let locked = error.and_then(|error| match error {
            Pkcs11Error::NoPin { token } | Pkcs11Error::Pin { token, .. } => Some(token.clone()),
            _ => None,
        });
        *self.state.locked.lock().unwrap_or_else(PoisonError::into_inner) = locked;
        self.state.lost.store(self.token.is_none(), Ordering::Release);
    }

    /// Returns the token, reopened if necessary with the last accepted PIN. It must be the same token as before. A rejected PIN is removed
    /// from the options, so that it is not retried.
    fn token(&mut self) -> Result<(&OpenToken, &KeyDetails), Pkcs11Error> {
        if self.token.is_none() {
            let opened = (self.open)(&self.options);
            if matches!(opened, Err(Pkcs11Error::Pin { .. })) {
                self.options.pin = None;
            }
            let (token, found) = opened?;
            match &self.options.known {
                Some(_) => tracing::info!("token reopened"),
                None => self.options.known = Some(found),
            }
            self.token = Some(token);
        }
        self.token.as_ref().zip(self.options.known.as_ref()).ok_or_else(worker_exited)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pkcs11Uri;
    use super::*;

    fn options() -> Pkcs11Options {
        Pkcs11Options::new(Pkcs11Uri::parse("pkcs11:token=t").unwrap(), "/no/module.so".into())
    }

    /// Returns an opener that rejects every PIN, and a receiver of the PINs that were tried.
    fn rejecting_opener() -> (TokenOpener, Receiver<String>) {
        let (tried, tries) = mpsc::channel();
        let token = || "t".to_owned();
        let open = move |options: &Pkcs11Options| match &options.pin {
            None => Err(Pkcs11Error::NoPin { token: token() }),
            Some(pin) => {
                tried.send(pin.expose().to_owned()).unwrap();
                Err(Pkcs11Error::Pin { token: token(), reason: "does not accept the PIN" })
            }
        };
        (Box::new(open), tries)
    }

    #[test]
    fn rejected_pin_is_never_retried() {
        let (open, tries) = rejecting_opener();
        let mut options = options();
        options.pin = Some(Secret::new("1234"));
        let (worker, found) = TokenWorkerHandle::with(options, open).unwrap();
        assert!(matches!(found, Err(Pkcs11Error::Pin { .. })));
        for _ in 0..3 {
            assert!(matches!(worker.find(None), Err(Pkcs11Error::NoPin { .. })));
            assert!(matches!(worker.sign(SignatureScheme::ED25519, b"x"), Err(Pkcs11Error::NoPin { .. })));
        }
        // The user may enter another PIN, which is not retried either.
        assert!(matches!(worker.find(Some(Secret::new("0000"))), Err(Pkcs11Error::Pin { .. })));
        assert!(matches!(worker.find(None), Err(Pkcs11Error::NoPin { .. })));
        assert_eq!(worker.locked().as_deref(), Some("t"));
        drop(worker);
        assert_eq!(tries.iter().collect::<Vec<_>>(), ["1234", "0000"]);
    }

    #[test]
    fn skips_jobs_after_their_deadline() {
        let (open, tries) = rejecting_opener();
        let (worker, _) = TokenWorkerHandle::with(options(), open).unwrap();
        let (reply, answer) = mpsc::channel();
        let late = TokenJob::Find { pin: Some(Secret::new("1234")), reply };
        worker.jobs.lock().unwrap().send((late, now())).unwrap();
        assert!(answer.recv().is_err());
        assert!(matches!(worker.find(Some(Secret::new("0000"))), Err(Pkcs11Error::Pin { .. })));
        drop(worker);
        assert_eq!(tries.iter().collect::<Vec<_>>(), ["0000"]);
    }

    #[test]
    fn close_drops_queued_jobs() {
        let (begun, begins) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let open = move |_: &Pkcs11Options| {
            begun.send(()).unwrap();
            let _ = wait.recv();
            Err(Pkcs11Error::NoPin { token: "t".to_owned() })
        };
        let (jobs, jobs_rx) = mpsc::channel();
        let state = Arc::new(WorkerState::default());
        let worker = TokenWorker { options: options(), open: Box::new(open), token: None, state: state.clone() };
        let working = thread::spawn(move || worker.run(&jobs_rx));
        let worker = TokenWorkerHandle { jobs: Mutex::new(jobs), state };
        let replies = std::iter::repeat_with(|| {
            let (reply, answer) = mpsc::channel();
            worker.jobs.lock().unwrap().send((TokenJob::Find { pin: None, reply }, Duration::MAX)).unwrap();
            answer
        });
        let replies: Vec<_> = replies.take(4).collect();
        begins.recv().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| worker.close());
            while !worker.state.closing.load(Ordering::Acquire) {
                thread::yield_now();
            }
            // The worker may have exited after the first job.
            replies.iter().for_each(|_| _ = go_on.send(()));
        });
        working.join().unwrap();
        assert_eq!(begins.try_iter().count(), 0, "only the first job was started");
        assert!(replies[0].recv().unwrap().is_err() && replies[1..].iter().all(|reply| reply.recv().is_err()));
        assert!(worker.find(None).is_err());
    }

    #[test]
    fn reports_busy_until_the_token_responds() {
        let (go_on, wait) = mpsc::channel::<()>();
        let open = move |_: &Pkcs11Options| {
            let _ = wait.recv();
            Err(Pkcs11Error::NoPin { token: "t".to_owned() })
        };
        let (jobs, jobs_rx) = mpsc::channel();
        let state = Arc::new(WorkerState::default());
        let worker = TokenWorker { options: options(), open: Box::new(open), token: None, state: state.clone() };
        thread::spawn(move || worker.run(&jobs_rx));
        let worker = Arc::new(TokenWorkerHandle { jobs: Mutex::new(jobs), state });
        assert_eq!(worker.busy_for(), Duration::ZERO);
        let asking = thread::spawn({
            let worker = Arc::clone(&worker);
            move || worker.find(None).map(drop)
        });
        while worker.busy_for().is_zero() {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        assert!(asking.join().unwrap().is_err());
        while !worker.busy_for().is_zero() {
            thread::yield_now();
        }
    }
}
