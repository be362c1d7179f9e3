//! What a client runs: it is told where the proxy is.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::exec::{Cluster, EXEC_INFO_ENV, ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure, Question as _};
use credlet_core::{Env as _, SystemEnv, World, become_program};
use credlet_proxy::client::{ExecProxies, SWITCH};
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{Control, Daemon, LogFile, ServeError, Server, Stdio, close_to_others};
use credlet_proxy::sign::Signer;

use super::life::{Place, end, program, runtime};
use super::{SignerArgs, Wanted, identity, person, signer};
use crate::args::Global;
use crate::error::CliError;

/// A person may have to find a card. Clients give us 5 minutes, in the end of which we have to tidy up.
const WITH_PERSON: std::time::Duration = std::time::Duration::from_secs(5 * 60 - 10);

/// Behind a bridge there is nobody who would hold the lock.
pub(crate) const NO_FOREGROUND: &str = "a bridge is served by a daemon: leave out --foreground";

pub(super) fn run(wanted: Wanted, global: &Global, words: &[OsString]) -> ExitCode {
    if wanted.life.foreground {
        be_the_proxy(wanted, global, words);
    }
    plugin::run(world(), |info: ExecInfo| answer(&wanted, global, words, &info).map_err(failure))
}

/// The plugin's own view of the world. The answer goes out without a lock on any stream, for a daemon may take over.
pub(super) fn world() -> plugin::World<'static> {
    plugin::World {
        exec_info: SystemEnv.var(EXEC_INFO_ENV),
        // Left to the person, who may be asked something.
        stdin: Box::leak(Box::new(io::empty())),
        stdout: Box::leak(Box::new(io::stdout())),
        stderr: Box::leak(Box::new(io::stderr())),
    }
}

pub(super) fn failure(error: CliError) -> Failure {
    error.hints().iter().fold(Failure::new(error.message()), |failure, hint| failure.hint(hint))
}

/// Finds the daemon or starts it, and passes on what it says.
fn answer(
    wanted: &Wanted,
    global: &Global,
    words: &[OsString],
    info: &ExecInfo,
) -> Result<ExecCredentialStatus, CliError> {
    let place = Place::of(info, global)?;
    let lock_file = way_in(info, &place)?;
    let dir = place.dir(words, wanted)?;
    let mut daemon_words = vec![OsString::from("proxy-daemon")];
    daemon_words.extend(words.iter().skip(1).cloned());
    let mut daemon = Daemon::new(dir.clone(), program()?, daemon_words);
    if !wanted.signer.runs_programs() {
        daemon.inherit = identity::inherited(&wanted.life.env);
    }
    if info.spec.interactive {
        daemon.patience = WITH_PERSON;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::usage(format!("this system has no means to wait: {error}")))?;
    runtime.block_on(async {
        let answer = daemon.ask(lock_file.as_deref()).await.map_err(super::life::asked)?;
        if let Some(question) = answer.wants {
            unlock(&dir, &question, info.spec.interactive).await?;
        }
        Ok(answer.status)
    })
}

/// The lock of a client that knows sockets; nothing for one that comes by the bridge's port. Who has neither would not
/// understand our answer.
fn way_in(info: &ExecInfo, place: &Place) -> Result<Option<PathBuf>, CliError> {
    switched_on()?;
    match (&place.bridge, &info.spec.lock_file_path) {
        (Some(_), _) => Ok(None),
        (None, Some(path)) => Ok(Some(PathBuf::from(path))),
        (None, None) => Err(no_locks()),
    }
}

pub(super) fn switched_on() -> Result<(), CliError> {
    let off = || CliError::usage(format!("exec proxies are switched off by {SWITCH} in the environment"));
    ExecProxies::from_env(&SystemEnv).map(drop).ok_or_else(off)
}

pub(super) fn no_locks() -> CliError {
    CliError::usage("this client knows nothing of exec proxies (KEP-2718)")
        .hint("`credlet bridge convert` makes this kubeconfig work with it, `credlet run -- COMMAND` once")
}

/// Asks the person at the terminal, who is nobody unless the client says otherwise.
pub(super) async fn unlock(dir: &Dir, question: &str, interactive: bool) -> Result<(), CliError> {
    if !interactive {
        let name = dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let message = format!("the proxy waits for somebody: {}", question.trim_end_matches([' ', ':']));
        return Err(CliError::usage(message)
            .hint(format!("tell it with `credlet proxy unlock {}`", &name[..name.len().min(8)])));
    }
    let pin = person::ask(question)?;
    Control::of(dir).map_err(super::life::asked)?.unlock(&pin).await.map_err(super::life::asked)
}

