//! `credlet run`: runs one command behind a temporary proxy.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::exec::{Cluster, EXEC_INFO_ENV, ExecConfig, ExecCredentialSpec, ExecCredentialStatus};
use credlet_client::authenticator::ExecSettings;
use credlet_exec::{
    Env as _, EnvInheritance, FixedEnv, ForegroundChild, NoopObserver, OsError, Platform, SystemEnv, build_env,
    find_program, is_plugin_run, send_hangup, spawn_foreground, terminate_process,
};
use credlet_http::CryptoBackend;
use credlet_kubeconfig::{HeaderCredential, ResolvedConfig};
use credlet_platform::fs::create_private_file;
use credlet_platform::hardening::{self, with_core_limit};
use credlet_platform::process::exit_by_signal;
use credlet_platform::{ProcessExit, close_fds, exec_replace, inheritable_fds};
use credlet_proxy::bridge::{BridgeRecord, local};
use credlet_proxy::client::{EXEC_PROXY_ENV, ExecProxies};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::policy::Policy;
use credlet_proxy::server::{
    BridgeMode, ControlClient, LoopbackOptions, ProxyCa, ProxyServer, ServerOptions, UpstreamTarget,
};
use credlet_proxy::sign::{ExecSigner, Signer};

mod signals;
mod static_signer;

use self::signals::{ForwardedSignal, SignalHandlers};
use super::bridge;
use super::proxy::{self, PolicyArgs};
use crate::args::GlobalArgs;
use crate::error::{CliError, chain};
use crate::exit::ExitStatus;

/// Run a command behind a temporary proxy
///
/// The command gets a KUBECONFIG for a local port. The proxy authenticates its requests, so the command never sees the
/// user's plugin, key or token. All files are removed when the command exits.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// Command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  credlet run -- kubectl get pods
  credlet run --context prod -- helm upgrade web ./chart
  credlet run --read-only -- k9s

It ends with the command's exit code.";

/// Drain timeout for connections that the command left open.
const DRAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// Time limit for the shutdown of the proxy.
const SHUTDOWN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) fn run(args: Args, global: &GlobalArgs) -> ! {
    let policy = args.policy.policy("the arguments of `credlet run`");
    let mut command = args.command.into_iter();
    let program = command.next().unwrap_or_default();
    run_child(&ChildCommand { program, args: command.collect(), context_var: None, policy }, global)
}

/// Command to run behind a temporary proxy.
#[derive(Debug)]
pub(super) struct ChildCommand {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// Variable to set to the name of the context.
    pub(super) context_var: Option<&'static str>,
    pub(super) policy: Policy,
}

/// Runs the command and exits with its status.
pub(super) fn run_child(task: &ChildCommand, global: &GlobalArgs) -> ! {
    match served(task, global) {
        Ok(ProcessExit::Exited(code)) => proxy::end(u8::try_from(code).unwrap_or(u8::MAX)),
        Ok(ProcessExit::Killed(signal)) => exit_by_signal(signal),
        Err(error) => {
            error.report();
            proxy::end(error.exit() as u8)
        }
    }
}

