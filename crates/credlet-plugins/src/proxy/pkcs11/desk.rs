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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use credlet_api::Secret;
use credlet_core::{Clock as _, SystemClock};
use rustls::SignatureScheme;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::token::{Found, Token};
use super::{Options, Pkcs11Error};

/// Long enough to find the button; API servers give up a handshake after 10 s by default, others later.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often somebody looks whether the token is still there, while nothing else is to be done.
const LOOK: Duration = Duration::from_secs(2);

/// How long a token may take to say goodbye, with what it is doing in that moment: a TPM on a busy machine takes its time,
/// and nobody waits for us any more.
const FAREWELL: Duration = Duration::from_secs(10);

/// What is to be done, and until when somebody waits for it.
type Asked = (Job, Duration);

/// Whom the thread answers.
type Reply<T> = Sender<Result<T, Pkcs11Error>>;

/// Whoever opens the token.
type Opener = Box<dyn Fn(&Options) -> Result<(Token, Found), Pkcs11Error> + Send>;

enum Job {
    Sign { scheme: SignatureScheme, message: Vec<u8>, reply: Reply<Vec<u8>> },
    Find { pin: Option<Secret>, reply: Reply<Found> },
    Close { done: Sender<()> },
}

/// Where jobs are handed in.
pub(super) struct Desk {
    jobs: Mutex<Sender<Asked>>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Nothing is begun any more.
    closing: AtomicBool,
    lost: AtomicBool,
    losses: AtomicU64,
    /// The token that waits for a PIN.
    locked: Mutex<Option<String>>,
    signatures: AtomicU64,
    /// Since when the token is busy with one thing, by the monotonic clock.
    busy: Mutex<Option<Duration>>,
}

impl State {
    fn busy(&self) -> MutexGuard<'_, Option<Duration>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    /// Starts the thread, and gives what it found at first.
    pub(super) fn open(options: Options) -> Result<(Self, Result<Found, Pkcs11Error>), Pkcs11Error> {
        Self::with(options, Box::new(Token::open))
    }