/// `--foreground`: this process is the proxy, for as long as its client lives.
fn be_the_proxy(wanted: Wanted, global: &Global, words: &[OsString]) -> ! {
    // What its client let slip. Where nobody says what is open, it stays.
    let _ = credlet_core::close_inherited();
    let mut world = world();
    let scrubbed = scrub(&wanted, words).map_err(failure);
    let begun = scrubbed.and_then(|()| ExecInfo::read(&mut world)).and_then(|info| {
        let (server, runtime) = begin(wanted, global, &info).map_err(failure)?;
        let text = info.write(&server.answer().map_err(super::life::told).map_err(failure)?)?;
        let stdio = Stdio::prepare().map_err(|error| Failure::new("there is no null device").because(&error))?;
        let written = world.stdout.write_all(text.as_bytes()).and_then(|()| world.stdout.flush());
        written
            .and_then(|()| stdio.let_go())
            .map_err(|error| Failure::new("nobody took the answer").because(&error))?;
        Ok((server, runtime))
    });
    match begun {
        Ok((server, runtime)) => {
            tracing::info!(pid = std::process::id(), "the proxy listens");
            runtime.block_on(server.run());
            end(0)
        }
        Err(failure) => {
            let _ = write!(io::stderr(), "{failure}");
            end(1)
        }
    }
}

/// Begins anew, as the same process, without what a daemon would not get of the environment: to take variables away from
/// a process that runs leaves them in its memory.
fn scrub(wanted: &Wanted, words: &[OsString]) -> Result<(), CliError> {
    let inherit = identity::inherited(&wanted.life.env);
    let (kept, others): (Vec<_>, Vec<_>) = SystemEnv.vars().into_iter().partition(|(name, _)| inherit.passes(name));
    if others.is_empty() || wanted.signer.runs_programs() {
        return Ok(());
    }
    let reason = become_program(&program()?, words, kept);
    Err(CliError::usage(format!("this process cannot be made safe: {reason}")))
}

fn begin(wanted: Wanted, global: &Global, info: &ExecInfo) -> Result<(Server, tokio::runtime::Runtime), CliError> {
    let place = Place::of(info, global)?;
    if place.bridge.is_some() {
        return Err(CliError::usage(NO_FOREGROUND));
    }
    let lock_file = way_in(info, &place)?;
    let system = World::system();
    Dir::sweep(&SystemEnv, system.clock.now());
    let dir = Dir::of_this_process(&SystemEnv).map_err(super::life::told)?;
    // Whoever looks for it finds it for as long as the proxy lives; it goes with the directory.
    match LogFile::open(&dir) {
        Ok(file) => crate::log::install_in(file, global.verbosity),
        Err(_) => crate::log::install(global.verbosity),
    }
    let mut options = place.options(dir.clone(), &wanted.life, &system)?;
    options.leases = lock_file.into_iter().collect();
    options.linger = std::time::Duration::ZERO;
    close_to_others().map_err(|error| CliError::usage(format!("this process cannot be made safe: {error}")))?;
    let signer = unlocked(wanted.signer, &place.cluster, &system, global, info.spec.interactive)?;
    let runtime = runtime()?;
    match runtime.block_on(Server::bind(signer, options)) {
        // Nobody is left who could be told, and nothing went wrong.
        Err(ServeError::ClientGone) => end(0),
        bound => Ok((bound.map_err(super::life::told)?, runtime)),
    }
}

/// The signer of this very process, in whose place somebody may be asked.
pub(crate) fn ready(
    args: SignerArgs,
    cluster: &Cluster,
    world: &World,
    global: &Global,
) -> Result<Arc<dyn Signer>, CliError> {
    unlocked(args, cluster, world, global, world.env.stdin_is_terminal())
}

fn unlocked(
    args: SignerArgs,
    cluster: &Cluster,
    world: &World,
    global: &Global,
    interactive: bool,
) -> Result<Arc<dyn Signer>, CliError> {
    let signer = signer(args, cluster, world, global)?;
    if let Some(question) = signer.wants() {
        let answer = if interactive { person::ask(&question) } else { Err(nobody(&question)) };
        runtime()?.block_on(signer.unlock(answer?)).map_err(super::life::told)?;
    }
    Ok(signer)
}

fn nobody(question: &str) -> CliError {
    CliError::usage(format!("nobody can be asked: {}", question.trim_end_matches([' ', ':'])))
        .hint("name the PIN's file with --pin-file, or run this where there is a terminal")
}
