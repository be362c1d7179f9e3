//! Exec plugin for Amazon EKS, a replacement of `aws eks get-token` and `aws-iam-authenticator token`.
//!
//! [`run`] parses the arguments of either program. An [`aws::CredentialChain`](crate::aws::CredentialChain) provides AWS credentials,
//! and `token` presigns an STS URL with them, without a request to EKS.

mod args;
mod token;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::escape_control_chars;
use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_exec::{Env, Platform};
use credlet_plugin::{self as plugin, Failure};

use self::args::EksArgs;
use crate::aws::{AwsCredentials, AwsError, AwsOptions, AwsRole, CredentialChain, MfaPrompt};
use crate::plugin_runner::{self, env_var};

/// Session name of awscli, so that CloudTrail entries do not change.
const SESSION_NAME: &str = "EKSGetTokenAuth";

/// Runs the plugin. `args` begin with the program name. `mfa_prompt` is used if the client is interactive.
///
/// Without `KUBERNETES_EXEC_INFO` it prints v1beta1, like awscli and aws-iam-authenticator.
pub fn run(
    args: Vec<OsString>,
    platform: &Platform,
    mfa_prompt: Arc<dyn MfaPrompt>,
    mut io: plugin::PluginIo<'_>,
) -> ExitCode {
    let args: EksArgs = match plugin_runner::parse_args(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    plugin_runner::default_exec_info(platform, &mut io);
    if args.token_only {
        return print_token_only(&args, platform, mfa_prompt, io);
    }
    plugin::run(io, |info: ExecInfo| fetch_credential(&args, platform, info.spec.interactive.then_some(mfa_prompt)))
}

/// `--token-only`: prints the token without the `ExecCredential` around it.
fn print_token_only(
    args: &EksArgs,
    platform: &Platform,
    mfa_prompt: Arc<dyn MfaPrompt>,
    io: plugin::PluginIo<'_>,
) -> ExitCode {
    let mfa_prompt = platform.env.stdin_is_terminal().then_some(mfa_prompt);
    let printed = fetch_credential(args, platform, mfa_prompt).and_then(|status| {
        let printed = writeln!(io.stdout, "{}", status.token.expose()).and_then(|()| io.stdout.flush());
        printed.map_err(|error| Failure::new("failed to write the token to stdout").because(&error))
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = write!(io.stderr, "{failure}");
            ExitCode::FAILURE
        }
    }
}

fn fetch_credential(
    args: &EksArgs,
    platform: &Platform,
    mfa_prompt: Option<Arc<dyn MfaPrompt>>,
) -> Result<ExecCredentialStatus, Failure> {
    if let Some(command) = args.unexpected_command() {
        let message = format!("unknown command `{}`", escape_control_chars(command));
        return Err(Failure::new(message).hint("use `eks get-token` or `token`"));
    }
    let cluster = cluster(args, &*platform.env)?;
    let options = {
        let mut options = AwsOptions::default();
        (options.profile, options.region, options.ca_bundle) =
            (args.profile.clone(), args.region.clone(), args.ca_bundle.clone());
        options
    };
    let mut chain = CredentialChain::load(options, platform.clone()).map_err(failure)?.with_mfa_prompt(mfa_prompt);
    if !args.cache {
        chain = chain.without_cache();
    }
    let credentials = credentials(args, &chain, &*platform.env)?;
    let status = token::token(&cluster, &chain.sts(), &credentials, platform.clock.now());
    if status.token.expose().len() > token::MAX_TOKEN_LEN {
        let message = format!("the token exceeds the limit of {} bytes of EKS", token::MAX_TOKEN_LEN);
        return Err(
            Failure::new(message).hint("the session token is too long: assume the role with fewer session tags")
        );
    }
    Ok(status)
}

fn cluster(args: &EksArgs, env: &dyn Env) -> Result<String, Failure> {
    let named = args.cluster().map(str::to_owned).or_else(|| env_var(env, "KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID"));
    let named =
        named.ok_or_else(|| Failure::new("missing cluster name").hint("pass `--cluster-name NAME` or `-i NAME`"))?;
    // The name is signed as a header value.
    if named.chars().any(char::is_control) {
        return Err(Failure::new("invalid cluster name: contains control characters"));
    }
    Ok(named)
}

/// The credentials to sign with. Static credentials need no runtime.
fn credentials(args: &EksArgs, chain: &CredentialChain, env: &dyn Env) -> Result<AwsCredentials, Failure> {
    let role = args.role.clone().filter(|role| !role.is_empty()).or_else(|| env_var(env, "DEFAULT_ROLE"));
    if role.is_none()
        && let Some(credentials) = chain.static_credentials().map_err(failure)?
    {
        return Ok(credentials);
    }
    let fetched = plugin_runner::block_on(async {
        let credentials = chain.credentials().await?;
        let Some(arn) = role else { return Ok(credentials) };
        let mut role = AwsRole::new(arn);
        role.external_id = args.external_id.clone();
        role.session_name = args.session_name.clone();
        if args.forward_session_name {
            role.session_name = chain.session_name(&credentials).await?.or(role.session_name);
        }
        role.session_name.get_or_insert_with(|| SESSION_NAME.to_owned());
        chain.assume_role(&role, &credentials).await
    })?;
    fetched.map_err(failure)
}

fn failure(error: AwsError) -> Failure {
    let hints = error.hints();
    hints.into_iter().fold(Failure::from(error), Failure::hint)
}
