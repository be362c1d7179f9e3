//! The token of a CI job as a credential: clusters can trust the CI system's issuer directly.
//!
//! **The path:** a file, a variable or the CI's own endpoint → a JWT, which says itself how long it is good → the harness
//! of `credlet-api` prints it. Nobody is asked but the endpoint, and that only if there is nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use credlet_api::Secret;
use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::oidc::Jwt;
use credlet_api::plugin::{self, Failure};
use credlet_core::World;
use jiff::Timestamp;

use crate::harness::{self, var};
use crate::oauth::{self, AccessToken, Error};
use crate::web::Web;

const WHAT: &str = "the token of this job";

/// How far two clocks may be apart before a token from the future is refused: 5 minutes.
const SKEW: i64 = 300;

/// The token of a CI job as a credential for a cluster that trusts the CI's issuer.
#[derive(Debug, Parser)]
#[command(name = "credlet-ci-token", version, args_override_self = true)]
struct Args {
    /// The file with the token: a projected service account token, or one that an earlier step has written.
    #[arg(long, visible_alias = "token-file", value_name = "FILE", conflicts_with_all = ["variable", "audience"])]
    file: Option<PathBuf>,
    /// The variable with the token, as GitLab's `id_tokens` and CircleCI have it.
    #[arg(long = "env", value_name = "NAME", conflicts_with = "audience")]
    variable: Option<String>,
    /// Whom the token is to be for, if the CI is asked for one, as GitHub is [default: the CI's own]
    #[arg(long, value_name = "AUDIENCE")]
    audience: Option<String>,
}

/// The whole of the plugin. `args` begin with the program's name.
///
/// It also answers when nobody has said in which version, in v1beta1.
pub fn run(args: Vec<OsString>, world: &World, mut io: plugin::World<'_>) -> ExitCode {
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    harness::answer_anybody(world, &mut io);
    plugin::run(io, |_: ExecInfo| answer(&args, world))
}

fn answer(args: &Args, world: &World) -> Result<ExecCredentialStatus, Failure> {
    let env = &*world.env;
    let token = match (&args.file, &args.variable) {
        (Some(path), _) => oauth::token_file(path, WHAT).map_err(oauth::failure)?,
        (None, Some(name)) => {
            let value = var(env, name).map(|value| Secret::new(value.trim()));
            value.filter(|value| !value.is_empty()).ok_or_else(|| {
                let name = credlet_api::visible(name);
                Failure::new(format!("the variable {name} is not set, or empty"))
                    .hint("clients pass all of their environment to plugins: see whether the job has it")
            })?
        }
        (None, None) if oauth::is_offered(env) => {
            let audience = args.audience.as_deref().filter(|audience| !audience.is_empty());
            harness::wait(oauth::id_token(audience, &Web::new(world), env))?.map_err(oauth::failure)?
        }
        (None, None) => {
            return Err(Failure::new("there is no token of a CI job")
                .hint("name its file with `--file` or its variable with `--env`")
                .hint("on GitHub the job needs `permissions: {id-token: write}`"));
        }
    };
    checked(token, world.clock.now()).map(AccessToken::status).map_err(oauth::failure)
}

/// What is no token, is over, or is not good yet would be refused by the cluster, which does not say why.
fn checked(token: Secret, now: Timestamp) -> Result<AccessToken, Error> {
    let wrong = |reason: &str| Error::config(WHAT, reason);
    let claims = Jwt::parse(&token).ok_or_else(|| wrong("is not a JSON web token"))?.claims;
    if claims.nbf.is_some_and(|from| from > now.as_second() + SKEW) {
        return Err(
            wrong("is not good yet by this machine's clock").advise("see whether this machine's clock is right")
        );
    }
    AccessToken::new(token, None).current(WHAT, now)
}
