//! `credlet plugin oidc`: `get-token` for Kubernetes clients; `login`, `logout` and `status` for users.

mod kubeconfig_flags;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand, ValueEnum};
use credlet_api::escape_control_chars;
use credlet_api::exec::ExecInfo;
use credlet_exec::Platform;
use credlet_plugin::{self as plugin, Failure};

use credlet_cloud::plugin_runner;
use credlet_exec::cache;
use credlet_exec::store::StoreError;
use credlet_oidc::{
    LoginRequest, LoginSession, LogoutResult, OidcError, OidcOptions, OidcSettings, UserOutput, directory, log_in,
    log_out, log_out_all, plugin_failure, sessions, token,
};

use self::kubeconfig_flags::KubeconfigFlags;

/// Get tokens of an OpenID Connect issuer for Kubernetes
#[derive(Debug, Parser)]
#[command(
    name = "credlet-oidc",
    bin_name = "credlet plugin oidc",
    disable_version_flag = true,
    args_override_self = true
)]
struct OidcArgs {
    #[command(subcommand)]
    command: OidcCommand,
}

#[derive(Debug, Subcommand)]
enum OidcCommand {
    /// Print a token for a Kubernetes client, after a login if necessary
    GetToken(Box<OidcOptions>),
    /// Log in now
    Login(Box<LoginArgs>),
    /// Revoke the refresh token, remove the login, and invalidate cached credentials
    Logout(Box<LogoutArgs>),
    /// List stored logins
    Status(StatusArgs),
}

#[derive(Debug, clap::Args)]
struct LoginArgs {
    #[command(flatten)]
    options: OidcOptions,
    #[command(flatten)]
    kubeconfig: KubeconfigArgs,
}

#[derive(Debug, clap::Args)]
struct LogoutArgs {
    #[command(flatten)]
    login: LoginArgs,
    /// Log out every login in the directory
    #[arg(long)]
    all: bool,
}

