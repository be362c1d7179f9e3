//! `bridge convert` and `bridge revert`.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use credlet_api::exec::Cluster;
use credlet_api::kubeconfig::{EXEC_EXTENSION, KubeconfigFile};
use credlet_exec::{Clock as _, SystemClock, SystemEnv};
use credlet_kubeconfig::ResolvedConfig;
use credlet_kubeconfig::edit::{self, SaveError};
use credlet_proxy::bridge::{self, BridgeEndpoint, BridgeError, BridgePlan, BridgeRecord};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{BridgeMode, ControlClient};

use super::target::BridgeTarget;
use super::{ConvertArgs, RevertArgs, signer_args};
use crate::args::GlobalArgs;
use crate::commands::{Outcome, proxy};
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::kubeconfig_file;
use crate::printer::Printer;
use crate::runtime;

pub(super) fn convert(args: ConvertArgs, global: &GlobalArgs) -> Outcome {
    let target = BridgeTarget::find(global)?;
    target.check_not_shared()?;
    let resolved = global.resolve()?;
    let (signer, problem) = if args.signer.is_empty() {
        (signer_args::signer_args_for(&resolved)?, "the current credential of the user cannot be used by a proxy")
    } else {
        (args.signer, "invalid arguments after `--`")
    };
    let invalid = |message: &str| CliError::usage(format!("{problem}: {message}"));
    let wanted = proxy::parse_args(signer.iter().cloned()).map_err(|error| invalid(error.message()))?;
    if wanted.life.foreground {
        return Err(invalid(proxy::NO_FOREGROUND));
    }

    let upstream = upstream(&resolved, &target)?;
    let port = match args.port {
        Some(port) => port,
        None => free_port()?,
    };
    let id = random_id()?;
    let file = proxy::authority_file(&id, &SystemEnv)?;
    let mut printer = Printer::default();
    let shown = target.path.display();
    let endpoint = BridgeEndpoint { port, mode: args.mode.into() };
    let preposition = if endpoint.mode == BridgeMode::ProxyUrl { "through" } else { "on" };
    let what = format!(
        "cluster {} {preposition} 127.0.0.1:{port}, user {} with credlet proxy {}",
        target.cluster, target.user, signer[0]
    );
    let args_of = ["proxy".to_owned()].into_iter().chain(signer.iter().cloned()).collect::<Vec<_>>();
    let plan = |authority: &str, original: &Path| {
        let original = original.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bridge = BridgeRecord::new(&id, upstream.clone(), original);
        let mut plan = BridgePlan::new(&target.cluster, &target.user, endpoint, authority, bridge, args_of.clone());
        plan.program.clone_from(&args.program);
        plan
    };
    if args.dry_run {
        bridge::convert(&target.text, &plan("", Path::new("x"))).map_err(|error| file_error(&target.path, &error))?;
        printer.untrusted_line(&format!("{shown}: would convert {what}"));
        printer.finish()?;
        return Ok(ExitStatus::Success);
    }
    let authority = proxy::authority(&file, endpoint.mode, &upstream.server, SystemClock::new().now())?;
    let saved = edit::save_with_backup(&target.path, &target.text, |original| {
        Ok::<_, ConvertError>(bridge::convert(&target.text, &plan(authority.certificate(), original))?)
    });
    let backup = saved.map_err(|fault| {
        // The kubeconfig was not saved, so nothing refers to the CA file.
        proxy::remove_authority(&file);
        file_error(&target.path, &fault)
    })?;
    printer.untrusted_line(&format!("{shown}: converted {what}; backup in {}", backup.display()));
    printer.finish()?;
    Ok(ExitStatus::Success)
}

