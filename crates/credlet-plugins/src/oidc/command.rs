//! The plugin's words: `get-token` for clients; `login`, `logout` and `status` for people.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand, ValueEnum};
use credlet_api::exec::ExecInfo;
use credlet_api::plugin::{self, Failure};
use credlet_api::visible;
use credlet_core::World;

use super::{Asked, Error, Options, Session, Settings, Talk, directory, failure, log_in, log_out, sessions, token};
use crate::harness;

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
    Login(Box<Options>),
    /// Give the refresh token back to the issuer, and forget the login
    Logout(Box<Options>),
    /// Show who is logged in where
    Status(StatusArgs),
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// How to write it
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Where tokens are kept
    #[arg(long, value_name = "DIR")]
    token_cache_dir: Option<std::path::PathBuf>,
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
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match args.verb {
        Verb::GetToken(options) => return get_token(&options, world, talk, io),
        Verb::Login(options) => login(&options, world, talk, io.stdout),
        Verb::Logout(options) => logout(&options, world, talk, io.stdout),
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
    said(writeln!(stdout, "Logged out {} at {}.", line(&ended.session.account), line(&ended.session.issuer)))?;
    if let Some(Err(error)) = ended.revoked {
        talk.say(&format!("warning: the issuer has not taken the refresh token back: {}", error.story()));
    }
    Ok(())
}

fn status(args: &StatusArgs, world: &World, stdout: &mut dyn Write) -> Result<(), Failure> {
    let directory =
        directory(args.token_cache_dir.as_deref(), &*world.env).ok_or(Error::Missing("--token-cache-dir"))?;
    let problem = |error| Failure::new(format!("the logins in {} cannot be read", directory.display())).because(&error);
    let sessions = sessions(&directory, world.clock.now()).map_err(problem)?;
    match args.output {
        Output::Json => {
            let list: Vec<_> = sessions.iter().map(json).collect();
            said(writeln!(stdout, "{}", serde_json::json!({ "sessions": list })))
        }
        Output::Text if sessions.is_empty() => said(writeln!(stdout, "Nobody is logged in.")),
        Output::Text => sessions.iter().try_for_each(|session| said(writeln!(stdout, "{}", described(session)))),
    }
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
