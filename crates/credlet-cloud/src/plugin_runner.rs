//! Argument parsing, runtime and environment helpers of all plugins.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use credlet_api::exec::{ApiVersion, ExecCredentialSpec, ExecCredentialStatus, ExecInfo};
use credlet_exec::{Env, Platform};
use credlet_plugin::{self as plugin, Failure};

/// Parses the arguments. `Err`: help was requested or the arguments are invalid; the message has been printed, and the process
/// should exit with this code.
pub fn parse_args<A: Parser>(args: Vec<OsString>, io: &mut plugin::PluginIo<'_>) -> Result<A, ExitCode> {
    A::try_parse_from(args).map_err(|error| {
        let (to, code) = if error.use_stderr() { (&mut io.stderr, 2) } else { (&mut io.stdout, 0) };
        // The message quotes arguments, which may come from a kubeconfig. A closed stream is not an error.
        let _ = write!(to, "{}", credlet_api::escape_control_chars(&error.render().to_string()));
        ExitCode::from(code)
    })
}

/// Parses the arguments and runs an exec plugin. Without exec info it prints v1beta1.
pub(crate) fn run_exec<A: Parser>(
    args: Vec<OsString>,
    platform: &Platform,
    mut io: plugin::PluginIo<'_>,
    fetch: impl FnOnce(A, ExecInfo) -> Result<ExecCredentialStatus, Failure>,
) -> ExitCode {
    let args = match parse_args(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    default_exec_info(platform, &mut io);
    plugin::run(io, |info: ExecInfo| fetch(args, info))
}

/// Sets v1beta1 exec info if the caller passed none, so that the plugin also works in scripts, like the vendors' plugins.
pub fn default_exec_info(platform: &Platform, io: &mut plugin::PluginIo<'_>) {
    if io.exec_info.as_ref().is_none_or(|info| info.is_empty()) {
        let interactive = platform.env.stdin_is_terminal();
        let spec = ExecCredentialSpec { interactive, ..ExecCredentialSpec::default() };
        io.exec_info = Some(spec.encode(ApiVersion::V1beta1).into());
    }
}

/// Runs a future on a new current-thread runtime.
///
/// # Errors
/// When the runtime cannot be started.
pub fn block_on<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new("failed to start the async runtime").because(&error))?;
    let done = runtime.block_on(work);
    // Do not wait for DNS look-ups that are still in progress.
    runtime.shutdown_background();
    Ok(done)
}

/// Returns an environment variable unless it is empty.
pub fn env_var(env: &dyn Env, name: &str) -> Option<String> {
    env.var(name).map(|value| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
}

/// Replaces a leading `~/` by the home directory, because no shell expands paths in a kubeconfig or a configuration file. Other
/// paths are returned unchanged; a relative path is relative to the current directory, as in the vendors' programs. `None`: the path
/// begins with `~` and the home directory is unknown or another user's; the current directory is never used as a fallback.
pub fn expand_home(path: &Path, env: &dyn Env) -> Option<PathBuf> {
    let is_home = |first: &std::ffi::OsStr| first.as_encoded_bytes().starts_with(b"~");
    match path.components().next().map(|first| first.as_os_str().to_owned()) {
        Some(first) if first == "~" => Some(env.home_dir()?.join(path.strip_prefix("~").ok()?)),
        Some(first) if is_home(&first) => None,
        _ => Some(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use credlet_exec::FixedEnv;

    use super::*;

    #[test]
    fn expands_home_or_returns_none() {
        let expanded = |path: &str, home: &str| expand_home(Path::new(path), &FixedEnv::new([("HOME", home)]));
        assert_eq!(expanded("~/.oci/config", "/home/ada"), Some("/home/ada/.oci/config".into()));
        assert_eq!(expanded("~", "/home/ada"), Some("/home/ada".into()));
        for home in ["", ".", "relative"] {
            assert_eq!(expanded("~/.oci/config", home), None, "{home}");
        }
        assert_eq!(expanded("~bob/.oci/config", "/home/ada"), None);
        assert_eq!(expanded("/etc/oci", ""), Some("/etc/oci".into()));
        assert_eq!(expanded("here/oci", ""), Some("here/oci".into()));
    }
}
