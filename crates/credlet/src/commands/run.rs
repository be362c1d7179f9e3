//! `credlet run`: a bridge for one command.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::Secret;
use credlet_api::exec::{Cluster, ExecConfig, ExecCredentialStatus};
use credlet_client::authenticator::ExecSettings;
use credlet_client::conn::Crypto;
use credlet_client::kubeconfig::{HeaderCredential, Resolved};
use credlet_core::{
    Env as _, FixedEnv, Inherit, NoObserver, SystemEnv, World, ask_to_end, hang_up, look_up, start_attached,
    surroundings,
};
use credlet_plugins::proxy::bridge::{Bridge, local};
use credlet_proxy::client::{ExecProxies, SWITCH};
use credlet_proxy::dir::Dir;
use credlet_proxy::policy::Policy;
use credlet_proxy::server::{Authority, Control, Guise, Loopback, Options, Server, Target};
use credlet_proxy::sign::{Exec, Signer};

mod fixed;
mod signals;

use self::signals::{Signals, Told};
use super::bridge;
use super::proxy::{self, PolicyArgs};
use crate::args::Global;
use crate::error::{CliError, chain};

/// Run a command whose kubeconfig leads through a proxy of its own
///
/// The command gets KUBECONFIG, a file that leads to a port of this machine. The user's plugin, key or token is used by
/// the proxy, and the command never sees it. When the command ends, nothing is left behind.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  credlet run -- kubectl get pods
  credlet run --context prod -- helm upgrade web ./chart
  credlet run --read-only -- k9s

It ends with the command's exit code.";

/// Whatever the command left open on its way is cut after this.
const TO_END: std::time::Duration = std::time::Duration::from_secs(2);

/// For so long the proxy may take over its end, which takes no time on a machine that has some.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) fn run(args: Args, global: &Global) -> ! {
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    let policy = args.policy.policy("the arguments of `credlet run`");
    in_our_place(&Task { program, words: words.collect(), marks: None, policy }, global)
}

/// What is to be run behind a proxy of its own.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) program: OsString,
    pub(super) words: Vec<OsString>,
    /// A variable that says for which context it is run.
    pub(super) marks: Option<&'static str>,
    pub(super) policy: Policy,
}

/// Runs it. Its own end is ours.
pub(super) fn in_our_place(task: &Task, global: &Global) -> ! {
    match served(task, global) {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => proxy::end(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => crate::runtime::die_of(signal),
            (None, None) => proxy::end(1),
        },
        Err(error) => {
            error.report();
            proxy::end(error.exit() as u8)
        }
    }
}

