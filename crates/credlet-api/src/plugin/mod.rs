//! The plugin author's side: a function becomes a correct plugin.
//!
//! [`main`] finds out what is asked, calls the function, and prints its answer in the version that was asked for. The
//! type of the function's argument chooses the protocol:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
//! use credlet_api::plugin::{self, Failure};
//!
//! fn main() -> ExitCode {
//!     plugin::main(|info: ExecInfo| {
//!         let token = std::fs::read_to_string("/run/secrets/token")
//!             .map_err(|error| Failure::new("no token for you").because(&error).hint("log in with `acme login`"))?;
//!         Ok(ExecCredentialStatus::token(token.trim()))
//!     })
//! }
//! ```
//!
//! # What a client sees
//! Standard output holds the answer and nothing else; standard error holds what a person should read; the exit code is
//! 0, or 1 (a [`Failure`]'s own code) and then standard output is empty.

mod exec;
mod failure;
mod image;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use zeroize::Zeroizing;

pub use self::failure::Failure;

/// A question that a plugin can be asked.
pub trait Question: Clone {
    /// What the plugin answers.
    type Answer;

    /// Finds out what is asked.
    ///
    /// # Errors
    /// When nobody asked, or not in a way that can be understood.
    fn read(world: &mut World<'_>) -> Result<Self, Failure>;

    /// The answer's bytes, in the version that was asked for.
    ///
    /// # Errors
    /// When no client would take this answer.
    fn write(&self, answer: &Self::Answer) -> Result<Zeroizing<String>, Failure>;
}

/// What a plugin can see and say. [`main`] uses the process's own; tests bring theirs.
pub struct World<'a> {
    /// The value of `KUBERNETES_EXEC_INFO`.
    pub exec_info: Option<OsString>,
    /// Standard input.
    pub stdin: &'a mut dyn Read,
    /// Standard output.
    pub stdout: &'a mut dyn Write,
    /// Standard error.
    pub stderr: &'a mut dyn Write,
}

/// The whole of a plugin's `main`.
pub fn main<Q: Question>(plugin: impl FnOnce(Q) -> Result<Q::Answer, Failure>) -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "a plugin's process belongs to it: its authors need not know core")]
    let exec_info = std::env::var_os(crate::exec::EXEC_INFO_ENV);
    run(
        World {
            exec_info,
            stdin: &mut io::stdin().lock(),
            stdout: &mut io::stdout().lock(),
            stderr: &mut io::stderr().lock(),
        },
        plugin,
    )
}

/// [`main`] in a world of the caller's making.
pub fn run<Q: Question>(mut world: World<'_>, plugin: impl FnOnce(Q) -> Result<Q::Answer, Failure>) -> ExitCode {
    let answered = Q::read(&mut world).and_then(|question| {
        let answer = plugin(question.clone())?;
        question.write(&answer)
    });
    let written = answered.and_then(|answer| {
        let written = world.stdout.write_all(answer.as_bytes()).and_then(|()| world.stdout.flush());
        written.map_err(|error| Failure::new("nobody took the answer").because(&error))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // When standard error is gone too, the exit code is all that is left to say.
            let _ = write!(world.stderr, "{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
