use std::path::{Path, PathBuf};
use std::sync::Arc;

use credlet_core::{Env, look_up};
use jiff::Timestamp;

use super::calls::{self, Caller};
use super::key::{self, Input, Key};
use super::{Entry, Note, Options, Question, allow, directory};
use crate::store::{KernelKeyring, Keyring, Store};

/// The variable that switches the cache off, or has it ask anew.
const SWITCH: &str = "CREDLET_CACHE";

/// What the environment says about the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    On,
    /// `off`: the plugin is run as if there was no cache.
    Off,
    /// `refresh`: whatever is there is no good. A client that knows of a refusal can say so with this.
    Refresh,
    /// `ahead`: nobody waits for the answer; this is a process of our own.
    Ahead,
}

impl Mode {
    /// What makes another process of this program renew an entry.
    pub const AHEAD: (&'static str, &'static str) = (SWITCH, "ahead");

    fn of(env: &dyn Env) -> Self {
        match env.var(SWITCH).and_then(|mode| mode.into_string().ok()).as_deref() {
            Some("off") => Self::Off,
            Some("refresh") => Self::Refresh,
            Some("ahead") => Self::Ahead,
            _ => Self::On,
        }
    }
}

/// One call of the cache: who asks which plugin for what.
#[derive(Debug)]
pub struct Call {
    pub(super) options: Options,
    /// `None`: it cannot be understood, and the plugin should say so.
    pub(super) question: Option<Question>,
    pub(super) program: PathBuf,
    pub(super) mode: Mode,
    pub(super) key: Key,
    pub(super) dir: Option<PathBuf>,
    pub(super) caller: Caller,
    /// When it came, by the kernel's time.
    pub(super) came: u64,
    pub(super) keyring: Arc<dyn Keyring>,
    /// The entry that the caller does not want again: when it was made, and its digest.
    pub(super) refused: Option<(Timestamp, String)>,
    inputs: Vec<Input>,
}

impl Call {
    /// Finds all of it out.
    ///
    /// # Errors
    /// When there is no such plugin, or it is not allowed.
    pub fn new(options: Options, env: &dyn Env) -> Result<Self, Note> {
        let came = calls::kernel_time();
        let found = look_up(&options.command, env);
        allow::check(&options.command, &found, env).map_err(Note::NotAllowed)?;
        let program = found.map_err(Note::NotFound)?;
        let question = Question::read(env).ok();
        let inputs = question.as_ref().map(|question| key::inputs(&options, question, &program, env));
        let inputs = inputs.unwrap_or_default();
        Ok(Self {
            mode: Mode::of(env),
            key: Key::of(&inputs),
            dir: directory(options.cache_dir.as_ref(), env),
            caller: Caller::parent(),
            came,
            keyring: Arc::new(KernelKeyring),
            refused: None,
            options,
            question,
            program,
            inputs,
        })
    }

    /// With another keyring than the system's.
    #[must_use]
    pub fn keyring(self, keyring: Arc<dyn Keyring>) -> Self {
        Self { keyring, ..self }
    }

    /// The name of its entry.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What the name is made from.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Where the entry is kept. `None`: nowhere.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// What the environment says.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether nothing is to be read or kept.
    pub(super) fn is_uncached(&self) -> bool {
        self.question.is_none() || self.options.no_store || self.mode == Mode::Off
    }

    /// Whether the caller does not want what is there.
    pub(super) fn wants_new(&self) -> bool {
        self.options.force_refresh
            || self.mode == Mode::Refresh
            || self.question.as_ref().is_some_and(Question::was_refused)
    }

    /// The entry, whatever its age. A broken one, or one that others could have written, is none.
    pub(super) fn entry(&self, store: &Store) -> Option<Entry> {
        Entry::decode(&store.read(self.key.as_str()).ok()??, self.key.as_str())
    }
}
