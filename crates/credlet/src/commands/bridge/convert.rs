//! There and back again.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use credlet_api::exec::Cluster;
use credlet_api::kubeconfig::{Config, EXEC_EXTENSION};
use credlet_client::kubeconfig::Resolved;
use credlet_core::{Clock as _, SystemClock, SystemEnv};
use credlet_plugins::kubeconfig_edit::{self, SaveError};
use credlet_plugins::proxy::bridge::{self, Bridge, BridgeError, Door, Plan};
use credlet_proxy::dir::Dir;
use credlet_proxy::server::{Control, Guise};

use super::files::Place;
use super::{ConvertArgs, RevertArgs, words};
use crate::args::Global;
use crate::commands::{Outcome, proxy};
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::runtime;

pub(super) fn convert(args: ConvertArgs, global: &Global) -> Outcome {
    let place = Place::find(global)?;
    place.alone()?;
    let resolved = global.resolve()?;
    let (signer, wrong) = if args.signer.is_empty() {
        (words::of_user(&resolved)?, "what the user has now cannot be used by a proxy")
    } else {
        (args.signer, "the words after `--` are wrong")
    };
    let wrong = |message: &str| CliError::usage(format!("{wrong}: {message}"));
    let wanted = proxy::parsed(signer.iter().cloned()).map_err(|error| wrong(error.message()))?;
    if wanted.life.foreground {
        return Err(wrong(proxy::NO_FOREGROUND));
    }

    let upstream = upstream(&resolved, &place)?;
    let port = match args.port {
        Some(port) => port,
        None => free_port()?,
    };
    let id = random()?;
    let file = proxy::authority_file(&id, &SystemEnv)?;
    let mut printer = Printer::default();
    let shown = place.path.display();
    let door = Door { port, guise: args.mode.into() };
    let way = if door.guise == Guise::Proxy { "through" } else { "on" };
    let what = format!(
        "cluster {} {way} 127.0.0.1:{port}, user {} with credlet proxy {}",
        place.cluster, place.user, signer[0]
    );
    let args_of = ["proxy".to_owned()].into_iter().chain(signer.iter().cloned()).collect::<Vec<_>>();
    let plan = |authority: &str, original: &Path| {
        let original = original.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bridge = Bridge::new(&id, upstream.clone(), original);
        let mut plan = Plan::new(&place.cluster, &place.user, door, authority, bridge, args_of.clone());
        plan.program.clone_from(&args.program);
        plan
    };
    if args.dry_run {
        bridge::convert(&place.text, &plan("", Path::new("x"))).map_err(|error| at(&place.path, &error))?;
        printer.foreign(&format!("{shown}: would convert {what}"));
        printer.done()?;
        return Ok(Exit::Ok);
    }
    let authority = proxy::authority(&file, door.guise, &upstream.server, SystemClock::new().now())?;
    let saved = kubeconfig_edit::save_knowing(&place.path, &place.text, |original| {
        Ok::<_, Fault>(bridge::convert(&place.text, &plan(authority.certificate(), original))?)
    });
    let backup = saved.map_err(|fault| {
        // Nothing refers to it.
        let _ = std::fs::remove_file(&file);
        at(&place.path, &fault)
    })?;
    printer.foreign(&format!("{shown}: converted {what}; the old file is {}", backup.display()));
    printer.done()?;
    Ok(Exit::Ok)
}

