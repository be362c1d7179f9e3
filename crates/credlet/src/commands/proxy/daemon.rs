//! The proxy process: a daemon that clients share, or the plugin of one client.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use credlet_api::exec::{Cluster, EXEC_INFO_ENV, ExecInfo};
use credlet_exec::{Env as _, Platform, SystemEnv};
use credlet_http::CryptoBackend;
use credlet_proxy::bridge::{BridgeEndpoint, BridgeRecord};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    DaemonError, LogFile, LoopbackOptions, ProxyServer, ServerOptions, SocketProtocol, StartupHandle, UpstreamTarget,
};

use super::identity::{self, IdentityScope};
use super::{LifetimeArgs, ProxySpec, Verb, authority, authority_file, read, signer};
use crate::args::{CliArgs, Command, GlobalArgs};
use crate::error::{CliError, chain};

/// Cluster of a plugin, and its bridge.
#[derive(Debug)]
pub(super) struct ProxyContext {
    /// The API server.
    pub(super) cluster: Cluster,
    /// Set if clients use a bridge's port.
    pub(super) bridge: Option<(BridgeRecord, BridgeEndpoint)>,
}

impl ProxyContext {
    /// Uses the cluster of the exec info, or that of the flags.
    pub(super) fn of(info: &ExecInfo, global: &GlobalArgs) -> Result<Self, CliError> {
        if let Some(cluster) = &info.spec.cluster {
            let bridge = BridgeRecord::from_cluster(cluster).map_err(|error| CliError::usage(error.to_string()))?;
            return Ok(match bridge {
                Some((bridge, endpoint)) => Self { cluster: bridge.upstream.clone(), bridge: Some((bridge, endpoint)) },
                None => Self { cluster: cluster.clone(), bridge: None },
            });
        }
        let server = global.server.clone().ok_or_else(|| {
            CliError::usage("missing cluster: the client passed no cluster info")
                .hint("set `provideClusterInfo: true` in the kubeconfig's exec section, or pass --server")
        })?;
        let authority = match &global.certificate_authority {
            // An absolute path, because the daemon has another working directory.
            Some(path) if path.is_relative() => {
                let message = format!("--certificate-authority {}: must be an absolute path", path.display());
                return Err(CliError::usage(message));
            }
            Some(path) => read(path)?.to_vec(),
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

    /// Opens the directory of the daemon for these arguments.
    pub(super) fn dir(&self, args: &[OsString], spec: &ProxySpec) -> Result<ProxyDir, CliError> {
        let program = program()?;
        let port =
            self.bridge.as_ref().map(|(bridge, endpoint)| OsString::from(format!("{} {}", bridge.id, endpoint.port)));
        let args: Vec<_> = args.iter().cloned().chain(port).collect();
        let known =
            if spec.signer.runs_programs() { IdentityScope::FullEnv } else { IdentityScope::Named(&spec.life.env) };
        let name = identity::name(&self.cluster, &args, known, &program, &SystemEnv);
        ProxyDir::of_daemon(&SystemEnv, &name).map_err(usage_error)
    }

    /// Server options for this location.
    pub(super) fn options(
        &self,
        dir: ProxyDir,
        life: &LifetimeArgs,
        platform: &Platform,
    ) -> Result<ServerOptions, CliError> {
        let target = UpstreamTarget::new(&self.cluster, CryptoBackend::aws_lc_rs(), platform).map_err(usage_error)?;
        let mut options = ServerOptions::new(target, dir);
        options.socket_protocol = if life.plain { SocketProtocol::Plain } else { SocketProtocol::Tls };
        (options.linger, options.max_life) = (life.linger, life.max_life);
        options.policies.push(life.policy());
        options.shared = life.group.shared(&*platform.env)?;
        if let Some((bridge, BridgeEndpoint { port, mode })) = &self.bridge {
            let file = authority_file(&bridge.id, &*platform.env)?;
            let authority = authority(&file, *mode, &self.cluster.server, platform.clock.now())?;
            options.loopback = Some(LoopbackOptions { port: *port, mode: *mode, authority: Arc::new(authority) });
        }
        Ok(options)
    }
}

/// Path of the current executable.
pub(super) fn program() -> Result<std::path::PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::internal(format!("failed to find the current executable: {error}")))
}