fn served(task: &Task, global: &Global) -> Result<ExitStatus, CliError> {
    if ExecProxies::from_env(&SystemEnv).is_none() {
        return Err(CliError::usage(format!("exec proxies are switched off by {SWITCH} in the environment")));
    }
    let program =
        look_up(&task.program.to_string_lossy(), &SystemEnv).map_err(|error| CliError::usage(chain(&error)))?;
    let resolved = global.resolve()?;
    let cluster = cluster(&resolved)?;
    let world = World::system();
    let (signer, of_user) = signer(&resolved, &cluster, global, &world)?;

    Dir::sweep(&SystemEnv, world.clock.now());
    let runtime = proxy::runtime()?;
    // From here on there is something to take away at the end.
    let mut signals = runtime.block_on(async { Signals::catch() })?;
    let dir = Dir::of_this_process(&SystemEnv).map_err(told)?;
    let target = Target::new(&cluster, Crypto::aws_lc_rs(), &world).map_err(told)?;
    let mut options = Options::new(target, dir.clone());
    let authority = Arc::new(Authority::fresh(world.clock.now()).map_err(told)?);
    options.loopback = Some(Loopback { port: 0, guise: Guise::Server, authority: authority.clone() });
    options.drain = TO_END;
    // Those are for the command, which may still have something to do behind the proxy.
    options.heeds_signals = false;
    options.policies = of_user.into_iter().chain([task.policy.clone()]).collect();
    // For as long as the command runs: we end it ourselves.
    (options.linger, options.max_life) = (std::time::Duration::MAX / 4, std::time::Duration::MAX / 4);

    let outcome = runtime.block_on(async {
        let server = Server::bind(signer, options).await.map_err(told)?;
        let port = server.port().unwrap_or_default();
        let control = Control::of(&dir).map_err(told)?;
        let mut serving = tokio::spawn(server.run());
        let done = async {
            let answer = control.lease(None).await.map_err(told)?;
            let file = kubeconfig(&dir, port, &authority, &answer.status, &resolved, &cluster)?;
            let context = resolved.context.as_ref().map_or("", |context| context.value.as_str());
            let marks = task.marks.map(|name| (name, OsStr::new(context)));
            let env = [("KUBECONFIG", file.as_os_str())].into_iter().chain(marks);
            let status = command(&program, &task.words, env, &mut serving, &mut signals).await;
            let _ = std::fs::remove_file(&file);
            status
        };
        let status = done.await;
        if !serving.is_finished() {
            // It takes its sockets away.
            let _ = control.stop().await;
            let _ = tokio::time::timeout(PATIENCE, serving).await;
        }
        status
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    outcome
}

/// Runs the command. If we are told to end meanwhile, or that the terminal is gone, so is the command.
async fn command<'a, T>(
    program: &Path,
    words: &[OsString],
    env: impl Iterator<Item = (&'a str, &'a OsStr)>,
    serving: &mut tokio::task::JoinHandle<T>,
    signals: &mut Signals,
) -> Result<ExitStatus, CliError> {
    let started = start_attached(program, words, env);
    let started = started.map_err(|error| CliError::usage(format!("{} cannot be run: {error}", program.display())))?;
    let pid = started.pid();
    let mut ended = tokio::task::spawn_blocking(move || started.wait());
    let ended = loop {
        tokio::select! {
            ended = &mut ended => break ended,
            _ = &mut *serving => {
                pid.into_iter().for_each(ask_to_end);
                break ended.await;
            }
            told = signals.next() => pid.into_iter().for_each(match told {
                Told::HungUp => hang_up,
                Told::ToEnd => ask_to_end,
            }),
        }
    };
    let ended = ended.map_err(|_| CliError::usage("nobody waited for the command"))?;
    ended.map_err(|error| CliError::usage(format!("the command's end was not seen: {error}")))
}

/// The API server itself, also where a bridge leads to it: the command's proxy is in the place of the bridge's.
fn cluster(resolved: &Resolved) -> Result<Cluster, CliError> {
    if let Some(exec) = resolved.identity.exec_in_use()
        && bridge::of_proxy(&exec.config).is_some()
        && let Some((bridge, _)) = Bridge::of(&exec.cluster).map_err(told)?
    {
        return Ok(bridge.upstream);
    }
    let authority = resolved.tls.certificate_authority.as_ref();
    Ok(Cluster {
        server: resolved.server.value.clone(),
        tls_server_name: resolved.tls.server_name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
        insecure_skip_tls_verify: resolved.tls.insecure_skip_verify.value,
        certificate_authority_data: authority.map(|authority| authority.value.pem.clone()).unwrap_or_default(),
        proxy_url: resolved.proxy_url.as_ref().map(|url| url.value.clone()).unwrap_or_default(),
        disable_compression: resolved.disable_compression.value,
        config: None,
    })
}

/// The user, whatever it has, and the policy that a proxy of this user would have.
fn signer(
    resolved: &Resolved,
    cluster: &Cluster,
    global: &Global,
    world: &World,
) -> Result<(Arc<dyn Signer>, Option<Policy>), CliError> {
    let identity = &resolved.identity;
    if let Some(exec) = identity.exec_in_use() {
        if let Some(words) = bridge::of_proxy(&exec.config) {
            // It is not run, because we are it; but whoever forbids it means us, too.
            let found = look_up(&exec.config.command, &SystemEnv);
            global.policy()?.check(&exec.config.command, &found, &SystemEnv)?;
            let wanted = proxy::parsed(words.iter().cloned())?;
            let policy = wanted.life.policy();
            let world = world_of(&exec.config, &wanted, world)?;
            return Ok((proxy::ready(wanted.signer, cluster, &world, global)?, Some(policy)));
        }
        let options = global.client_options()?;
        let mut settings = ExecSettings::new(options.crypto.clone());
        settings.options = options.exec.clone();
        let proxies = ExecProxies::of_this_process();
        settings.options.lock_file = proxies.clone().map(|proxies| proxies as _);
        let authenticator = options.authenticators.exec(exec, &settings)?;
        let signer = Exec::new(authenticator, world.clock.clone(), proxies.map(|proxies| proxies as _));
        return Ok((Arc::new(signer), None));
    }
    if let Some(HeaderCredential::TokenFile { file, inline }) = identity.header.as_ref().map(|header| &header.value) {
        let clock = &world.clock;
        let (file, inline) = (file.clone(), inline.clone());
        let authenticator =
            credlet_client::Authenticator::token_file(file, inline, clock.clone(), Arc::new(NoObserver));
        return Ok((Arc::new(Exec::new(authenticator, clock.clone(), None)), None));
    }
    if identity.auth_provider_in_use().is_some() {
        return Err(CliError::usage("the user's `auth-provider` cannot be used by a proxy"));
    }
    Ok((Arc::new(fixed::Fixed::of(identity)?), None))
}

/// The world as the user's plugin would see it, with the variables that the kubeconfig adds.
fn world_of(config: &ExecConfig, wanted: &proxy::Wanted, world: &World) -> Result<World, CliError> {
    let added = || config.env.iter().map(|variable| (variable.name.as_str(), variable.value.expose()));
    if wanted.signer.loads_library() {
        // Nobody can add to those of a process that runs.
        let missing = added().find(|(name, value)| SystemEnv.var(name).is_none_or(|is| is != *value));
        return match missing {
            None => Ok(world.clone()),
            Some((name, _)) => Err(CliError::usage(format!(
                "the user's plugin is to be run with the variable {name}, which its library would look for in this process"
            ))
            .hint(format!("set {name} as the kubeconfig has it, and try again"))),
        };
    }
    let vars = surroundings(&SystemEnv, &Inherit::ALL, added());
    let env = FixedEnv::new(vars).terminal(SystemEnv.stdin_is_terminal());
    let env = SystemEnv.current_dir().into_iter().fold(env, FixedEnv::in_dir);
    Ok(World { env: Arc::new(env), ..world.clone() })
}

/// The one file that the command gets to see.
fn kubeconfig(
    dir: &Dir,
    port: u16,
    authority: &Authority,
    given: &ExecCredentialStatus,
    resolved: &Resolved,
    cluster: &Cluster,
) -> Result<PathBuf, CliError> {
    let mut user = serde_json::json!({
        "client-certificate-data": STANDARD.encode(&given.client_certificate_data),
        "client-key-data": STANDARD.encode(given.client_key_data.expose()),
    });
    if let Some(whom) = &resolved.impersonation {
        user["as"] = whom.user.value.clone().into();
        user["as-uid"] = serde_json::json!(whom.uid.as_ref().map(|uid| &uid.value));
        user["as-groups"] = serde_json::json!(whom.groups.as_ref().map(|groups| &groups.value));
        user["as-user-extra"] = serde_json::json!(whom.extra.as_ref().map(|extra| &extra.value));
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
    let opened = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
    let written = opened.and_then(|mut file| file.write_all(text.expose().as_bytes()));
    written.map_err(|error| CliError::usage(format!("{}: {}", path.display(), error.kind())))?;
    Ok(path)
}

fn told(error: impl std::error::Error + 'static) -> CliError {
    CliError::usage(chain(&error))
}
