//! Image credential provider that runs docker credential helpers.
//!
//! Selects the helper for the image's registry from the arguments, runs `docker-credential-NAME get` with the registry on standard
//! input, and converts its output for the kubelet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use credlet_api::image::{
    AuthConfig, CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, DockerHelperCredential,
};
use credlet_exec::{
    CommandSpec, CompletedProcess, EnvInheritance, Platform, RunLimits, StdinSource, build_env, last_line,
    resolve_program, sanitize_output,
};
use credlet_plugin::{self as plugin, Failure};
use zeroize::Zeroizing;

use super::provider;
use crate::plugin_runner::block_on;

/// Provide credentials for images from docker credential helpers.
#[derive(Debug, Parser)]
#[command(name = "credlet-docker-helper", disable_version_flag = true)]
struct DockerHelperArgs {
    /// Suffix of a helper's name (`pass` for docker-credential-pass), for all registries or for one; may be repeated
    #[arg(long, value_name = "[REGISTRY=]NAME", required = true, value_parser = helper)]
    helper: Vec<(Option<String>, String)>,
    /// Cache duration of the response
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = provider::parse_duration_arg)]
    cache_duration: Duration,
    /// Timeout of a helper
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = provider::parse_duration_arg)]
    timeout: Duration,
}

fn helper(text: &str) -> Result<(Option<String>, String), &'static str> {
    let (registry, name) = match text.split_once('=') {
        Some((registry, name)) => (Some(registry.to_owned()), name),
        None => (None, text),
    };
    // The name becomes part of a file name.
    let is_name = !name.is_empty() && !name.contains('/');
    if is_name { Ok((registry, name.to_owned())) } else { Err("invalid helper name: must not be empty or contain `/`") }
}

/// Runs the provider. `args` begin with the program name.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    provider::run(args, io, |args: &DockerHelperArgs, request| provide(args, platform, request))
}

fn provide(
    args: &DockerHelperArgs,
    platform: &Platform,
    request: &CredentialProviderRequest,
) -> Result<CredentialProviderResponse, Failure> {
    let registry = provider::registry_host(request)?;
    let special = args.helper.iter().find(|(other, _)| other.as_deref() == Some(registry));
    let general = || args.helper.iter().find(|(other, _)| other.is_none());
    let Some((_, name)) = special.or_else(general) else {
        return Ok(provider::empty_response(CacheKeyType::Registry));
    };
    for server in servers(registry) {
        if let Some(found) = block_on(run_helper(name, server, args.timeout, platform))?? {
            if found.username == "<token>" {
                return Err(Failure::new(format!(
                    "docker-credential-{name} returned an identity token for {server}, which is not supported"
                ))
                .hint("kubelets accept only user names and passwords: log in with a password"));
            }
            let auth = AuthConfig { username: found.username, password: found.secret };
            return Ok(CredentialProviderResponse {
                cache_key_type: CacheKeyType::Registry,
                cache_duration: Some(args.cache_duration),
                auth: BTreeMap::from([(registry.to_owned(), auth)]),
            });
        }
    }
    Ok(provider::empty_response(CacheKeyType::Registry))
}

/// The server names to look up. Docker stores logins of Docker Hub under its oldest URL.
fn servers(registry: &str) -> Vec<&str> {
    match registry {
        "docker.io" => vec!["https://index.docker.io/v1/", "index.docker.io", "docker.io"],
        other => vec![other],
    }
}

/// Runs a helper. `None`: it has no credentials for this server.
async fn run_helper(
    name: &str,
    server: &str,
    limit: Duration,
    platform: &Platform,
) -> Result<Option<DockerHelperCredential>, Failure> {
    let command = format!("docker-credential-{name}");
    let program = CommandSpec {
        path: resolve_program(&command, &*platform.env)?,
        args: vec!["get".to_owned()],
        env: build_env(&*platform.env, &EnvInheritance::ALL, []),
        stdin: StdinSource::Bytes(Zeroizing::new(server.as_bytes().to_vec())),
        limits: RunLimits { timeout: limit, ..RunLimits::NON_INTERACTIVE },
    };
    let finished = platform.runner.run(program).await;
    let finished = finished.map_err(|error| Failure::new(format!("`{command}` failed")).because(&error))?;
    if !finished.exit.is_success() {
        return if has_nothing(&finished) { Ok(None) } else { Err(failed(&command, &finished)) };
    }
    let found = DockerHelperCredential::decode(&finished.stdout)
        .map_err(|fault| Failure::new(format!("invalid output from `{command}`: {fault}")))?;
    Ok(Some(found).filter(|found| !found.secret.is_empty()))
}

fn has_nothing(finished: &CompletedProcess) -> bool {
    String::from_utf8_lossy(&finished.stdout).trim() == DockerHelperCredential::NOT_FOUND
}

/// Creates an error with the last line that the helper printed. Helpers print errors on standard output; valid credentials there are
/// not quoted.
fn failed(command: &str, finished: &CompletedProcess) -> Failure {
    let has_credential = DockerHelperCredential::decode(&finished.stdout).is_ok();
    let stdout = if has_credential { &[][..] } else { &finished.stdout[..] };
    let lines = [sanitize_output(&finished.stderr, &finished.stdout, []), sanitize_output(stdout, &[], [])];
    let line = lines.iter().map(|text| last_line(text)).find(|line| !line.is_empty());
    let line = line.map(|line| format!(": {line}")).unwrap_or_default();
    Failure::new(format!("`{command}` {}{line}", finished.exit))
}
