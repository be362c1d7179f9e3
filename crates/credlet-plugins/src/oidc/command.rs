//! The plugin's words: `get-token` for clients; `login`, `logout` and `status` for people.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand, ValueEnum};
use credlet_api::exec::ExecInfo;
use credlet_api::plugin::{self, Failure};
use credlet_api::visible;
use credlet_core::World;

use super::context::known;
use super::{
    Asked, Ended, Error, Options, Session, Settings, Talk, directory, failure, log_in, log_out, log_out_all, sessions,
    token,
};
use crate::harness;
use crate::store::StoreError;

/// Tokens of an OpenID Connect issuer for Kubernetes
#[derive(Debug, Parser)]
#[command(
    name = "credlet-oidc",
    bin_name = "credlet plugin oidc",
    disable_version_flag = true,
    args_override_self = true
)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Give a Kubernetes client a token; let a person log in if there is no other way
    GetToken(Box<Options>),
    /// Log in now
    Login(Box<LoginArgs>),
    /// Give the refresh token back to the issuer, and forget the login
    Logout(Box<LogoutArgs>),
    /// Show who is logged in where
    Status(StatusArgs),
}

#[derive(Debug, clap::Args)]
struct LoginArgs {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
struct LogoutArgs {
    #[command(flatten)]
    login: LoginArgs,
    /// Every login in the directory
    #[arg(long)]
    all: bool,
}

/// Which login, if not by its flags.
#[derive(Debug, clap::Args)]
struct Which {
    /// Take the flags of this context's plugin, in the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Take the flags of a plugin in this kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// How to write it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Where tokens are kept
    #[arg(long, value_name = "DIR")]
    token_cache_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

/// The whole of the plugin. `args` begin with the program's name; `talk` is for the person behind the client.
///
/// Like kubelogin it also answers when nobody has said in which version, in v1beta1: scripts run it so.
pub fn run(args: Vec<OsString>, world: &World, talk: &Arc<dyn Talk>, mut io: plugin::World<'_>) -> ExitCode {
    let words = args.clone();
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match args.verb {
        Verb::GetToken(options) => return get_token(&options, world, talk, io),
        Verb::Login(args) => chosen(*args, &words, world).and_then(|options| login(&options, world, talk, io.stdout)),
        Verb::Logout(args) if args.all => logout_all(&args.login.options, world, talk, io.stdout),
        Verb::Logout(args) => {
            chosen(args.login, &words, world).and_then(|options| logout(&options, world, talk, io.stdout))
        }
        Verb::Status(args) => status(&args, world, io.stdout),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = write!(io.stderr, "{failure}");
            ExitCode::FAILURE
        }
    }
}

fn get_token(options: &Options, world: &World, talk: &Arc<dyn Talk>, mut io: plugin::World<'_>) -> ExitCode {
    harness::answer_anybody(world, &mut io);
    plugin::run(io, |info: ExecInfo| {
        let settings = settings(options, world)?;
        let asked = Asked::by(&info, &*world.env);
        wait(token(&settings, &asked, world, talk))
    })
}

fn login(options: &Options, world: &World, talk: &Arc<dyn Talk>, stdout: &mut dyn Write) -> Result<(), Failure> {
    let settings = settings(options, world)?;
    let session = wait(log_in(&settings, &Asked { person: true, ..Asked::default() }, world, talk))?;
    said(writeln!(stdout, "Logged in at {} as {}.", line(&session.issuer), line(&session.account)))
}

fn logout(options: &Options, world: &World, talk: &Arc<dyn Talk>, stdout: &mut dyn Write) -> Result<(), Failure> {
    let settings = settings(options, world)?;
    let ended = wait(log_out(&settings, world, talk))?;
    logged_out(&ended, talk, stdout)
}

fn logout_all(options: &Options, world: &World, talk: &Arc<dyn Talk>, stdout: &mut dyn Write) -> Result<(), Failure> {
    let directory = directory(options.token_cache_dir.as_deref(), &*world.env);
    let directory = directory.ok_or(Error::Missing("--token-cache-dir")).map_err(|error| failure(&error))?;
    let ended = wait(async { Ok(log_out_all(&directory, world).await) })?;
    let ended = ended.map_err(|error| unreadable(&directory, &error))?;
    if ended.is_empty() {
        return said(writeln!(stdout, "Nobody is logged in."));
    }
    ended.iter().try_for_each(|ended| logged_out(ended, talk, stdout))
}

fn logged_out(ended: &Ended, talk: &Arc<dyn Talk>, stdout: &mut dyn Write) -> Result<(), Failure> {
    said(writeln!(stdout, "Logged out {} at {}.", line(&ended.session.account), line(&ended.session.issuer)))?;
    if let Some(Err(error)) = &ended.revoked {
        talk.say(&format!("warning: the issuer has not taken the refresh token back: {}", error.story()));
    }
    Ok(())
}

/// The flags of the context, if one is named, and over them those that were given.
fn chosen(args: LoginArgs, words: &[OsString], world: &World) -> Result<Options, Failure> {
    let Which { context, kubeconfig } = args.which;
    if context.is_none() && kubeconfig.is_none() {
        return Ok(args.options);
    }
    let known = known(context.as_deref(), kubeconfig.as_deref(), &*world.env)?;
    let given = words.iter().skip(2).cloned();
    let all = [OsString::from("credlet-oidc"), "login".into()].into_iter().chain(known.flags).chain(given);
    // Not the parser's words: they quote what they do not understand, which may be a secret.
    let not_ours = |_| Failure::new("the flags of the plugin in the kubeconfig are not those of this one");
    let Verb::Login(args) = Args::try_parse_from(all).map_err(not_ours)?.verb else {
        return Err(Failure::new("the plugin in the kubeconfig is not this one"));
    };
    let mut options = args.options;
    options.client_secret = options.client_secret.or(known.client_secret);
    Ok(options)
}

fn status(args: &StatusArgs, world: &World, stdout: &mut dyn Write) -> Result<(), Failure> {
    let directory = directory(args.token_cache_dir.as_deref(), &*world.env).ok_or(Error::Missing("--token-cache-dir"));
    let directory = directory.map_err(|error| failure(&error))?;
    let sessions = sessions(&directory, world.clock.now()).map_err(|error| unreadable(&directory, &error))?;
    match args.output {
        Output::Json => {
            let list: Vec<_> = sessions.iter().map(json).collect();
            said(writeln!(stdout, "{}", serde_json::json!({ "sessions": list })))
        }
        Output::Text if sessions.is_empty() => said(writeln!(stdout, "Nobody is logged in.")),
        Output::Text => sessions.iter().try_for_each(|session| said(writeln!(stdout, "{}", described(session)))),
    }
}

fn unreadable(directory: &Path, error: &StoreError) -> Failure {
    Failure::new(format!("the logins in {} cannot be read", directory.display())).because(error)
}

fn json(session: &Session) -> serde_json::Value {
    serde_json::json!({
        "issuer": session.issuer,
        "clientId": session.client_id,
        "account": session.account,
        "expires": session.expires.map(|at| at.to_string()),
        "good": session.good,
        "renewable": session.renewable,
        "problem": session.problem,
    })
}

fn described(session: &Session) -> String {
    let account = if session.account.is_empty() { "nobody" } else { &session.account };
    let token = match (session.good, session.expires) {
        (true, Some(at)) => format!("token good until {at}"),
        (_, Some(at)) => format!("token expired at {at}"),
        (_, None) => "no token".to_owned(),
    };
    let next = if session.renewable { "renewed by itself" } else { "the next one needs a login" };
    let problem = session.problem.as_deref().map(|why| format!("\n  the last login did not succeed: {}", line(why)));
    let (account, issuer, client) = (line(account), line(&session.issuer), line(&session.client_id));
    format!("{account} at {issuer} (client {client})\n  {token}, {next}{}", problem.unwrap_or_default())
}

fn settings(options: &Options, world: &World) -> Result<Settings, Failure> {
    Settings::new(options, &*world.env).map_err(|error| failure(&error))
}

/// Runs to the end.
fn wait<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
    harness::wait(work)?.map_err(|error| failure(&error))
}

