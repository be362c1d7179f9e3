//! Credentials for Google Kubernetes Engine, without gcloud's Python.
//!
//! **The path:** [`run`] reads the flags of gke-gcloud-auth-plugin → gcloud's [`Login`] or the
//! application default credentials give an access token → the harness of `credlet-api` prints it in the version that was
//! asked for, which Google's own plugin does not: it always says v1beta1.

mod args;

use std::ffi::OsString;
use std::process::ExitCode;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure};
use credlet_core::World;

use self::args::Args;
use crate::gcp::gcloud::Login;
use crate::gcp::{AccessToken, CLOUD_PLATFORM, Google, Source, USERINFO_EMAIL};
use crate::harness::{self, var};
use crate::oauth::{self, Error};

/// What a cluster needs to know: that we may, and who we are.
const SCOPES: [&str; 2] = [CLOUD_PLATFORM, USERINFO_EMAIL];

/// The whole of the plugin. `args` begin with the program's name.
///
/// Like Google's it also answers when nobody has said in which version, in v1beta1.
pub fn run(args: Vec<OsString>, world: &World, mut io: plugin::World<'_>) -> ExitCode {
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    harness::answer_anybody(world, &mut io);
    plugin::run(io, |_: ExecInfo| answer(&args, world))
}

fn answer(args: &Args, world: &World) -> Result<ExecCredentialStatus, Failure> {
    if args.edge_cloud {
        return Err(Failure::new(
            "clusters of Distributed Cloud Edge have tokens of their own, which only gcloud can get",
        )
        .hint(
            "leave the command `gke-gcloud-auth-plugin` in this kubeconfig user; `credlet cache wrap` makes it faster",
        ));
    }
    let given = || var(&*world.env, "CLOUDSDK_AUTH_ACCESS_TOKEN");
    if !args.application_default
        && let Some(token) = given()
    {
        return Ok(AccessToken::new(token, None).status());
    }
    let token = harness::wait(token(args, world))?.map_err(oauth::failure)?;
    Ok(token.status())
}

async fn token(args: &Args, world: &World) -> Result<AccessToken, Error> {
    let mut google = Google::new(world);
    if !args.cache {
        google = google.forgetful();
    }
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if args.application_default {
        let source = Source::application_default(&*world.env)?;
        let source = google.impersonating(source, args.impersonate.as_deref());
        return google.token(&source, &SCOPES).await.map_err(no_file);
    }
    let mut login = Login::default();
    (login.account, login.impersonate) = (said(&args.account), said(&args.impersonate));
    login.token(&google, &SCOPES).await
}

/// Where there is no machine's account either.
fn no_file(error: Error) -> Error {
    match error {
        Error::NoCredentials { cloud, tried, .. } => {
            let reason =
                "there is no file in GOOGLE_APPLICATION_CREDENTIALS or of `gcloud auth application-default login`";
            let hint = "log in with `gcloud auth application-default login`, or name a key file in GOOGLE_APPLICATION_CREDENTIALS";
            Error::NoCredentials { cloud, tried: [vec![reason.to_owned()], tried].concat(), hint }
        }
        error => error,
    }
}
