//! Exec plugin that prints the ID token of a CI job, for clusters that trust the CI system's issuer.
//!
//! The token comes from a file, an environment variable, or the token service of the CI system, and is validated before it is printed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use credlet_api::oidc::Jwt;
use credlet_exec::Platform;
use credlet_plugin::{self as plugin, Failure};
use jiff::Timestamp;

use crate::oauth::{self, AccessToken, TokenError};
use crate::plugin_runner::{self, env_var};
use credlet_http::fetch::HttpFetcher;

const WHAT: &str = "token of this CI job";

/// Tolerated clock difference in seconds for tokens that are not valid yet.
const MAX_CLOCK_SKEW: i64 = 300;

/// Print the ID token of a CI job as a credential for a cluster that trusts the CI system's issuer.
#[derive(Debug, Parser)]
#[command(name = "credlet-ci-token", version, args_override_self = true)]
struct CiTokenArgs {
    /// File with the token: a projected service account token, or a file of an earlier step.
    #[arg(long, visible_alias = "token-file", value_name = "FILE", conflicts_with_all = ["variable", "audience"])]
    file: Option<PathBuf>,
    /// Environment variable with the token, as in GitLab (`id_tokens`) and CircleCI.
    #[arg(long = "env", value_name = "NAME", conflicts_with = "audience")]
    variable: Option<String>,
    /// Audience of the token, if it is requested from the CI system, as on GitHub [default: that of the CI system]
    #[arg(long, value_name = "AUDIENCE")]
    audience: Option<String>,
}

/// Runs the plugin. `args` begin with the program name.
///
/// Without `KUBERNETES_EXEC_INFO` it prints v1beta1.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    plugin_runner::run_exec(args, platform, io, |args, _| fetch_credential(&args, platform))
}

fn fetch_credential(args: &CiTokenArgs, platform: &Platform) -> Result<ExecCredentialStatus, Failure> {
    let env = &*platform.env;
    let token = match (&args.file, &args.variable) {
        (Some(path), _) => oauth::read_token_file(path, WHAT).map_err(oauth::into_failure)?,
        (None, Some(name)) => {
            let value = env_var(env, name).map(|value| Secret::new(value.trim()));
            value.filter(|value| !value.is_empty()).ok_or_else(|| {
                let name = credlet_api::escape_control_chars(name);
                Failure::new(format!("environment variable {name} is missing or empty"))
                    .hint("clients pass their whole environment to plugins: check the variables of the job")
            })?
        }
        (None, None) if oauth::ci_id_token_available(env) => {
            let audience = args.audience.as_deref().filter(|audience| !audience.is_empty());
            let token = plugin_runner::block_on(oauth::request_ci_id_token(
                audience,
                &HttpFetcher::new(platform.clock.clone(), platform.env.clone()),
                env,
            ))?
            .map_err(oauth::into_failure)?;
            token.secret().clone()
        }
        (None, None) => {
            return Err(Failure::new("no CI job token found")
                .hint("pass its file with `--file` or its environment variable with `--env`")
                .hint("on GitHub the job needs `permissions: {id-token: write}`"));
        }
    };
    validate(token, platform.clock.now()).map(AccessToken::into_status).map_err(oauth::into_failure)
}

/// Checks that the token is a JWT and currently valid. The cluster would reject it without giving the reason.
fn validate(token: Secret, now: Timestamp) -> Result<AccessToken, TokenError> {
    let invalid = |reason: &str| TokenError::invalid_setting(WHAT, reason);
    let claims = Jwt::parse(&token).ok_or_else(|| invalid("not a JSON web token"))?.claims;
    if claims.nbf.is_some_and(|from| from > now.as_second() + MAX_CLOCK_SKEW) {
        return Err(invalid("not valid yet according to the local clock").with_hint("check the local clock"));
    }
    AccessToken::new(token, None).ensure_valid(WHAT, now)
}