/// Kubeconfig to take the flags of a login from.
#[derive(Debug, clap::Args)]
struct KubeconfigArgs {
    /// Use the plugin flags of this kubeconfig context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Kubeconfig with the plugin flags
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: StatusFormat,
    /// Directory of stored logins
    #[arg(long, value_name = "DIR")]
    token_cache_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum StatusFormat {
    #[default]
    Text,
    Json,
}

/// Runs the plugin. `args` start with the program's name; `output` shows messages of a login to the user.
///
/// Without `KUBERNETES_EXEC_INFO` it prints v1beta1 as kubelogin does, because scripts run it that way.
pub(crate) fn run(
    args: Vec<OsString>,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
    mut io: plugin::PluginIo<'_>,
) -> ExitCode {
    let args_os = args.clone();
    let args: OidcArgs = match plugin_runner::parse_args(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match args.command {
        OidcCommand::GetToken(options) => return get_token(&options, platform, output, io),
        OidcCommand::Login(args) => {
            merge_options(*args, &args_os, platform).and_then(|options| login(&options, platform, output, io.stdout))
        }
        OidcCommand::Logout(args) if args.all => logout_all(&args.login.options, platform, output, io.stdout),
        OidcCommand::Logout(args) => merge_options(args.login, &args_os, platform)
            .and_then(|options| logout(&options, platform, output, io.stdout)),
        OidcCommand::Status(args) => status(&args, platform, io.stdout),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = write!(io.stderr, "{failure}");
            ExitCode::FAILURE
        }
    }
}

fn get_token(
    options: &OidcOptions,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
    mut io: plugin::PluginIo<'_>,
) -> ExitCode {
    plugin_runner::default_exec_info(platform, &mut io);
    plugin::run(io, |info: ExecInfo| {
        let settings = settings(options, platform)?;
        let request = LoginRequest::from_exec_info(&info, &*platform.env);
        block_on(token(&settings, &request, platform, output))
    })
}

fn login(
    options: &OidcOptions,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let settings = settings(options, platform)?;
    let request = LoginRequest { interactive: true, ..LoginRequest::default() };
    let session = block_on(log_in(&settings, &request, platform, output))?;
    // The login may be of another account.
    invalidate_cache(platform, output);
    write_result(writeln!(stdout, "Logged in at {} as {}.", line(&session.issuer), line(&session.account)))
}

fn logout(
    options: &OidcOptions,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let settings = settings(options, platform)?;
    let result = block_on(log_out(&settings, platform, output));
    invalidate_cache(platform, output);
    print_logout(&result?, output, stdout)
}

/// Invalidates every cached credential of this user: it is unknown which of them come from this login, because the plugin may run
/// under another name, in a script, or with another environment. Called after the login is removed, so that none is stored again.
fn invalidate_cache(platform: &Platform, output: &Arc<dyn UserOutput>) {
    if let Err(error) = cache::invalidate_all(&*platform.env) {
        output.print_line(&format!("warning: {error}"));
    }
}

fn logout_all(
    options: &OidcOptions,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let directory = login_directory(options.token_cache_dir.as_deref(), platform)?;
    let results = block_on(async { Ok(log_out_all(&directory, platform).await) });
    invalidate_cache(platform, output);
    let results = results?.map_err(|error| unreadable(&directory, &error))?;
    if results.is_empty() {
        return write_result(writeln!(stdout, "No logins are stored."));
    }
    results.iter().try_for_each(|result| print_logout(result, output, stdout))
}

/// Returns the directory of the stored logins.
fn login_directory(flag: Option<&Path>, platform: &Platform) -> Result<PathBuf, Failure> {
    let found = directory(flag, &*platform.env);
    found.ok_or_else(|| plugin_failure(&OidcError::MissingFlag("--token-cache-dir")))
}

fn print_logout(result: &LogoutResult, output: &Arc<dyn UserOutput>, stdout: &mut dyn Write) -> Result<(), Failure> {
    write_result(writeln!(
        stdout,
        "Logged out {} at {}.",
        line(&result.session.account),
        line(&result.session.issuer)
    ))?;
    if let Some(Err(error)) = &result.revoked {
        output.print_line(&format!("warning: failed to revoke the refresh token: {}", error.to_chained_string()));
    }
    Ok(())
}

/// Returns the flags of the command line, over those of the kubeconfig if one is named.
fn merge_options(args: LoginArgs, args_os: &[OsString], platform: &Platform) -> Result<OidcOptions, Failure> {
    let KubeconfigArgs { context, kubeconfig } = args.kubeconfig;
    if context.is_none() && kubeconfig.is_none() {
        return Ok(args.options);
    }
    let configured = KubeconfigFlags::load(context.as_deref(), kubeconfig.as_deref(), &*platform.env)?;
    let given = args_os.iter().skip(2).cloned();
    let all = [OsString::from("credlet-oidc"), "login".into()].into_iter().chain(configured.flags).chain(given);
    // The error of clap is dropped, because it quotes arguments, which may be secrets.
    let invalid = |_| Failure::new("invalid flags of the plugin in the kubeconfig");
    let OidcCommand::Login(args) = OidcArgs::try_parse_from(all).map_err(invalid)?.command else {
        return Err(Failure::new("unexpected command of the plugin in the kubeconfig"));
    };
    let mut options = args.options;
    options.client_secret = options.client_secret.or(configured.client_secret);
    Ok(options)
}

fn status(args: &StatusArgs, platform: &Platform, stdout: &mut dyn Write) -> Result<(), Failure> {
    let directory = login_directory(args.token_cache_dir.as_deref(), platform)?;
    let sessions = sessions(&directory, platform.clock.now()).map_err(|error| unreadable(&directory, &error))?;
    match args.output {
        StatusFormat::Json => {
            let list: Vec<_> = sessions.iter().map(json).collect();
            let document = serde_json::json!({ "sessions": list }).to_string();
            write_result(writeln!(stdout, "{}", credlet_api::escape_json(&document)))
        }
        StatusFormat::Text if sessions.is_empty() => write_result(writeln!(stdout, "No logins are stored.")),
        StatusFormat::Text => {
            sessions.iter().try_for_each(|session| write_result(writeln!(stdout, "{}", describe(session))))
        }
    }
}

fn unreadable(directory: &Path, error: &StoreError) -> Failure {
    Failure::new(format!("failed to read the logins in {}", directory.display())).because(error)
}

fn json(session: &LoginSession) -> serde_json::Value {
    serde_json::json!({
        "issuer": session.issuer,
        "clientId": session.client_id,
        "account": session.account,
        "expires": session.expires.map(|at| at.to_string()),
        "good": session.valid,
        "renewable": session.renewable,
        "problem": session.problem,
    })
}

fn describe(session: &LoginSession) -> String {
    let account = if session.account.is_empty() { "not logged in" } else { &session.account };
    let token = match (session.valid, session.expires) {
        (true, Some(at)) => format!("token valid until {at}"),
        (_, Some(at)) => format!("token expired at {at}"),
        (_, None) => "no token".to_owned(),
    };
    let next = if session.renewable { "refreshed automatically" } else { "the next token requires a login" };
    let problem = session.problem.as_deref().map(|why| format!("\n  the last login failed: {}", line(why)));
    let (account, issuer, client) = (line(account), line(&session.issuer), line(&session.client_id));
    format!("{account} at {issuer} (client {client})\n  {token}, {next}{}", problem.unwrap_or_default())
}

fn settings(options: &OidcOptions, platform: &Platform) -> Result<OidcSettings, Failure> {
    OidcSettings::new(options, &*platform.env).map_err(|error| plugin_failure(&error))
}

/// Runs to the end.
fn block_on<T>(work: impl Future<Output = Result<T, OidcError>>) -> Result<T, Failure> {
    plugin_runner::block_on(work)?.map_err(|error| plugin_failure(&error))
}

/// Converts an error of writing to standard output. A closed pipe is not an error.
fn write_result(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new("failed to write to stdout").because(&error))
        }
        _ => Ok(()),
    }
}

fn line(text: &str) -> String {
    escape_control_chars(text).replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args_os: &str) -> OidcOptions {
        let args =
            OidcArgs::try_parse_from(["credlet-oidc", "get-token"].into_iter().chain(args_os.split_whitespace()));
        match args.unwrap().command {
            OidcCommand::GetToken(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kubelogin_flags_are_parsed_like_go() {
        let options = options(
            "--oidc-issuer-url=https://a --oidc-issuer-url https://b --oidc-client-id c --oidc-client-secret=hunter2 \
             --oidc-extra-scope email,groups --oidc-extra-scope=offline_access --oidc-use-pkce --skip-open-browser=true \
             --force-refresh=false --grant-type device-code --listen-address 127.0.0.1:1 --oidc-pkce-method s256 \
             --token-cache-storage none --certificate-authority ca.pem --authentication-timeout-sec=5",
        );
        assert_eq!(options.issuer_url.as_deref(), Some("https://b"), "the last one counts");
        assert_eq!(options.extra_scopes, ["email", "groups", "offline_access"]);
        assert!(options.use_pkce && options.skip_open_browser && !options.force_refresh);
        assert_eq!(options.authentication_timeout_sec, 5);
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn usage_error_redacts_secret() {
        let args_os = ["credlet-oidc", "get-token", "--oidc-client-secret=hunter2", "--nonsense"];
        let error = OidcArgs::try_parse_from(args_os).unwrap_err();
        assert!(!error.render().to_string().contains("hunter2"));
    }
}