pub(super) fn revert(args: &RevertArgs, global: &GlobalArgs) -> Outcome {
    let target = BridgeTarget::find(global)?;
    let found = bridge::find(&target.text, &target.cluster).map_err(|error| file_error(&target.path, &error))?;
    let found = found.ok_or_else(|| CliError::usage(format!("the cluster {:?} is not converted", target.cluster)))?;
    let original = target.path.with_file_name(Path::new(&found.original).file_name().unwrap_or_default());
    let before = kubeconfig_file::read(&original)
        .and_then(|text| text.ok_or_else(|| CliError::usage(format!("{} does not exist", original.display()))));
    let before = before.map_err(|error| {
        let server = &found.upstream.server;
        CliError::usage(format!("failed to read the original kubeconfig: {}", error.message()))
            .hint(format!("write the user and the cluster with server {server} by hand"))
    })?;
    let new = bridge::revert(&target.text, &before, &target.cluster, &target.user);
    let new = new.map_err(|error| file_error(&target.path, &error))?;
    let mut printer = Printer::default();
    let what = format!("cluster {}, user {}", target.cluster, target.user);
    if args.dry_run {
        printer.untrusted_line(&format!("{}: would restore {what}", target.path.display()));
    } else {
        let saved = edit::save(&target.path, &target.text, &new);
        let backup = saved.map_err(|error| file_error(&target.path, &error))?;
        stop_proxy(&target, &found)?;
        // The converted file contains no secret. The backup is removed if it equals the restored file.
        let _ = std::fs::remove_file(&backup);
        let kept = if *new == *before {
            let _ = std::fs::remove_file(&original);
            String::new()
        } else {
            format!("; the file was changed since the conversion, so the backup {} is kept", original.display())
        };
        printer.untrusted_line(&format!("{}: restored {what}{kept}", target.path.display()));
    }
    printer.finish()?;
    Ok(ExitStatus::Success)
}

/// Stops the proxy of the bridge and removes its CA.
fn stop_proxy(target: &BridgeTarget, found: &BridgeRecord) -> Result<(), CliError> {
    let config = KubeconfigFile::decode(target.text.as_bytes()).unwrap_or_default();
    let cluster = config.clusters.iter().find(|entry| entry.name == target.cluster);
    let endpoint = cluster.and_then(|cluster| {
        let (server, proxy_url) = (&cluster.item.server.value, &cluster.item.proxy_url.value);
        found.endpoint(server.expose(), proxy_url.expose())
    });
    let port = endpoint.map(|endpoint| endpoint.port);
    runtime::run(async {
        for dir in ProxyDir::list(&SystemEnv).into_iter().filter(ProxyDir::is_served) {
            let Ok(control) = ControlClient::new(&dir) else { continue };
            let its_port = control.status().await.ok().and_then(|report| report.port);
            if port.is_some() && its_port == port {
                // Waits, because a new conversion may need the same PKCS#11 session. An error means that the proxy has exited.
                let _ = control.stop_and_wait().await;
            }
        }
        Ok(ExitStatus::Success)
    })?;
    proxy::remove_authority(&proxy::authority_file(&found.id, &SystemEnv)?);
    Ok(())
}

/// The API server, with the content of the files that the kubeconfig refers to.
fn upstream(resolved: &ResolvedConfig, target: &BridgeTarget) -> Result<Cluster, CliError> {
    let config = KubeconfigFile::decode(target.text.as_bytes()).map_err(|error| CliError::usage(error.to_string()))?;
    let found = config.clusters.into_iter().find(|entry| entry.name == target.cluster);
    let extensions = found.into_iter().flat_map(|cluster| cluster.item.extensions);
    let own = extensions.filter(|extension| extension.name == EXEC_EXTENSION).find_map(|extension| extension.item);
    Ok(Cluster { config: own, ..resolved.to_cluster() })
}

/// Returns a free port below the range of ephemeral ports, so that an outgoing connection does not occupy it later.
fn free_port() -> Result<u16, CliError> {
    for _ in 0..100 {
        let port = 20_000 + u16::from_be_bytes(random_bytes()?) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(CliError::internal("failed to find a free port").hint("select one with --port"))
}

fn random_id() -> Result<String, CliError> {
    Ok(credlet_api::hex(random_bytes::<8>()?))
}

fn random_bytes<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| CliError::internal("failed to get random bytes from the operating system"))?;
    Ok(bytes)
}

#[derive(Debug, thiserror::Error)]
enum ConvertError {
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error(transparent)]
    Text(#[from] BridgeError),
}

fn file_error(path: &Path, error: &impl std::fmt::Display) -> CliError {
    CliError::usage(format!("{}: {error}", path.display()))
}
