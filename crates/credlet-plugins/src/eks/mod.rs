//! Credentials for Amazon EKS, without awscli.
//!
//! **The path:** [`run`] reads the arguments of either awscli or aws-iam-authenticator → [`aws::Chain`](crate::aws::Chain)
//! finds credentials → `token` signs a URL with them, which needs nobody but this machine → the harness of
//! `credlet-api` prints the answer in the version that was asked for.

mod args;
mod token;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure};
use credlet_api::visible;
use credlet_core::{Env, World};

use self::args::Args;
use crate::aws::{AwsError, Chain, Credentials, Options, Person, Role};
use crate::harness::{self, var};

/// What awscli calls a session, so that the account's log reads as before.
const SESSION_NAME: &str = "EKSGetTokenAuth";

/// The whole of the plugin. `args` begin with the program's name; `person` is asked for codes if the client says that
/// there is one.
///
/// Unlike other plugins this one also answers when nobody has said in which version, in v1beta1: scripts run awscli and
/// aws-iam-authenticator so.
pub fn run(args: Vec<OsString>, world: &World, person: Arc<dyn Person>, mut io: plugin::World<'_>) -> ExitCode {
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    harness::answer_anybody(world, &mut io);
    if args.token_only {
        return alone(&args, world, person, io);
    }
    plugin::run(io, |info: ExecInfo| answer(&args, world, info.spec.interactive.then_some(person)))
}

/// `--token-only`: for a person's script, not for a client.
fn alone(args: &Args, world: &World, person: Arc<dyn Person>, io: plugin::World<'_>) -> ExitCode {
    let person = world.env.stdin_is_terminal().then_some(person);
    let printed = answer(args, world, person).and_then(|status| {
        let printed = writeln!(io.stdout, "{}", status.token.expose()).and_then(|()| io.stdout.flush());
        printed.map_err(|error| Failure::new("nobody took the token").because(&error))
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = write!(io.stderr, "{failure}");
            ExitCode::FAILURE
        }
    }
}

fn answer(args: &Args, world: &World, person: Option<Arc<dyn Person>>) -> Result<ExecCredentialStatus, Failure> {
    if let Some(word) = args.stray() {
        let message = format!("`{}` is no command of this plugin", visible(word));
        return Err(Failure::new(message).hint("it knows `eks get-token` and `token`, which both make a token"));
    }
    let cluster = cluster(args, &*world.env)?;
    let options = {
        let mut options = Options::default();
        (options.profile, options.region, options.ca_bundle) =
            (args.profile.clone(), args.region.clone(), args.ca_bundle.clone());
        options
    };
    let mut chain = Chain::load(options, world.clone()).map_err(failure)?.with_person(person);
    if !args.cache {
        chain = chain.forgetful();
    }
    let credentials = credentials(args, &mut chain, &*world.env)?;
    let status = token::token(&cluster, &chain.sts(), &credentials, world.clock.now());
    if status.token.expose().len() > token::LONGEST {
        let message = format!("the token would be longer than the {} bytes that EKS takes", token::LONGEST);
        return Err(
            Failure::new(message).hint("the session token is very long: assume the role with fewer session tags")
        );
    }
    Ok(status)
}

fn cluster(args: &Args, env: &dyn Env) -> Result<String, Failure> {
    let named = args.cluster().map(str::to_owned).or_else(|| var(env, "KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID"));
    let named =
        named.ok_or_else(|| Failure::new("which cluster?").hint("say it with `--cluster-name NAME` or `-i NAME`"))?;
    // It is signed as a header, and a header is one line.
    if named.chars().any(char::is_control) {
        return Err(Failure::new("the cluster's name has characters that no name has"));
    }
    Ok(named)
}

/// Without a runtime if they are at hand.
fn credentials(args: &Args, chain: &mut Chain, env: &dyn Env) -> Result<Credentials, Failure> {
    let role = args.role.clone().filter(|role| !role.is_empty()).or_else(|| var(env, "DEFAULT_ROLE"));
    if role.is_none()
        && let Some(credentials) = chain.at_hand().map_err(failure)?
    {
        return Ok(credentials);
    }
    let fetched = harness::wait(async {
        if let Some(arn) = role {
            let mut role = Role::new(arn);
            role.external_id = args.external_id.clone();
            role.session_name = args.session_name.clone();
            if args.forward_session_name {
                role.session_name = chain.session_name().await?.or(role.session_name);
            }
            role.session_name.get_or_insert_with(|| SESSION_NAME.to_owned());
            chain.assume_next(role);
        }
        chain.credentials().await
    })?;
    fetched.map_err(failure)
}

fn failure(error: AwsError) -> Failure {
    let hints = error.hints();
    hints.into_iter().fold(Failure::from(error), Failure::hint)
}
