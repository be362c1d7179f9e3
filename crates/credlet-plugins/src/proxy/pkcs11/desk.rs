//! The one thread that talks to the token.
//!
//! A PKCS#11 session does one thing at a time, and some libraries want always the same thread. So there is one, and who
//! wants a signature waits for it.
//!
//! The TLS stack asks for signatures by an ordinary function, in the middle of a handshake that an async thread drives.
//! Where the runtime can start another in its place, the one that waits says so first (`block_in_place`): the rest of the
//! proxy goes on while a card thinks or a person looks for the button. Where it cannot, everything waits; so the proxy has
//! one that can.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use credlet_api::Secret;
use rustls::SignatureScheme;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::token::{Found, Token};
use super::{Options, Pkcs11Error};

/// Long enough to find the button; API servers give up a handshake after 10 s by default, others later.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a token may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// Whom the thread answers.
type Reply<T> = Sender<Result<T, Pkcs11Error>>;

enum Job {
    Sign { scheme: SignatureScheme, message: Vec<u8>, reply: Reply<Vec<u8>> },
    Find { pin: Option<Secret>, reply: Reply<Found> },
    Close { done: Sender<()> },
}

/// Where jobs are handed in.
pub(super) struct Desk {
    jobs: Mutex<Sender<Job>>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    lost: AtomicBool,
    /// The token that waits for a PIN.
    locked: Mutex<Option<String>>,
    signatures: AtomicU64,
}

impl Desk {
    /// Starts the thread, and gives what it found at first.
    pub(super) fn open(options: Options) -> Result<(Self, Result<Found, Pkcs11Error>), Pkcs11Error> {
        let (jobs, inbox) = mpsc::channel();
        let state = Arc::new(State::default());
        let clerk = Clerk { options, first: None, token: None, state: state.clone() };
        let started = thread::Builder::new().name("credlet-pkcs11".to_owned()).spawn(move || clerk.work(&inbox));
        started.map_err(|_| gone())?;
        let desk = Self { jobs: Mutex::new(jobs), state };
        let found = desk.find(None);
        Ok((desk, found))
    }

    pub(super) fn sign(&self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let message = message.to_vec();
        self.ask(|reply| Job::Sign { scheme, message, reply })
    }

    /// Whether the token was gone when it was last needed.
    pub(super) fn is_lost(&self) -> bool {
        self.state.lost.load(Ordering::Acquire)
    }

    /// The token that waits for a PIN.
    pub(super) fn locked(&self) -> Option<String> {
        self.state.locked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the token unless it is open, with this PIN or with the one of before.
    pub(super) fn find(&self, pin: Option<Secret>) -> Result<Found, Pkcs11Error> {
        self.ask(|reply| Job::Find { pin, reply })
    }

    pub(super) fn signatures(&self) -> u64 {
        self.state.signatures.load(Ordering::Relaxed)
    }

    /// Ends session and thread. A TPM keeps what it was told to load if nobody tells it otherwise, and some cards stay
    /// open for whoever comes next.
    pub(super) fn close(&self) {
        let (done, closed) = mpsc::channel();
        if self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(Job::Close { done }).is_ok() {
            // A library that hangs shall not keep us.
            let _ = off_the_async_threads(|| closed.recv_timeout(FAREWELL));
        }
    }

    fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, Pkcs11Error> {
        let (reply, answer) = mpsc::channel();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job(reply)).map_err(|_| gone())?;
        match off_the_async_threads(|| answer.recv_timeout(PATIENCE)) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(Pkcs11Error::Slow { seconds: PATIENCE.as_secs() }),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.close();
    }
}

/// The thread has ended: it was closed, or the library brought it down.
fn gone() -> Pkcs11Error {
    Pkcs11Error::Failed { doing: "talking to the token", said: "its thread is gone".to_owned(), lost: false }
}

fn off_the_async_threads<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

/// Who works behind the desk, until it is closed.
struct Clerk {
    options: Options,
    /// What must be found again after the token was lost.
    first: Option<Found>,
    token: Option<Token>,
    state: Arc<State>,
}

impl Clerk {
    fn work(mut self, inbox: &Receiver<Job>) {
        while let Ok(job) = inbox.recv() {
            // Who asked may have lost patience, here and below.
            match job {
                Job::Sign { scheme, message, reply } => {
                    let signed = self.sign(scheme, &message);
                    self.note(signed.as_ref().err());
                    let _ = reply.send(signed);
                }
                Job::Find { pin, reply } => {
                    self.options.pin = pin.or_else(|| self.options.pin.take());
                    let found = self.token().map(|(_, found)| found.clone());
                    self.note(found.as_ref().err());
                    let _ = reply.send(found);
                }
                Job::Close { done } => {
                    self.token = None;
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// A session that has died is opened again once: the card may be back already, or never have been away (some
    /// libraries end sessions when a machine wakes up).
    fn sign(&mut self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let signed = match self.token()?.0.sign(scheme, message) {
            Err(error) if error.is_lost() => {
                tracing::warn!(%error, "the token's session is lost; opening another");
                self.token = None;
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

    fn note(&mut self, error: Option<&Pkcs11Error>) {
        if error.is_some_and(Pkcs11Error::is_lost) {
            self.token = None;
        }
        let locked = error.and_then(|error| match error {
            Pkcs11Error::NoPin { token } | Pkcs11Error::Pin { token, .. } => Some(token.clone()),
            _ => None,
        });
        *self.state.locked.lock().unwrap_or_else(PoisonError::into_inner) = locked;
        self.state.lost.store(self.token.is_none(), Ordering::Release);
    }

    /// The token, opened again if need be: the same one as before, with the PIN that was good before. A PIN that was
    /// refused is forgotten, so that it cannot be tried again.
    fn token(&mut self) -> Result<(&Token, &Found), Pkcs11Error> {
        if self.token.is_none() {
            let opened = Token::open(&self.options);
            if matches!(opened, Err(Pkcs11Error::Pin { .. })) {
                self.options.pin = None;
            }
            let (token, found) = opened?;
            match &self.first {
                Some(first) if found.serial != first.serial || found.chain != first.chain => {
                    return Err(Pkcs11Error::Other { token: first.token.clone() });
                }
                Some(_) => tracing::info!("the token is back"),
                None => self.first = Some(found),
            }
            self.token = Some(token);
        }
        self.token.as_ref().zip(self.first.as_ref()).ok_or_else(gone)
    }
}