/// Nobody reading is not an error.
fn said(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new("nobody took the answer").because(&error))
        }
        _ => Ok(()),
    }
}

fn line(text: &str) -> String {
    visible(text).replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Options {
        let args = Args::try_parse_from(["credlet-oidc", "get-token"].into_iter().chain(words.split_whitespace()));
        match args.unwrap().verb {
            Verb::GetToken(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn kubelogins_flags_are_read_as_go_reads_them() {
        let options = options(
            "--oidc-issuer-url=https://a --oidc-issuer-url https://b --oidc-client-id c --oidc-client-secret=hunter2 \
             --oidc-extra-scope email,groups --oidc-extra-scope=offline_access --oidc-use-pkce --skip-open-browser=true \
             --force-refresh=false --grant-type device-code --listen-address 127.0.0.1:1 --oidc-pkce-method s256 \
             --token-cache-storage none --certificate-authority ca.pem --authentication-timeout-sec=5",
        );
        assert_eq!(options.issuer_url.as_deref(), Some("https://b"), "the last one stands");
        assert_eq!(options.extra_scopes, ["email", "groups", "offline_access"]);
        assert!(options.use_pkce && options.skip_open_browser && !options.force_refresh);
        assert_eq!(options.authentication_timeout_sec, 5);
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn a_mistake_in_the_flags_does_not_show_the_secret() {
        let words = ["credlet-oidc", "get-token", "--oidc-client-secret=hunter2", "--nonsense"];
        let error = Args::try_parse_from(words).unwrap_err();
        assert!(!error.render().to_string().contains("hunter2"));
    }
}