pub(super) fn usage_error(error: impl std::error::Error + 'static) -> CliError {
    CliError::usage(chain(&error))
}

/// Converts an error of the control socket, with its hints.
pub(super) fn control_error(error: impl Into<DaemonError>) -> CliError {
    let error = error.into();
    let hints = error.hints();
    let cli_error = match error {
        DaemonError::Start { .. } | DaemonError::Failed { .. } | DaemonError::TimedOut { .. } => {
            CliError::internal(chain(&error))
        }
        error => usage_error(error),
    };
    hints.into_iter().fold(cli_error, CliError::hint)
}

/// Uses one worker thread, because passing a request between threads costs as much as forwarding it. While it waits for
/// a PKCS#11 module, `block_in_place` moves the other tasks to another thread, which needs the multi-thread runtime.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    built.map_err(|error| CliError::internal(format!("failed to start the async runtime: {error}")))
}

/// Exits without running exit handlers. Those of PKCS#11 modules, such as SoftHSM's, can deadlock on threads that no
/// longer exist.
pub(crate) fn end(code: u8) -> ! {
    credlet_platform::process::exit_immediately(code.into())
}

/// `credlet proxy-daemon ARGS…` (internal): runs the daemon for the plugin with these arguments.
pub(crate) fn daemon(args: &[OsString]) -> ExitCode {
    // The arguments of the plugin.
    let args: Vec<_> = args.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, arg)| arg.clone()).collect();
    // Before anything that may start a thread.
    let Ok(startup) = StartupHandle::begin() else { return ExitCode::FAILURE };
    let served = runtime().map(|runtime| {
        // Opening a token is slow, and blocks only this thread.
        let prepared = prepare(&args);
        let bound = prepared
            .and_then(|(signer, options)| runtime.block_on(ProxyServer::bind(signer, options)).map_err(usage_error));
        (runtime, bound)
    });
    let (runtime, server) = match served {
        Ok((runtime, Ok(server))) => (runtime, server),
        Ok((_, Err(error))) | Err(error) => {
            let message = [error.message()].into_iter().chain(error.hints().iter().map(String::as_str));
            // The plugin may have exited.
            let _ = startup.failed(message.collect::<Vec<_>>().join("; "));
            end(error.exit() as u8);
        }
    };
    if startup.ready().is_err() {
        return ExitCode::FAILURE;
    }
    tracing::info!(pid = std::process::id(), "proxy listening");
    runtime.block_on(server.run());
    end(0)
}

fn prepare(argv: &[OsString]) -> Result<(Arc<dyn credlet_proxy::sign::Signer>, ServerOptions), CliError> {
    let args = CliArgs::try_parse_from(argv).map_err(|error| CliError::usage(error.to_string()))?;
    let Command::Proxy(super::Args { verb: Verb::Sign(verb) }) = args.command else {
        return Err(CliError::internal("internal error: not a `credlet proxy` command line"));
    };
    let spec = ProxySpec::from(verb);
    let platform = Platform::system();
    let info = SystemEnv.var(EXEC_INFO_ENV).unwrap_or_default();
    let info = ExecInfo::decode(info.as_encoded_bytes()).map_err(usage_error)?;
    let context = ProxyContext::of(&info, &args.global)?;
    ProxyDir::sweep(&SystemEnv, platform.clock.now());
    let dir = context.dir(argv, &spec)?;
    // A missing log is not fatal.
    if let Ok(file) = LogFile::open(&dir) {
        crate::log::install_in(file, args.global.verbosity);
    }
    let options = context.options(dir, &spec.life, &platform)?;
    Ok((signer(spec.signer, &context.cluster, &platform, &args.global)?, options))
}
