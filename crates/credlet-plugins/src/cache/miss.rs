//! The long way: one run of the plugin for all who wait.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::time::Duration;

use credlet_api::exec::proxy_answer;
use credlet_core::{Ended, Finished, Limits, Process, Program, RunError, Started, Stdin, World, harmless};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::failure::{self, Failure};
use super::life::Life;
use super::{Call, Entry, Mode, Note, Tally, answer, calls};
use crate::store::{Lock, Sealer, Store, StoreError};

/// kubectl sets plugins no limit, and a login in a browser takes its time. This one is for those that hang.
const LIMITS: Limits = Limits { time: Duration::from_secs(600), stdout: Limits::WITH_PERSON.stdout };

/// Whoever waits for a plugin waits for as long as it may take.
const LOCK_LIMIT: Duration = Duration::from_secs(610);

/// What nobody has touched for this long is of no use to anybody.
const FORGET: Duration = Duration::from_secs(2 * 24 * 3600);

/// What to print, and what to exit with.
pub struct Answer {
    /// The plugin's answer, in the version that was asked for.
    pub stdout: Zeroizing<Vec<u8>>,
    /// How the plugin ended.
    pub ended: Ended,
    /// The plugin, if it goes on: it is a proxy then (KEP-2718), and whoever prints the answer has to stay with it.
    pub process: Option<Process>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Answer {
    fn good(stdout: Zeroizing<Vec<u8>>) -> Self {
        Self { stdout, ended: Ended::Exited(0), process: None }
    }

    fn failed(code: u8) -> Self {
        Self { stdout: Zeroizing::default(), ended: Ended::Exited(code.into()), process: None }
    }
}

impl Call {
    /// Asks the plugin, or waits for somebody who does. Whatever is wrong with the cache, there is the plugin's answer.
    /// `tell` hears what a person should know.
    pub async fn miss(&mut self, world: &World, tell: &mut (dyn FnMut(Note) + Send)) -> Answer {
        if self.is_uncached() {
            return self.pass_on(world, tell).await;
        }
        let began = as_kept(world.clock.now());
        let Some(dir) = self.dir.clone() else {
            tell(Note::NoDirectory);
            return self.pass_on(world, tell).await;
        };
        let opened = Store::open(&dir).and_then(|store| {
            let lock = self.turn(&store, tell)?;
            Ok((store, lock))
        });
        let (store, _lock) = match opened {
            Ok((_, None)) => return Answer::good(Zeroizing::default()),
            Ok((store, Some(lock))) => (store, lock),
            Err(reason) => {
                tell(Note::NoCache { path: dir.display().to_string(), reason });
                return self.pass_on(world, tell).await;
            }
        };
        match self.meanwhile(&store, began, world, tell) {
            Some(answer) => answer,
            None => self.ask(&store, world, tell).await,
        }
    }

    /// Our turn. `None`: somebody else is at it already, and nobody waits for us.
    fn turn(&self, store: &Store, tell: &mut (dyn FnMut(Note) + Send)) -> Result<Option<Lock>, StoreError> {
        if self.mode == Mode::Ahead {
            return store.try_lock(self.key.as_str());
        }
        let command = self.options.command.clone();
        let lock = store.lock(self.key.as_str(), LOCK_LIMIT, |holder| tell(Note::Waiting { command, holder }));
        lock.map(Some)
    }

    /// What others have done while we waited.
    fn meanwhile(
        &mut self,
        store: &Store,
        began: Timestamp,
        world: &World,
        tell: &mut (dyn FnMut(Note) + Send),
    ) -> Option<Answer> {
        let now = world.clock.now();
        if let Some(entry) = self.entry(store).filter(|entry| entry.is_fresh(now)) {
            if self.mode == Mode::Ahead {
                let renewed = now < entry.life.ahead;
                return renewed.then(|| Answer::good(Zeroizing::default()));
            }
            let another = self.refused.as_ref().is_none_or(|(created, _)| *created != entry.life.created);
            let new = !self.wants_new() && another || entry.life.created >= began;
            if let Some(answer) = new.then(|| self.give(store, entry, now)).flatten() {
                return Some(Answer::good(answer));
            }
        }
        let failure = Failure::load(store, &self.key)?;
        let command = self.options.command.clone();
        if failure.at >= began {
            tell(Note::Shared { command, message: failure.message });
            return Some(Answer::failed(failure.code));
        }
        let person = world.env.stdin_is_terminal() || self.options.force_refresh;
        let left = failure.pause(now).filter(|_| !person)?;
        tell(Note::Paused { command, message: failure.message, left });
        Some(Answer::failed(failure.code))
    }

    /// Runs the plugin, and keeps what it says.
    async fn ask(&mut self, store: &Store, world: &World, tell: &mut (dyn FnMut(Note) + Send)) -> Answer {
        let started = world.clock.monotonic();
        let finished = match self.run(world).await {
            ControlFlow::Break(answer) => return answer,
            ControlFlow::Continue(finished) => finished,
        };
        let took = world.clock.monotonic().saturating_sub(started);
        let now = world.clock.now();
        match finished {
            Ok(finished) if finished.ended.is_success() => self.keep(store, finished, took, now, tell),
            finished => {
                let code = finished.as_ref().map_or(1, |finished| exit_code(finished.ended));
                let stderr = match &finished {
                    Ok(finished) => harmless(&finished.stderr, &finished.stdout, []),
                    Err(error) => format!("{}{error}", harmless(error.stderr(), &[], [])),
                };
                if self.mode != Mode::Ahead {
                    let before = Failure::load(store, &self.key).map_or(0, |failure| failure.count);
                    let login = failure::was_login(&self.options, took);
                    let count = before.saturating_add(1);
                    // Without it everybody asks for themselves, as without a cache.
                    let _ = Failure { at: now, count, code, login, message: stderr }.save(store, &self.key);
                }
                self.told(finished, tell)
            }
        }
    }

