//! Credentials for Azure Kubernetes Service, and for any other cluster that trusts Entra ID.
//!
//! **The path:** [`run`] reads the flags of Azure's kubelogin and the variables that go before them → an
//! [`Identity`] of a program, or a person at the engine of the plugin `oidc` → an access token for the cluster's
//! application → the harness of `credlet-api` prints it in the version that was asked for.
//!
//! What is kept is kept for one tenant, client and user: kubelogin has one record for all of them.

mod args;
mod person;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_api::plugin::{self, Failure};
use credlet_api::visible;
use credlet_core::{Env, World};

use self::args::Args;
use self::settings::{Method, Settings};
use crate::azure::{ClientCertificate, Entra, Identity, Managed, Proof};
use crate::harness;
use crate::oauth::{self, Error};
use crate::oidc::Talk;

/// The whole of the plugin. `args` begin with the program's name; `talk` is for the person behind the client.
///
/// Like kubelogin it also answers when nobody has said in which version, in v1beta1.
pub fn run(args: Vec<OsString>, world: &World, talk: &Arc<dyn Talk>, mut io: plugin::World<'_>) -> ExitCode {
    let args: Args = match harness::arguments(args, &mut io) {
        Ok(args) => args,
        Err(code) => return code,
    };
    harness::answer_anybody(world, &mut io);
    plugin::run(io, |info: ExecInfo| answer(&args, &info, world, talk))
}

fn answer(args: &Args, info: &ExecInfo, world: &World, talk: &Arc<dyn Talk>) -> Result<ExecCredentialStatus, Failure> {
    if let Some(word) = args.stray() {
        let message = format!("`{}` is no command of this plugin", visible(word));
        return Err(Failure::new(message).hint("it knows `get-token`; kubelogin itself converts a kubeconfig"));
    }
    if args.pop_enabled {
        return Err(Failure::new("tokens with a proof of possession (--pop-enabled) are not known here")
            .hint("leave the command `kubelogin` for clusters that Arc connects with them"));
    }
    if args.legacy {
        return Err(Failure::new("tokens of the old kind (--legacy) are not known here")
            .hint("`az aks update --enable-azure-rbac` or `--enable-aad` moves the cluster to the new kind"));
    }
    let settings = Settings::new(args, &*world.env).map_err(oauth::failure)?;
    if matches!(settings.method, Method::DeviceCode | Method::Interactive) {
        return harness::wait(person::token(args, &settings, info, world, talk))?;
    }
    let identity = identity(&settings, &*world.env).map_err(oauth::failure)?;
    let entra = Entra::new(world).at(&settings.authority);
    let token = harness::wait(entra.token(&identity, &settings.server_id))?.map_err(oauth::failure)?;
    Ok(token.status())
}

/// Who logs in without a person.
fn identity(settings: &Settings, env: &dyn Env) -> Result<Identity, Error> {
    let proof = match settings.method {
        Method::Managed => {
            let managed = Managed::new(settings.identity_client_id(), settings.identity_resource_id.clone());
            return Ok(Identity::Managed(managed));
        }
        Method::ServicePrincipal => match (&settings.certificate, &settings.secret) {
            (None, Some(secret)) => Proof::Secret(secret.clone()),
            (Some(path), _) => Proof::Certificate(ClientCertificate::from_file(path)?),
            (None, None) => {
                return Err(Error::Missing {
                    what: "the client's secret".into(),
                    hint: "set AZURE_CLIENT_SECRET, or name a certificate with `--client-certificate`",
                });
            }
        },
        _ => match &settings.federated_token_file {
            // As kubelogin has it: a job has its own token, also on a machine that has one.
            path if oauth::is_offered(env) && !(path.is_some() && settings.file_is_explicit) => Proof::IdToken,
            Some(path) => Proof::TokenFile(path.clone()),
            None => {
                return Err(Error::Missing {
                    what: "the file with the federated token".into(),
                    hint: "set AZURE_FEDERATED_TOKEN_FILE or `--federated-token-file`; on GitHub the job needs `permissions: {id-token: write}`",
                });
            }
        },
    };
    Ok(Identity::Client { tenant: settings.tenant()?, client_id: settings.client_id()?, proof })
}
