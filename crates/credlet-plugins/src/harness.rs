//! What all plugins do around their work.

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use clap::Parser;
use credlet_api::exec::{ApiVersion, ExecCredentialSpec};
use credlet_api::plugin::{self, Failure};
use credlet_core::{Env, World};

/// Reads the arguments. `Err`: help was asked for, or something is wrong with them; it has been told.
pub(crate) fn arguments<A: Parser>(args: Vec<OsString>, io: &mut plugin::World<'_>) -> Result<A, ExitCode> {
    A::try_parse_from(args).map_err(|error| {
        let (to, code) = if error.use_stderr() { (&mut io.stderr, 2) } else { (&mut io.stdout, 0) };
        // Nobody is there to be told if this fails.
        let _ = write!(to, "{}", error.render());
        ExitCode::from(code)
    })
}

/// Lets a plugin also answer when nobody has said in which version, in v1beta1: scripts run such programs so.
pub(crate) fn answer_anybody(world: &World, io: &mut plugin::World<'_>) {
    if io.exec_info.as_ref().is_none_or(|info| info.is_empty()) {
        let interactive = world.env.stdin_is_terminal();
        let spec = ExecCredentialSpec { interactive, ..ExecCredentialSpec::default() };
        io.exec_info = Some(spec.encode(ApiVersion::V1beta1).into());
    }
}

/// Runs to the end, on a runtime of one thread.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new("this machine gives no runtime").because(&error))?;
    let done = runtime.block_on(work);
    // Not waiting for a name that is still being looked up.
    runtime.shutdown_background();
    Ok(done)
}

/// A variable that is neither unset nor empty.
pub(crate) fn var(env: &dyn Env, name: &str) -> Option<String> {
    env.var(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}