fn served(task: &ChildCommand, global: &GlobalArgs) -> Result<ProcessExit, CliError> {
    // The command would come from the kubeconfig, without a check by the plugin policy.
    if is_plugin_run(&SystemEnv) {
        return Err(CliError::new(
            ExitStatus::PolicyDenied,
            "`credlet run` and `credlet shell` cannot be credential plugins",
        )
        .hint(format!("unset {EXEC_INFO_ENV} if you ran this yourself")));
    }
    // Before a token or PIN is loaded: the command runs as the same user and must not read them from this process.
    let inherited = inheritable_fds();
    let core_limit = hardening::protect_memory()
        .map_err(|error| CliError::internal(format!("failed to protect the memory of this process: {error}")))?;
    if ExecProxies::from_env(&SystemEnv).is_none() {
        return Err(CliError::usage(format!("exec proxies are disabled by {EXEC_PROXY_ENV} in the environment")));
    }
    let program =
        find_program(&task.program.to_string_lossy(), &SystemEnv).map_err(|error| CliError::usage(chain(&error)))?;
    let resolved = global.resolve()?;
    let cluster = cluster(&resolved)?;
    let platform = Platform::system();
    let (signer, of_user) = signer(&resolved, &cluster, global, &platform)?;

    ProxyDir::sweep(&SystemEnv, platform.clock.now());
    let runtime = proxy::runtime()?;
    // From here on there are files to remove at exit.
    let mut signals = runtime.block_on(async { SignalHandlers::catch() })?;
    let dir = ProxyDir::of_this_process(&SystemEnv).map_err(usage_error)?;
    let target = UpstreamTarget::new(&cluster, CryptoBackend::aws_lc_rs(), &platform).map_err(usage_error)?;
    let mut options = ServerOptions::new(target, dir.clone());
    let authority = Arc::new(ProxyCa::generate(platform.clock.now()).map_err(usage_error)?);
    options.loopback = Some(LoopbackOptions { port: 0, mode: BridgeMode::Server, authority: authority.clone() });
    options.drain = DRAIN_TIMEOUT;
    // SignalHandlers are for the command, which may still need the proxy.
    options.heeds_signals = false;
    options.policies = of_user.into_iter().chain([task.policy.clone()]).collect();
    // The proxy is stopped when the command exits.
    (options.linger, options.max_life) = (std::time::Duration::MAX / 4, std::time::Duration::MAX / 4);

    let outcome = runtime.block_on(async {
        let server = ProxyServer::bind(signer, options).await.map_err(usage_error)?;
        let port = server.port().unwrap_or_default();
        let control = ControlClient::new(&dir).map_err(usage_error)?;
        let mut serving = tokio::spawn(server.run());
        let done = async {
            let lease = control.lease(None).await.map_err(usage_error)?;
            let file = kubeconfig(&dir, port, &authority, &lease.status, &resolved, &cluster)?;
            let context = resolved.context.as_ref().map_or("", |context| context.value.as_str());
            let context_var = task.context_var.map(|name| (name, OsStr::new(context)));
            let env = [("KUBECONFIG", file.as_os_str())].into_iter().chain(context_var);
            let start = || {
                let (program, args) = without_leaked_fds(&program, &task.args, &inherited)?;
                with_core_limit(&core_limit, || spawn_foreground(&program, &args, env))
            };
            let status = command(&program, start, &mut serving, &mut signals).await;
            let _ = std::fs::remove_file(&file);
            status
        };
        let status = done.await;
        if !serving.is_finished() {
            // Removes the sockets.
            let _ = control.stop().await;
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, serving).await;
        }
        status
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

/// Returns program and arguments of the command. If a library has opened inheritable descriptors since the start, such
/// as the connection of a PKCS#11 module to its token, the command is started through [`EXEC_COMMAND_VERB`], which
/// closes them. Descriptors that this process inherited are passed on.
fn without_leaked_fds(
    program: &Path,
    args: &[OsString],
    inherited: &[i32],
) -> std::io::Result<(PathBuf, Vec<OsString>)> {
    let mut leaked = inheritable_fds();
    leaked.retain(|number| !inherited.contains(number));
    if leaked.is_empty() {
        return Ok((program.to_owned(), args.to_owned()));
    }
    let numbers = leaked.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let before = [OsString::from(EXEC_COMMAND_VERB), numbers.into(), program.into()];
    Ok((std::env::current_exe()?, before.into_iter().chain(args.iter().cloned()).collect()))
}

/// Internal subcommand `credlet run-command NUMBERS PROGRAM ARGS…`: closes these descriptors and executes the program.
/// Doing so between `fork` and `exec` would need unsafe code.
pub(crate) const EXEC_COMMAND_VERB: &str = "run-command";

/// See [`EXEC_COMMAND_VERB`]. Returns only on failure.
pub(crate) fn exec_command(args: &[OsString]) -> ExitCode {
    let [_, _, numbers, command @ ..] = args else { return ExitCode::from(2) };
    // As a plugin it would run any program, bypassing a policy that allows `credlet`.
    if SystemEnv.var(EXEC_INFO_ENV).is_some() {
        return CliError::usage(format!("{EXEC_COMMAND_VERB} is internal to `credlet run`")).report();
    }
    close_fds(numbers.to_string_lossy().split(',').filter_map(|number| number.parse().ok()));
    let program = command.first().cloned().unwrap_or_default();
    let reason = exec_replace(Path::new(&program), command, SystemEnv.vars());
    CliError::usage(format!("failed to run {}: {reason}", program.display())).report()
}

/// Runs the command. SIGTERM and SIGHUP are forwarded to it.
async fn command<T>(
    program: &Path,
    start: impl FnOnce() -> std::io::Result<Result<ForegroundChild, OsError>>,
    serving: &mut tokio::task::JoinHandle<T>,
    signals: &mut SignalHandlers,
) -> Result<ProcessExit, CliError> {
    let failed = |error: OsError| CliError::usage(format!("failed to run {}: {error}", program.display()));
    let started = start().map_err(|error| failed(error.into()))?.map_err(failed)?;
    let pid = started.pid();
    let mut ended = tokio::task::spawn_blocking(move || started.wait());
    let ended = loop {
        tokio::select! {
            ended = &mut ended => break ended,
            _ = &mut *serving => {
                pid.into_iter().for_each(terminate_process);
                break ended.await;
            }
            signal = signals.next() => pid.into_iter().for_each(match signal {
                ForwardedSignal::Hangup => send_hangup,
                ForwardedSignal::Terminate => terminate_process,
            }),
        }
    };
    let ended = ended.map_err(|_| CliError::internal("failed to wait for the child process"))?;
    ended.map_err(|error| CliError::internal(format!("failed to wait for the child process: {error}")))
}

/// Returns the cluster of the API server, also if the kubeconfig uses a bridge: this proxy replaces the bridge's.
fn cluster(resolved: &ResolvedConfig) -> Result<Cluster, CliError> {
    if let Some(exec) = resolved.identity.exec_in_use()
        && bridge::existing_signer_args(&exec.config).is_some()
        && let Some((bridge, _)) = BridgeRecord::from_cluster(&exec.cluster).map_err(usage_error)?
    {
        return Ok(bridge.upstream);
    }
    Ok(resolved.to_cluster())
}

/// Returns a signer for the kubeconfig user, and the policy of its proxy if it has one.
fn signer(
    resolved: &ResolvedConfig,
    cluster: &Cluster,
    global: &GlobalArgs,
    platform: &Platform,
) -> Result<(Arc<dyn Signer>, Option<Policy>), CliError> {
    let identity = &resolved.identity;
    if let Some(exec) = identity.exec_in_use() {
        if let Some(args) = bridge::existing_signer_args(&exec.config) {
            // The plugin is this program and is not executed, but the plugin policy still applies.
            let found = find_program(&exec.config.command, &SystemEnv);
            global.policy()?.check(&exec.config.command, &found, &SystemEnv)?;
            let spec = proxy::parse_args(args.iter().cloned())?;
            let policy = spec.life.policy();
            let platform = plugin_platform(&exec.config, &spec, platform, cluster, global)?;
            return Ok((proxy::ready(spec.signer, cluster, &platform, global)?, Some(policy)));
        }
        let options = global.client_options()?;
        let mut settings = ExecSettings::new(options.crypto.clone());
        settings.options = options.exec.clone();
        let proxies = ExecProxies::of_this_process();
        settings.options.lock_file = proxies.clone().map(|proxies| proxies as _);
        let authenticator = options.authenticators.exec(exec, &settings)?;
        let signer = ExecSigner::new(authenticator, platform.clock.clone(), proxies.map(|proxies| proxies as _));
        return Ok((Arc::new(signer), None));
    }
    if let Some(HeaderCredential::TokenFile { file, inline }) = identity.header.as_ref().map(|header| &header.value) {
        let clock = &platform.clock;
        let (file, inline) = (file.clone(), inline.clone());
        let authenticator =
            credlet_client::Authenticator::token_file(file, inline, clock.clone(), Arc::new(NoopObserver));
        return Ok((Arc::new(ExecSigner::new(authenticator, clock.clone(), None)), None));
    }
    if identity.auth_provider_in_use().is_some() {
        return Err(CliError::usage("the user's `auth-provider` is not supported by a proxy"));
    }
    Ok((Arc::new(static_signer::StaticSigner::of(identity)?), None))
}

/// The environment as the user's plugin would see it, including variables of the kubeconfig and the exec info, so that
/// programs are restricted as in a plugin run.
fn plugin_platform(
    config: &ExecConfig,
    spec: &proxy::ProxySpec,
    platform: &Platform,
    cluster: &Cluster,
    global: &GlobalArgs,
) -> Result<Platform, CliError> {
    let added = || config.env.iter().map(|variable| (variable.name.as_str(), variable.value.expose()));
    if spec.signer.loads_library() {
        // The library reads the environment of this process, which cannot be changed.
        let missing = added().find(|(name, value)| SystemEnv.var(name).is_none_or(|is| is != *value));
        return match missing {
            None => Ok(platform.clone()),
            Some((name, _)) => Err(CliError::usage(format!(
                "the user's PKCS#11 module requires the variable {name} of the kubeconfig in the environment of this process"
            ))
            .hint(format!("set {name} to the value in the kubeconfig and retry"))),
        };
    }
    let cluster = config.provide_cluster_info.then(|| cluster.clone());
    let exec_info = ExecCredentialSpec { cluster, ..ExecCredentialSpec::default() }.encode(config.api_version);
    // The user's `--kuberc` flag also restricts the programs.
    let kuberc = global.kuberc().and_then(|path| path.into_os_string().into_string().ok());
    let kuberc = kuberc.iter().map(|path| ("KUBERC", path.as_str()));
    let vars = build_env(&SystemEnv, &EnvInheritance::ALL, added().chain(kuberc).chain([(EXEC_INFO_ENV, &*exec_info)]));
    let env = FixedEnv::new(vars).terminal(SystemEnv.stdin_is_terminal());
    let env = SystemEnv.current_dir().into_iter().fold(env, FixedEnv::in_dir);
    let env = SystemEnv.account_home().into_iter().fold(env, FixedEnv::with_account_home);
    Ok(Platform { env: Arc::new(env), ..platform.clone() })
}

/// Writes the kubeconfig of the command.
fn kubeconfig(
    dir: &ProxyDir,
    port: u16,
    authority: &ProxyCa,
    given: &ExecCredentialStatus,
    resolved: &ResolvedConfig,
    cluster: &Cluster,
) -> Result<PathBuf, CliError> {
    let mut user = serde_json::json!({
        "client-certificate-data": STANDARD.encode(&given.client_certificate_data),
        "client-key-data": STANDARD.encode(given.client_key_data.expose()),
    });
    if let Some(impersonation) = &resolved.impersonation {
        user["as"] = impersonation.user.value.clone().into();
        user["as-uid"] = serde_json::json!(impersonation.uid.as_ref().map(|uid| &uid.value));
        user["as-groups"] = serde_json::json!(impersonation.groups.as_ref().map(|groups| &groups.value));
        user["as-user-extra"] = serde_json::json!(impersonation.extra.as_ref().map(|extra| &extra.value));
    }
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "run",
        "contexts": [{"name": "run", "context": {"cluster": "run", "user": "run", "namespace": resolved.namespace.value}}],
        "clusters": [{"name": "run", "cluster": {
            "server": local(port, &cluster.server),
            "certificate-authority-data": STANDARD.encode(authority.certificate()),
        }}],
        "users": [{"name": "run", "user": user}],
    });
    let text = Secret::new(config.to_string());
    let path = dir.path().join("config");
    let written = create_private_file(&path).and_then(|mut file| file.write_all(text.expose().as_bytes()));
    written.map_err(|error| CliError::internal(format!("failed to write {}: {}", path.display(), error.kind())))?;
    Ok(path)
}

fn usage_error(error: impl std::error::Error + 'static) -> CliError {
    CliError::usage(chain(&error))
}
