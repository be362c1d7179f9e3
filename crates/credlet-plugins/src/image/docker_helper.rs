//! An image credential provider that asks docker credential helpers.
//!
//! **The path:** the kubelet's request on standard input → the helper for the image's registry, named by an argument →
//! `docker-credential-NAME get` with the registry on its standard input → its answer, as the kubelet reads it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use credlet_api::image::{
    AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, HelperCredential,
};
use credlet_api::plugin::{self, Failure};
use credlet_core::{Finished, Inherit, Limits, Program, Stdin, World, harmless, last_line, look_up, surroundings};
use zeroize::Zeroizing;

use super::provider;
use crate::harness::wait;

/// Credentials for images from docker credential helpers.
#[derive(Debug, Parser)]
#[command(name = "credlet-docker-helper", disable_version_flag = true)]
struct Args {
    /// The helper to ask, by the end of its name (`pass` is docker-credential-pass), for every registry or for one; may
    /// be given several times
    #[arg(long, value_name = "[REGISTRY=]NAME", required = true, value_parser = helper)]
    helper: Vec<(Option<String>, String)>,
    /// How long the answer may be used again
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = provider::duration)]
    cache_duration: Duration,
    /// How long a helper may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = provider::duration)]
    timeout: Duration,
}

fn helper(text: &str) -> Result<(Option<String>, String), &'static str> {
    let (registry, name) = match text.split_once('=') {
        Some((registry, name)) => (Some(registry.to_owned()), name),
        None => (None, text),
    };
    // It becomes part of a file's name.
    let is_name = !name.is_empty() && !name.contains('/');
    if is_name { Ok((registry, name.to_owned())) } else { Err("a helper's name is the end of a file's name") }
}

/// The whole of the provider. `args` begin with the program's name.
pub fn run(args: Vec<OsString>, world: &World, io: plugin::World<'_>) -> ExitCode {
    provider::run(args, io, |args: &Args, request| answer(args, world, request))
}

fn answer(
    args: &Args,
    world: &World,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let registry = provider::registry(request)?;
    let special = args.helper.iter().find(|(other, _)| other.as_deref() == Some(registry));
    let general = || args.helper.iter().find(|(other, _)| other.is_none());
    let Some((_, name)) = special.or_else(general) else {
        return Ok(provider::nothing(CacheKeyType::Registry));
    };
    for server in servers(registry) {
        if let Some(found) = wait(ask(name, server, args.timeout, world))?? {
            if found.username == "<token>" {
                return Err(Failure::new(format!("docker-credential-{name} gives identity tokens for {server}"))
                    .hint("a kubelet can pass on only user names and passwords: log in with a password"));
            }
            let auth = AuthConfig { username: found.username, password: found.secret };
            return Ok(CredentialProviderResponse {
                cache_key_type: CacheKeyType::Registry,
                cache_duration: Some(args.cache_duration),
                auth: BTreeMap::from([(registry.to_owned(), auth)]),
            });
        }
    }
    Ok(provider::nothing(CacheKeyType::Registry))
}

/// Docker itself logs in to the hub by its oldest name.
fn servers(registry: &str) -> Vec<&str> {
    match registry {
        "docker.io" => vec!["https://index.docker.io/v1/", "index.docker.io", "docker.io"],
        other => vec![other],
    }
}

/// `None`: the helper has nothing for it.
async fn ask(name: &str, server: &str, limit: Duration, world: &World) -> Result<Option<HelperCredential>, Failure> {
    let command = format!("docker-credential-{name}");
    let program = Program {
        path: look_up(&command, &*world.env)?,
        args: vec!["get".to_owned()],
        env: surroundings(&*world.env, &Inherit::ALL, []),
        stdin: Stdin::Bytes(Zeroizing::new(server.as_bytes().to_vec())),
        limits: Limits { time: limit, ..Limits::ALONE },
    };
    let finished = world.runner.run(program).await;
    let finished = finished.map_err(|error| Failure::new(format!("`{command}` was ended")).because(&error))?;
    if !finished.ended.is_success() {
        return if has_nothing(&finished) { Ok(None) } else { Err(failed(&command, &finished)) };
    }
    let found = HelperCredential::decode(&finished.stdout)
        .map_err(|fault| Failure::new(format!("what `{command}` printed {fault}")))?;
    Ok(Some(found).filter(|found| !found.secret.is_empty()))
}

fn has_nothing(finished: &Finished) -> bool {
    String::from_utf8_lossy(&finished.stdout).trim() == HelperCredential::NOT_FOUND
}

/// Helpers complain on standard output; what looks like an answer there is not repeated, nor any word of it.
fn failed(command: &str, finished: &Finished) -> Failure {
    let is_answer = HelperCredential::decode(&finished.stdout).is_ok();
    let complaint = if is_answer { &[][..] } else { &finished.stdout[..] };
    let said =
        [harmless(&finished.stderr, &finished.stdout, []), harmless(complaint, &[], [])].map(|text| last_line(&text));
    let said = said.into_iter().find(|said| !said.is_empty()).map(|said| format!(": {said}")).unwrap_or_default();
    Failure::new(format!("`{command}` {}{said}", finished.ended))
}
