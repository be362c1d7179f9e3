//! The plugin that clients run: prints the address of the proxy.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::exec::{Cluster, EXEC_INFO_ENV, ExecCredentialStatus, ExecInfo};
use credlet_exec::{Env as _, Platform, SystemEnv, exec_replace};
use credlet_platform::hardening::protect_memory;
use credlet_plugin::{self as plugin, Failure, PluginRequest as _};
use credlet_proxy::client::{EXEC_PROXY_ENV, ExecProxies};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{
    ControlClient, DaemonLauncher, DetachableStdio, LogFile, ProxyServer, ServeError, harden_process,
};
use credlet_proxy::sign::Signer;

use super::daemon::{ProxyContext, end, program, runtime};
use super::{ProxySpec, SignerArgs, identity, pin_prompt, signer};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::printer::{plugin_stderr, plugin_stdout};

/// Time limit when the user may have to insert a card. Clients give interactive plugins 5 minutes; 10 s are left for
/// cleaning up.
const INTERACTIVE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5 * 60 - 10);

/// A bridge's clients hold no lock file, so the proxy must be a daemon.
pub(crate) const NO_FOREGROUND: &str = "--foreground cannot be used with a bridge, which requires a daemon";

pub(super) fn run(spec: ProxySpec, global: &GlobalArgs, args: &[OsString]) -> ExitCode {
    if spec.life.foreground {
        run_foreground(spec, global, args);
    }
    plugin::run(platform(), |info: ExecInfo| credential_status(&spec, global, args, &info).map_err(failure))
}

/// I/O of the plugin. The streams are not locked, because a daemon may take them over.
pub(super) fn platform() -> plugin::PluginIo<'static> {
    plugin::PluginIo {
        exec_info: SystemEnv.var(EXEC_INFO_ENV),
        // Stdin is left to the PIN prompt.
        stdin: Box::leak(Box::new(io::empty())),
        stdout: Box::leak(Box::new(plugin_stdout())),
        stderr: Box::leak(Box::new(plugin_stderr())),
    }
}

pub(super) fn failure(error: CliError) -> Failure {
    error.hints().iter().fold(Failure::new(error.message()), |failure, hint| failure.hint(hint))
}

/// Finds or starts the daemon and returns its credential.
fn credential_status(
    spec: &ProxySpec,
    global: &GlobalArgs,
    args: &[OsString],
    info: &ExecInfo,
) -> Result<ExecCredentialStatus, CliError> {
    let context = ProxyContext::of(info, global)?;
    let lock_file = client_lock_file(info, &context)?;
    let dir = context.dir(args, spec)?;
    let mut daemon_args = vec![OsString::from("proxy-daemon")];
    daemon_args.extend(args.iter().skip(1).cloned());
    let mut daemon = DaemonLauncher::new(dir.clone(), program()?, daemon_args);
    if !spec.signer.runs_programs() {
        daemon.inherit = identity::inherited(&spec.life.env);
    }
    if info.spec.interactive {
        daemon.timeout = INTERACTIVE_TIMEOUT;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::internal(format!("failed to start the async runtime: {error}")))?;
    runtime.block_on(async {
        let response = daemon.lease(lock_file.as_deref()).await.map_err(super::daemon::control_error)?;
        if let Some(prompt) = response.wants {
            unlock(&dir, &prompt, info.spec.interactive).await?;
        }
        Ok(response.status)
    })
}

/// The lock file of a client that supports exec proxies, or `None` for a bridge's port. Other clients cannot
/// use the output.
fn client_lock_file(info: &ExecInfo, context: &ProxyContext) -> Result<Option<PathBuf>, CliError> {
    check_enabled()?;
    match (&context.bridge, &info.spec.lock_file_path) {
        (Some(_), _) => Ok(None),
        (None, Some(path)) => Ok(Some(PathBuf::from(path))),
        (None, None) => Err(unsupported_client()),
    }
}

pub(super) fn check_enabled() -> Result<(), CliError> {
    let off = || CliError::usage(format!("exec proxies are disabled by {EXEC_PROXY_ENV} in the environment"));
    ExecProxies::from_env(&SystemEnv).map(drop).ok_or_else(off)
}

pub(super) fn unsupported_client() -> CliError {
    CliError::usage("this client does not support exec proxies (KEP-2718)")
        .hint("convert the kubeconfig with `credlet bridge convert`, or run one command with `credlet run -- COMMAND`")
}

/// Prompts for the PIN, if the client allows interaction.
pub(super) async fn unlock(dir: &ProxyDir, prompt: &str, interactive: bool) -> Result<(), CliError> {
    if !interactive {
        let name = dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let message = format!("the proxy is locked and needs the {}", prompt.trim_end_matches([' ', ':']));
        return Err(CliError::usage(message).hint(format!("run `credlet proxy unlock {}`", &name[..name.len().min(8)])));
    }
    // The PIN passes through this process.
    protect_memory().map_err(unprotected)?;
    let pin = pin_prompt::prompt_pin(prompt)?;
    ControlClient::new(dir)
        .map_err(super::daemon::control_error)?
        .unlock(&pin)
        .await
        .map_err(super::daemon::control_error)
}