    fn with(options: Options, open: Opener) -> Result<(Self, Result<Found, Pkcs11Error>), Pkcs11Error> {
        let (jobs, inbox) = mpsc::channel();
        let state = Arc::new(State::default());
        let clerk = Clerk { options, open, token: None, state: state.clone() };
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

    /// How often it was lost.
    pub(super) fn losses(&self) -> u64 {
        self.state.losses.load(Ordering::Relaxed)
    }

    /// The token that waits for a PIN.
    pub(super) fn locked(&self) -> Option<String> {
        self.state.locked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the token unless it is open, with this PIN or with the one of before.
    pub(super) fn find(&self, pin: Option<Secret>) -> Result<Found, Pkcs11Error> {
        self.ask(|reply| Job::Find { pin, reply })
    }

    /// For how long the token has been busy with what it is doing now.
    pub(super) fn busy_for(&self) -> Duration {
        self.state.busy().map(|since| now().saturating_sub(since)).unwrap_or_default()
    }

    pub(super) fn signatures(&self) -> u64 {
        self.state.signatures.load(Ordering::Relaxed)
    }

    /// Ends session and thread. A TPM keeps what it was told to load if nobody tells it otherwise, and some cards stay
    /// open for whoever comes next. What was asked for and not begun is not done any more: there may be a lot of it, and
    /// those who asked are gone, or will be.
    pub(super) fn close(&self) {
        self.state.closing.store(true, Ordering::Release);
        let (done, closed) = mpsc::channel();
        if self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send((Job::Close { done }, Duration::MAX)).is_ok() {
            // A library that hangs shall not keep us.
            if off_the_async_threads(|| closed.recv_timeout(FAREWELL)) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("the token did not let go in time, and may keep what was loaded into it");
            }
        }
    }

    fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, Pkcs11Error> {
        let (reply, answer) = mpsc::channel();
        let until = now() + PATIENCE;
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send((job(reply), until)).map_err(|_| gone())?;
        match off_the_async_threads(|| answer.recv_timeout(PATIENCE)) {
            Ok(answer) => answer,
            Err(_) if now() >= until => Err(Pkcs11Error::Slow { seconds: PATIENCE.as_secs() }),
            Err(_) => Err(gone()),
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

/// The real clock: a person's patience is real, as is that of those who wait here.
fn now() -> Duration {
    SystemClock::new().monotonic()
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
    open: Opener,
    token: Option<Token>,
    state: Arc<State>,
}

impl Clerk {
    fn work(mut self, inbox: &Receiver<Asked>) {
        loop {
            let (job, until) = match inbox.recv_timeout(LOOK) {
                Ok(asked) => asked,
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.state.closing.load(Ordering::Acquire) && !matches!(job, Job::Close { .. }) {
                continue;
            }
            // Nobody waits for it any more, and it might cost a person a touch.
            if now() >= until {
                continue;
            }
            *self.state.busy() = Some(now());
            // Who asked may have lost patience, here and below.
            match job {
                Job::Sign { scheme, message, reply } => {
                    let signed = self.sign(scheme, &message);
                    self.note(signed.as_ref().err());
                    let _ = reply.send(signed);
                }
                Job::Find { pin, reply } => {
                    // One that nobody has tried does not take the place of one that was good.
                    if self.token.is_none() {
                        self.options.pin = pin.or_else(|| self.options.pin.take());
                    }
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
            *self.state.busy() = None;
        }
    }

    /// Whether the token is still there. Nobody says so when it is pulled out.
    fn look(&mut self) {
        if self.token.as_ref().is_some_and(|token| !token.is_there()) {
            tracing::warn!("the token is gone");
            self.lose();
            self.state.lost.store(true, Ordering::Release);
        }
    }

    fn lose(&mut self) {
        if self.token.take().is_some() {
            self.state.losses.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A session that has died is opened again once: the card may be back already, or never have been away (some
    /// libraries end sessions when a machine wakes up).
    fn sign(&mut self, scheme: SignatureScheme, message: &[u8]) -> Result<Vec<u8>, Pkcs11Error> {
        let signed = match self.token()?.0.sign(scheme, message) {
            Err(error) if error.is_lost() => {
                tracing::warn!(%error, "the token's session is lost; opening another");
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

    fn note(&mut self, error: Option<&Pkcs11Error>) {
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

    /// The token, opened again if need be: the same one as before, with the PIN that was good before. A PIN that was
    /// refused is forgotten, so that it cannot be tried again.
    fn token(&mut self) -> Result<(&Token, &Found), Pkcs11Error> {
        if self.token.is_none() {
            let opened = (self.open)(&self.options);
            if matches!(opened, Err(Pkcs11Error::Pin { .. })) {
                self.options.pin = None;
            }
            let (token, found) = opened?;
            match &self.options.known {
                Some(_) => tracing::info!("the token is back"),
                None => self.options.known = Some(found),
            }
            self.token = Some(token);
        }
        self.token.as_ref().zip(self.options.known.as_ref()).ok_or_else(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Uri;
    use super::*;

    fn options() -> Options {
        Options::new(Uri::parse("pkcs11:token=t").unwrap(), "/no/module.so".into())
    }

    /// A token that takes no PIN, and tells those that it was asked with.
    fn stubborn() -> (Opener, Receiver<String>) {
        let (tried, tries) = mpsc::channel();
        let token = || "t".to_owned();
        let open = move |options: &Options| match &options.pin {
            None => Err(Pkcs11Error::NoPin { token: token() }),
            Some(pin) => {
                tried.send(pin.expose().to_owned()).unwrap();
                Err(Pkcs11Error::Pin { token: token(), reason: "does not take the PIN" })
            }
        };
        (Box::new(open), tries)
    }

    #[test]
    fn a_pin_that_was_refused_is_never_tried_again_by_itself() {
        let (open, tries) = stubborn();
        let mut options = options();
        options.pin = Some(Secret::new("1234"));
        let (desk, found) = Desk::with(options, open).unwrap();
        assert!(matches!(found, Err(Pkcs11Error::Pin { .. })));
        for _ in 0..3 {
            assert!(matches!(desk.find(None), Err(Pkcs11Error::NoPin { .. })));
            assert!(matches!(desk.sign(SignatureScheme::ED25519, b"x"), Err(Pkcs11Error::NoPin { .. })));
        }
        // A person may try another one, and that one is not tried twice either.
        assert!(matches!(desk.find(Some(Secret::new("0000"))), Err(Pkcs11Error::Pin { .. })));
        assert!(matches!(desk.find(None), Err(Pkcs11Error::NoPin { .. })));
        assert_eq!(desk.locked().as_deref(), Some("t"));
        drop(desk);
        assert_eq!(tries.iter().collect::<Vec<_>>(), ["1234", "0000"]);
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_begun() {
        let (open, tries) = stubborn();
        let (desk, _) = Desk::with(options(), open).unwrap();
        let (reply, answer) = mpsc::channel();
        let late = Job::Find { pin: Some(Secret::new("1234")), reply };
        desk.jobs.lock().unwrap().send((late, now())).unwrap();
        assert!(answer.recv().is_err());
        assert!(matches!(desk.find(Some(Secret::new("0000"))), Err(Pkcs11Error::Pin { .. })));
        drop(desk);
        assert_eq!(tries.iter().collect::<Vec<_>>(), ["0000"]);
    }

    #[test]
    fn a_desk_that_closes_begins_nothing_that_stands_in_line() {
        let (begun, begins) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let open = move |_: &Options| {
            begun.send(()).unwrap();
            let _ = wait.recv();
            Err(Pkcs11Error::NoPin { token: "t".to_owned() })
        };
        let (jobs, inbox) = mpsc::channel();
        let state = Arc::new(State::default());
        let clerk = Clerk { options: options(), open: Box::new(open), token: None, state: state.clone() };
        let working = thread::spawn(move || clerk.work(&inbox));
        let desk = Desk { jobs: Mutex::new(jobs), state };
        let replies = std::iter::repeat_with(|| {
            let (reply, answer) = mpsc::channel();
            desk.jobs.lock().unwrap().send((Job::Find { pin: None, reply }, Duration::MAX)).unwrap();
            answer
        });
        let replies: Vec<_> = replies.take(4).collect();
        begins.recv().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| desk.close());
            while !desk.state.closing.load(Ordering::Acquire) {
                thread::yield_now();
            }
            // After the first there may be nobody left to go on.
            replies.iter().for_each(|_| _ = go_on.send(()));
        });
        working.join().unwrap();
        assert_eq!(begins.try_iter().count(), 0, "none but the first was begun");
        assert!(replies[0].recv().unwrap().is_err() && replies[1..].iter().all(|reply| reply.recv().is_err()));
        assert!(desk.find(None).is_err());
    }

    #[test]
    fn a_token_that_takes_its_time_is_seen_to_be_busy_until_it_has_answered() {
        let (go_on, wait) = mpsc::channel::<()>();
        let open = move |_: &Options| {
            let _ = wait.recv();
            Err(Pkcs11Error::NoPin { token: "t".to_owned() })
        };
        let (jobs, inbox) = mpsc::channel();
        let state = Arc::new(State::default());
        let clerk = Clerk { options: options(), open: Box::new(open), token: None, state: state.clone() };
        thread::spawn(move || clerk.work(&inbox));
        let desk = Arc::new(Desk { jobs: Mutex::new(jobs), state });
        assert_eq!(desk.busy_for(), Duration::ZERO);
        let asking = thread::spawn({
            let desk = Arc::clone(&desk);
            move || desk.find(None).map(drop)
        });
        while desk.busy_for().is_zero() {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        assert!(asking.join().unwrap().is_err());
        while !desk.busy_for().is_zero() {
            thread::yield_now();
        }
    }
}
