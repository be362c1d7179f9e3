//! The proxy itself: as a daemon that all clients share, or as the plugin of one client.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use credlet_api::exec::{Cluster, EXEC_INFO_ENV, ExecInfo};
use credlet_client::conn::Crypto;
use credlet_core::{Env as _, SystemEnv, World};
use credlet_plugins::proxy::bridge::{Bridge, Door};
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{Daemon, DaemonError, Hop, LogFile, Loopback, Options, Server, Target};

use super::identity::{self, Known};
use super::{LifeArgs, Verb, Wanted, authority, authority_file, signer};
use crate::args::{Args, Command, Global};
use crate::error::{CliError, chain};

/// Whom a plugin works for.
#[derive(Debug)]
pub(super) struct Place {
    /// The API server.
    pub(super) cluster: Cluster,
    /// Set if the client reaches it by a port of this machine.
    pub(super) bridge: Option<(Bridge, Door)>,
}

impl Place {
    /// By what the client says, or else by the flags.
    pub(super) fn of(info: &ExecInfo, global: &Global) -> Result<Self, CliError> {
        if let Some(cluster) = &info.spec.cluster {
            let bridge = Bridge::of(cluster).map_err(|error| CliError::usage(error.to_string()))?;
            return Ok(match bridge {
                Some((bridge, door)) => Self { cluster: bridge.upstream.clone(), bridge: Some((bridge, door)) },
                None => Self { cluster: cluster.clone(), bridge: None },
            });
        }
        let server = global.server.clone().ok_or_else(|| {
            CliError::usage("which cluster is this proxy for?")
                .hint("write `provideClusterInfo: true` into the kubeconfig's exec section, or give --server")
        })?;
        let authority = match &global.certificate_authority {
            // The daemon, which reads it again, works in no directory of the client's.
            Some(path) if path.is_relative() => {
                let message = format!("--certificate-authority {}: it must be named by its full path", path.display());
                return Err(CliError::usage(message));
            }
            Some(path) => {
                std::fs::read(path).map_err(|error| CliError::usage(format!("{}: {}", path.display(), error.kind())))?
            }
            None => Vec::new(),
        };
        let cluster = Cluster {
            server,
            tls_server_name: global.tls_server_name.clone().unwrap_or_default(),
            insecure_skip_tls_verify: global.insecure_skip_tls_verify,
            certificate_authority_data: authority,
            proxy_url: global.proxy_url.clone().unwrap_or_default(),
            ..Cluster::default()
        };
        Ok(Self { cluster, bridge: None })
    }

    /// Where the one for these words is, or would be.
    pub(super) fn dir(&self, words: &[OsString], wanted: &Wanted) -> Result<Dir, CliError> {
        let program = program()?;
        let port = self.bridge.as_ref().map(|(bridge, door)| OsString::from(format!("{} {}", bridge.id, door.port)));
        let words: Vec<_> = words.iter().cloned().chain(port).collect();
        let known = if wanted.signer.runs_programs() { Known::ByAll } else { Known::By(&wanted.life.env) };
        let name = identity::name(&self.cluster, &words, known, &program, &SystemEnv);
        Dir::of_daemon(&SystemEnv, &name).map_err(told)
    }

    /// How it listens there.
    pub(super) fn options(&self, dir: Dir, life: &LifeArgs, world: &World) -> Result<Options, CliError> {
        let target = Target::new(&self.cluster, Crypto::aws_lc_rs(), world).map_err(told)?;
        let mut options = Options::new(target, dir);
        options.hop = if life.plain { Hop::Plain } else { Hop::Tls };
        (options.linger, options.max_life) = (life.linger, life.max_life);
        options.policies.push(life.policy());
        options.shared = life.group.shared(&*world.env);
        if let Some((bridge, Door { port, guise })) = &self.bridge {
            let file = authority_file(&bridge.id, &*world.env)?;
            let authority = authority(&file, *guise, &self.cluster.server, world.clock.now())?;
            options.loopback = Some(Loopback { port: *port, guise: *guise, authority: Arc::new(authority) });
        }
        Ok(options)
    }
}

/// This very program.
pub(super) fn program() -> Result<std::path::PathBuf, CliError> {
    std::env::current_exe().map_err(|error| CliError::usage(format!("this program cannot be found: {error}")))
}

pub(super) fn told(error: impl std::error::Error + 'static) -> CliError {
    CliError::usage(chain(&error))
}

/// The same, by one who asked a proxy something.
pub(super) fn asked(error: impl Into<DaemonError>) -> CliError {
    let error = error.into();
    let hints = error.hints();
    hints.into_iter().fold(told(error), CliError::hint)
}

/// One thread does the work: to hand a request from thread to thread costs as much as to pass it on. Whoever waits for a
/// security module hands the rest of the work to another thread for that time, which only this kind of runtime can.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.map_err(|error| CliError::usage(format!("this system has no means to wait for anything: {error}")))
}

/// Ends this process without the farewells of libraries. Those of a PKCS#11 module (SoftHSM's, for one) may wait for ever
/// for a thread that is gone, and the process with them.
pub(crate) fn end(code: u8) -> ! {
    signal_hook::low_level::exit(code.into())
}

/// `credlet proxy-daemon WORDS…`: be the daemon that the plugin with these words looks for. Nobody types this.
pub(crate) fn daemon(words: &[OsString]) -> ExitCode {
    // As the plugin was called.
    let words: Vec<_> = words.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, word)| word.clone()).collect();
    // Before anything that may start a thread.
    let Ok(beginning) = Daemon::begin() else { return ExitCode::FAILURE };
    let served = runtime().map(|runtime| {
        // Opening a token takes its time, and is done here: on the thread that waits for nothing else.
        let prepared = prepare(&words);
        let bound =
            prepared.and_then(|(signer, options)| runtime.block_on(Server::bind(signer, options)).map_err(told));
        (runtime, bound)
    });
    let (runtime, server) = match served {
        Ok((runtime, Ok(server))) => (runtime, server),
        Ok((_, Err(error))) | Err(error) => {
            let message = [error.message()].into_iter().chain(error.hints().iter().map(String::as_str));
            // Whoever waits is told; there is nobody else.
            let _ = beginning.failed(message.collect::<Vec<_>>().join("; "));
            end(error.exit() as u8);
        }
    };
    if beginning.ready().is_err() {
        return ExitCode::FAILURE;
    }
    tracing::info!(pid = std::process::id(), "the proxy listens");
    runtime.block_on(server.run());
    end(0)
}

fn prepare(words: &[OsString]) -> Result<(Arc<dyn credlet_proxy::sign::Signer>, Options), CliError> {
    let args = Args::try_parse_from(words).map_err(|error| CliError::usage(error.to_string()))?;
    let Command::Proxy(super::Args { verb: Verb::Sign(verb) }) = args.command else {
        return Err(CliError::usage("these words are no proxy's"));
    };
    let wanted = Wanted::from(verb);
    let world = World::system();
    let info = SystemEnv.var(EXEC_INFO_ENV).unwrap_or_default();
    let info = ExecInfo::load(info.as_encoded_bytes()).map_err(told)?;
    let place = Place::of(&info, &args.global)?;
    Dir::sweep(&SystemEnv, world.clock.now());
    let dir = place.dir(words, &wanted)?;
    // Without a log it serves all the same.
    if let Ok(file) = LogFile::open(&dir) {
        crate::log::install_in(file, args.global.verbosity);
    }
    let options = place.options(dir, &wanted.life, &world)?;
    Ok((signer(wanted.signer, &place.cluster, &world, &args.global)?, options))
}