/// `--foreground`: runs the proxy in this process until its client exits.
fn run_foreground(spec: ProxySpec, global: &GlobalArgs, args: &[OsString]) -> ! {
    // Descriptors that the client leaked. On systems that cannot list them, they stay open.
    let _ = credlet_exec::close_inherited_fds();
    let mut platform = platform();
    let cleaned = reexec_with_clean_env(&spec, args).map_err(failure);
    let started = cleaned.and_then(|()| ExecInfo::read(&mut platform)).and_then(|info| {
        let (server, runtime) = begin(spec, global, &info).map_err(failure)?;
        let text =
            info.encode_response(&server.credential_status().map_err(super::daemon::usage_error).map_err(failure)?)?;
        let stdio =
            DetachableStdio::prepare().map_err(|error| Failure::new("failed to open /dev/null").because(&error))?;
        let written = platform.stdout.write_all(text.as_bytes()).and_then(|()| platform.stdout.flush());
        written
            .and_then(|()| stdio.detach())
            .map_err(|error| Failure::new("failed to write the credential to stdout").because(&error))?;
        Ok((server, runtime))
    });
    match started {
        Ok((server, runtime)) => {
            tracing::info!(pid = std::process::id(), "proxy listening");
            runtime.block_on(server.run());
            end(0)
        }
        Err(failure) => {
            let _ = write!(io::stderr(), "{failure}");
            end(1)
        }
    }
}

/// Re-executes this program with the environment of a daemon: removing variables from a running process would leave
/// them in its memory.
fn reexec_with_clean_env(spec: &ProxySpec, args: &[OsString]) -> Result<(), CliError> {
    let inherit = identity::inherited(&spec.life.env);
    let (inherited, others): (Vec<_>, Vec<_>) =
        SystemEnv.vars().into_iter().partition(|(name, _)| inherit.allows(name));
    if others.is_empty() || spec.signer.runs_programs() {
        return Ok(());
    }
    let reason = exec_replace(&program()?, args, inherited);
    Err(CliError::internal(format!("failed to restart with a clean environment: {reason}")))
}

fn begin(
    spec: ProxySpec,
    global: &GlobalArgs,
    info: &ExecInfo,
) -> Result<(ProxyServer, tokio::runtime::Runtime), CliError> {
    harden_process().map_err(unprotected)?;
    let context = ProxyContext::of(info, global)?;
    if context.bridge.is_some() {
        return Err(CliError::usage(NO_FOREGROUND));
    }
    let lock_file = client_lock_file(info, &context)?;
    let system = Platform::system();
    ProxyDir::sweep(&SystemEnv, system.clock.now());
    let dir = ProxyDir::of_this_process(&SystemEnv).map_err(super::daemon::usage_error)?;
    // The log is removed with the directory.
    match LogFile::open(&dir) {
        Ok(file) => crate::log::install_in(file, global.verbosity),
        Err(_) => crate::log::install(global.verbosity),
    }
    let mut options = context.options(dir.clone(), &spec.life, &system)?;
    options.leases = lock_file.into_iter().collect();
    options.linger = std::time::Duration::ZERO;
    let signer = unlocked(spec.signer, &context.cluster, &system, global, info.spec.interactive)?;
    let runtime = runtime()?;
    match runtime.block_on(ProxyServer::bind(signer, options)) {
        // The client has exited, which is not an error.
        Err(ServeError::ClientGone) => end(0),
        bound => Ok((bound.map_err(super::daemon::usage_error)?, runtime)),
    }
}

fn unprotected(error: io::Error) -> CliError {
    CliError::internal(format!("failed to protect the memory of this process: {error}"))
}

/// Creates the signer in this process, and unlocks it if stdin is a terminal.
pub(crate) fn ready(
    args: SignerArgs,
    cluster: &Cluster,
    platform: &Platform,
    global: &GlobalArgs,
) -> Result<Arc<dyn Signer>, CliError> {
    unlocked(args, cluster, platform, global, platform.env.stdin_is_terminal())
}

fn unlocked(
    args: SignerArgs,
    cluster: &Cluster,
    platform: &Platform,
    global: &GlobalArgs,
    interactive: bool,
) -> Result<Arc<dyn Signer>, CliError> {
    let signer = signer(args, cluster, platform, global)?;
    if let Some(prompt) = signer.unlock_prompt() {
        let pin = if interactive { pin_prompt::prompt_pin(&prompt) } else { Err(not_interactive(&prompt)) };
        runtime()?.block_on(signer.unlock(pin?)).map_err(super::daemon::usage_error)?;
    }
    Ok(signer)
}

fn not_interactive(prompt: &str) -> CliError {
    CliError::usage(format!("cannot prompt without a terminal: {}", prompt.trim_end_matches([' ', ':'])))
        .hint("pass --pin-file, or run this in a terminal")
}