pub(super) fn revert(args: &RevertArgs, global: &Global) -> Outcome {
    let place = Place::find(global)?;
    let found = bridge::find(&place.text, &place.cluster).map_err(|error| at(&place.path, &error))?;
    let found = found.ok_or_else(|| CliError::usage(format!("the cluster {:?} has no bridge", place.cluster)))?;
    let original = place.path.with_file_name(Path::new(&found.original).file_name().unwrap_or_default());
    let before = std::fs::read_to_string(&original).map(zeroize::Zeroizing::new).map_err(|error| {
        let server = &found.upstream.server;
        CliError::usage(format!("the copy of before, {}, cannot be read ({})", original.display(), error.kind()))
            .hint(format!("without it, write the user by hand, and the cluster with its server, {server}"))
    })?;
    let new = bridge::revert(&place.text, &before, &place.cluster, &place.user);
    let new = new.map_err(|error| at(&place.path, &error))?;
    let mut printer = Printer::default();
    let what = format!("cluster {}, user {}", place.cluster, place.user);
    if args.dry_run {
        printer.foreign(&format!("{}: would put back {what}", place.path.display()));
    } else {
        let saved = kubeconfig_edit::save(&place.path, &place.text, &new);
        let backup = saved.map_err(|error| at(&place.path, &error))?;
        end(&place, &found)?;
        // The bridge's own file held no secret and nobody needs it; the copy of before is the kubeconfig again.
        let _ = std::fs::remove_file(&backup);
        let kept = if *new == *before {
            let _ = std::fs::remove_file(&original);
            String::new()
        } else {
            format!("; the file of before, from which this one differs by now, is still {}", original.display())
        };
        printer.foreign(&format!("{}: put back {what}{kept}", place.path.display()));
    }
    printer.done()?;
    Ok(Exit::Ok)
}

/// Ends the proxy behind the bridge, and forgets its certificates.
fn end(place: &Place, found: &Bridge) -> Result<(), CliError> {
    let config = Config::decode(place.text.as_bytes()).unwrap_or_default();
    let cluster = config.clusters.iter().find(|entry| entry.name == place.cluster);
    let door = cluster.and_then(|cluster| {
        let (server, proxy_url) = (&cluster.item.server.value, &cluster.item.proxy_url.value);
        found.door(server.expose(), proxy_url.expose())
    });
    let port = door.map(|door| door.port);
    runtime::run(async {
        for dir in Dir::list(&SystemEnv).into_iter().filter(Dir::is_served) {
            let Ok(control) = Control::of(&dir) else { continue };
            let its_port = control.status().await.ok().and_then(|report| report.port);
            if port.is_some() && its_port == port {
                // One that has just ended has ended.
                let _ = control.stop().await;
            }
        }
        Ok(Exit::Ok)
    })?;
    let _ = std::fs::remove_file(proxy::authority_file(&found.id, &SystemEnv)?);
    Ok(())
}

/// The API server, with everything from files in the one that it will be.
fn upstream(resolved: &Resolved, place: &Place) -> Result<Cluster, CliError> {
    let config = Config::decode(place.text.as_bytes()).map_err(|error| CliError::usage(error.to_string()))?;
    let found = config.clusters.into_iter().find(|entry| entry.name == place.cluster);
    let extensions = found.into_iter().flat_map(|cluster| cluster.item.extensions);
    let own = extensions.filter(|extension| extension.name == EXEC_EXTENSION).find_map(|extension| extension.item);
    let authority = resolved.tls.certificate_authority.as_ref();
    Ok(Cluster {
        server: resolved.server.value.clone(),
        tls_server_name: resolved.tls.server_name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
        insecure_skip_tls_verify: resolved.tls.insecure_skip_verify.value,
        certificate_authority_data: authority.map(|authority| authority.value.pem.clone()).unwrap_or_default(),
        proxy_url: resolved.proxy_url.as_ref().map(|url| url.value.clone()).unwrap_or_default(),
        disable_compression: resolved.disable_compression.value,
        config: own,
    })
}

/// Below those that systems give to outgoing connections, so that it is free whenever the proxy is started.
fn free_port() -> Result<u16, CliError> {
    for _ in 0..100 {
        let port = 20_000 + u16::from_be_bytes(bytes()?) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(CliError::usage("no port of this machine is free").hint("name one with --port"))
}

fn random() -> Result<String, CliError> {
    Ok(bytes::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bytes<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| CliError::usage("this system has no randomness"))?;
    Ok(bytes)
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error(transparent)]
    Text(#[from] BridgeError),
}

fn at(path: &Path, error: &impl std::fmt::Display) -> CliError {
    CliError::usage(format!("{}: {error}", path.display()))
}