    fn keep(
        &self,
        store: &Store,
        finished: Finished,
        took: Duration,
        now: Timestamp,
        tell: &mut (dyn FnMut(Note) + Send),
    ) -> Answer {
        let read = self.question.as_ref().and_then(|question| answer::read(&finished.stdout, question));
        let Some(read) = read else { return Answer::good(finished.stdout) };
        // It worked: whoever failed before is forgotten. If not, the next success will do.
        let _ = Failure::forget(store, &self.key);
        let life = Life::new(now, read.end, &self.options).filter(|_| read.keepable);
        if let Some(life) = life {
            let (sealed, body) = self.sealed(store, &read.text, tell);
            let cluster = self.question.as_ref().and_then(|question| question.spec.cluster.as_ref());
            let entry = Entry {
                life,
                end: read.end,
                refused: self.refused.as_ref().map(|(_, digest)| digest.clone()),
                digest: read.digest,
                command: self.options.command.clone(),
                server: cluster.map(|cluster| cluster.server.clone()).unwrap_or_default(),
                sealed,
                body,
            };
            match store.write(self.key.as_str(), &entry.encode(&self.key)) {
                Ok(()) => {
                    let ahead = self.mode == Mode::Ahead;
                    // A number less does no harm.
                    let _ = Tally::ran(store, &self.key, took, ahead);
                    if !ahead {
                        // This answer is the first call for it. If that cannot be counted, no later one is served.
                        let _ = calls::count(store, self.key.as_str(), self.caller, self.came, life.created, now);
                    }
                }
                Err(reason) => tell(Note::NoCache { path: store.path().display().to_string(), reason }),
            }
            let oldest = now.checked_sub(FORGET.max(self.options.max_age * 2)).unwrap_or(Timestamp::MIN);
            // Somebody else will.
            let _ = store.sweep(oldest);
        }
        Answer::good(read.text)
    }

    fn sealed(&self, store: &Store, text: &[u8], tell: &mut (dyn FnMut(Note) + Send)) -> (bool, Zeroizing<Vec<u8>>) {
        if self.options.encrypt {
            let sealer = Sealer::new(self.keyring.clone(), store);
            match sealer.and_then(|sealer| sealer.seal(self.key.as_str().as_bytes(), text)) {
                Ok(sealed) => return (true, Zeroizing::new(sealed)),
                Err(reason) if store.is_first(Sealer::MISSING) => tell(Note::NotEncrypted(reason)),
                Err(_) => {}
            }
        }
        (false, Zeroizing::new(text.to_vec()))
    }

    /// As without a cache, but for the version.
    async fn pass_on(&self, world: &World, tell: &mut (dyn FnMut(Note) + Send)) -> Answer {
        let finished = match self.run(world).await {
            ControlFlow::Break(answer) => return answer,
            ControlFlow::Continue(finished) => finished,
        };
        let question = self.question.as_ref().filter(|_| self.mode != Mode::Off);
        match (&finished, question) {
            (Ok(finished), Some(question)) if finished.ended.is_success() => {
                let read = answer::read(&finished.stdout, question);
                Answer::good(read.map_or_else(|| finished.stdout.clone(), |read| read.text))
            }
            _ => self.told(finished, tell),
        }
    }

    fn told(&self, finished: Result<Finished, RunError>, tell: &mut (dyn FnMut(Note) + Send)) -> Answer {
        match finished {
            Ok(finished) => Answer { stdout: finished.stdout, ended: finished.ended, process: None },
            Err(reason) => {
                tell(Note::NotRun { command: self.options.command.clone(), reason });
                Answer::failed(1)
            }
        }
    }

    /// Runs the plugin to its end. If it stays, because it is a proxy, there is nothing to keep: where a proxy is good for
    /// others is for the plugin to say.
    async fn run(&self, world: &World) -> ControlFlow<Answer, Result<Finished, RunError>> {
        let interactive = match &self.question {
            Some(question) => question.spec.interactive,
            None => world.env.stdin_is_terminal(),
        };
        let ours = OsString::from(Mode::AHEAD.0);
        let env = world.env.vars().into_iter().filter(|(name, _)| self.mode == Mode::Off || *name != ours);
        let program = Program {
            path: self.program.clone(),
            args: self.options.args.clone(),
            env: env.collect(),
            stdin: if interactive && self.mode != Mode::Ahead { Stdin::Terminal } else { Stdin::Null },
            limits: LIMITS,
        };
        let knows_proxies = self.question.as_ref().is_some_and(|question| question.spec.lock_file_path.is_some());
        if !knows_proxies || self.mode == Mode::Ahead {
            return ControlFlow::Continue(world.runner.run(program).await);
        }
        match world.runner.start(program, proxy_answer).await {
            Ok(Started::Alive { answer, process }) => {
                ControlFlow::Break(Answer { process: Some(process), ..Answer::good(answer.stdout) })
            }
            Ok(Started::Ended(finished)) => ControlFlow::Continue(Ok(finished)),
            Err(error) => ControlFlow::Continue(Err(error)),
        }
    }
}

/// To the millisecond, as the files have it.
fn as_kept(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

fn exit_code(ended: Ended) -> u8 {
    match ended {
        Ended::Exited(code) => u8::try_from(code).unwrap_or(1),
        Ended::Killed(signal) => u8::try_from(128 + signal).unwrap_or(1),
    }
}
