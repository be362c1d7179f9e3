//! What all providers do alike.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use credlet_api::image::{CacheKeyType, CredentialProviderRequest, CredentialProviderResponse, parse_duration};
use credlet_api::plugin::{self, Failure};

use crate::harness;

/// Reads the arguments, which begin with the program's name, and then the request, and prints the answer.
pub(super) fn run<A: Parser>(
    args: Vec<OsString>,
    mut io: plugin::World<'_>,
    answer: impl FnOnce(&A, &CredentialProviderRequest) -> Result<CredentialProviderResponse, Failure>,
) -> ExitCode {
    match harness::arguments(args, &mut io) {
        Ok(args) => plugin::run(io, |request: CredentialProviderRequest| answer(&args, &request)),
        Err(code) => code,
    }
}

/// The registry that the image is in: all before its first slash, port included.
pub(super) fn registry(request: &CredentialProviderRequest) -> Result<&str, Failure> {
    match request.image.split('/').next() {
        Some(registry) if !registry.is_empty() => Ok(registry),
        _ => Err(Failure::new("the request names no image")),
    }
}

/// The answer of one who has nothing for this registry. It is not remembered: whoever logs in or changes the
/// configuration now wants to pull now.
pub(super) fn nothing(cache_key_type: CacheKeyType) -> CredentialProviderResponse {
    CredentialProviderResponse { cache_key_type, cache_duration: Some(Duration::ZERO), auth: BTreeMap::new() }
}

/// A duration of an argument.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| format!("it {error}"))?;
    Duration::try_from(duration).map_err(|_| "it is negative".to_owned())
}

/// Without the flags of the published providers that say what they log and where. Nothing is logged here.
pub(super) fn without_log_flags(args: Vec<OsString>) -> Vec<OsString> {
    const ALONE: [&str; 8] = [
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
    let mut kept = Vec::with_capacity(args.len());
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
            _ if is_short || ALONE.contains(&&*name) => {}
            Some(_) if WITH_VALUE.contains(&&*name) => {}
            None if WITH_VALUE.contains(&&*name) => drop(args.next()),
            _ => kept.push(arg),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_about_logs_are_left_out_and_no_others() {
        let kept = |line: &str| {
            let args = without_log_flags(line.split_whitespace().map(OsString::from).collect());
            args.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept("p get-credentials --v=3 x"), "p get-credentials x");
        assert_eq!(kept("p --v 3 -v 4 -v=5 -v6 --logtostderr --log_dir=/x --alsologtostderr=true x"), "p x");
        assert_eq!(kept("p --vault 3 -a gcr -vv --log x v -- --x"), "p --vault 3 -a gcr -vv --log x v -- --x");
        assert_eq!(kept("p --v"), "p");
    }
}
