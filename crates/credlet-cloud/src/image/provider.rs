//! Request handling and arguments that all providers share.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use credlet_api::image::{CacheKeyType, CredentialProviderRequest, CredentialProviderResponse};
use credlet_plugin::{self as plugin, Failure};

use crate::plugin_runner;

/// Parses the arguments, which begin with the program name, reads the request from standard input and prints the response.
pub(super) fn run<A: Parser>(
    args: Vec<OsString>,
    mut io: plugin::PluginIo<'_>,
    response: impl FnOnce(&A, &CredentialProviderRequest) -> Result<CredentialProviderResponse, Failure>,
) -> ExitCode {
    match plugin_runner::parse_args(args, &mut io) {
        Ok(args) => plugin::run(io, |request: CredentialProviderRequest| response(&args, &request)),
        Err(code) => code,
    }
}

/// Returns host and port of the image's registry: everything before the first slash.
pub(super) fn registry_host(request: &CredentialProviderRequest) -> Result<&str, Failure> {
    match request.image.split('/').next() {
        Some(registry) if !registry.is_empty() => Ok(registry),
        _ => Err(Failure::new("invalid request: missing image")),
    }
}

/// A response without credentials, for a registry of another provider. It is not cached, so that a login or a change of the
/// configuration takes effect at once.
pub(super) fn empty_response(cache_key_type: CacheKeyType) -> CredentialProviderResponse {
    CredentialProviderResponse { cache_key_type, cache_duration: Some(Duration::ZERO), auth: BTreeMap::new() }
}

/// Parses a non-negative duration.
pub(super) fn parse_duration_arg(text: &str) -> Result<Duration, String> {
    credlet_api::duration::parse_unsigned(text).map_err(|error| error.to_string())
}

/// Removes the log flags of the upstream providers.
pub(super) fn without_log_flags(args: Vec<OsString>) -> Vec<OsString> {
    const BOOLEAN: [&str; 8] = [
        "add-dir-header",
        "alsologtostderr",
        "log-json-split-stream",
        "log-text-split-stream",
        "logtostderr",
        "one-output",
        "skip-headers",
        "skip-log-headers",
    ];
    const WITH_VALUE: [&str; 11] = [
        "log-backtrace-at",
        "log-dir",
        "log-file",
        "log-file-max-size",
        "log-flush-frequency",
        "log-json-info-buffer-size",
        "log-text-info-buffer-size",
        "logging-format",
        "stderrthreshold",
        "v",
        "vmodule",
    ];
    let mut cache = Vec::with_capacity(args.len());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let text = arg.to_str().unwrap_or_default();
        let flag = text.strip_prefix("--").or_else(|| text.strip_prefix('-').filter(|flag| flag.starts_with('v')));
        let is_short = text.strip_prefix("-v").is_some_and(|level| level.parse::<u8>().is_ok());
        let (name, value) = match flag.map(|flag| flag.split_once('=').map_or((flag, None), |(n, v)| (n, Some(v)))) {
            Some((name, value)) => (name.replace('_', "-"), value),
            None => (String::new(), None),
        };
        match value {
            _ if is_short || BOOLEAN.contains(&&*name) => {}
            Some(_) if WITH_VALUE.contains(&&*name) => {}
            None if WITH_VALUE.contains(&&*name) => drop(args.next()),
            _ => cache.push(arg),
        }
    }
    cache
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_only_log_flags() {
        let cache = |line: &str| {
            let args = without_log_flags(line.split_whitespace().map(OsString::from).collect());
            args.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(cache("p get-credentials --v=3 x"), "p get-credentials x");
        assert_eq!(cache("p --v 3 -v 4 -v=5 -v6 --logtostderr --log_dir=/x --alsologtostderr=true x"), "p x");
        assert_eq!(cache("p --vault 3 -a gcr -vv --log x v -- --x"), "p --vault 3 -a gcr -vv --log x v -- --x");
        assert_eq!(cache("p --v"), "p");
    }
}
