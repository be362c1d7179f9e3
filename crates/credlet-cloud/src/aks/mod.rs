//! Exec plugin for Azure Kubernetes Service and other clusters that trust Entra ID, a replacement of Azure's kubelogin.
//!
//! [`run`] parses the flags and environment variables of kubelogin. A workload obtains a token as an [`AzureIdentity`]; a user logs in
//! with `credlet-oidc` (`user_login`).
//!
//! Logins are stored per tenant, client and user; kubelogin has a single record for all of them.

mod args;
mod settings;
mod user_login;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use credlet_api::escape_control_chars;
use credlet_api::exec::{ExecCredentialStatus, ExecInfo};
use credlet_exec::{Env, Platform};
use credlet_plugin::{self as plugin, Failure};

use self::args::AksArgs;
use self::settings::{AksSettings, LoginMethod};
use crate::azure::{AzureIdentity, ClientCertificate, ClientCredential, EntraClient, ManagedIdentity};
use crate::oauth::{self, TokenError};
use crate::plugin_runner;
use credlet_oidc::UserOutput;

/// Runs the plugin. `args` begin with the program name. Login instructions for the user go to the third argument.
///
/// Without `KUBERNETES_EXEC_INFO` it prints v1beta1, like kubelogin.
pub fn run(
    args: Vec<OsString>,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
    io: plugin::PluginIo<'_>,
) -> ExitCode {
    plugin_runner::run_exec(args, platform, io, |args, info| fetch_credential(&args, &info, platform, output))
}

fn fetch_credential(
    args: &AksArgs,
    info: &ExecInfo,
    platform: &Platform,
    output: &Arc<dyn UserOutput>,
) -> Result<ExecCredentialStatus, Failure> {
    if let Some(command) = args.unexpected_command() {
        let message = format!("unknown command `{}`", escape_control_chars(command));
        return Err(Failure::new(message).hint("use `get-token`; to convert a kubeconfig, run kubelogin"));
    }
    if args.pop_enabled {
        return Err(Failure::new("proof-of-possession tokens (--pop-enabled) are not supported")
            .hint("keep the command `kubelogin` for clusters that require them"));
    }
    if args.legacy {
        return Err(Failure::new("legacy tokens (--legacy) are not supported")
            .hint("migrate the cluster with `az aks update --enable-azure-rbac` or `--enable-aad`"));
    }
    let settings = AksSettings::new(args, &*platform.env).map_err(oauth::into_failure)?;
    if matches!(settings.method, LoginMethod::DeviceCode | LoginMethod::Interactive) {
        return plugin_runner::block_on(user_login::token(args, &settings, info, platform, output))?;
    }
    let identity = identity(&settings, &*platform.env).map_err(oauth::into_failure)?;
    let entra = EntraClient::new(platform).with_authority(&settings.authority);
    let token = plugin_runner::block_on(entra.token(&identity, &settings.server_id))?.map_err(oauth::into_failure)?;
    Ok(token.into_status())
}

/// The identity of a non-interactive login.
fn identity(settings: &AksSettings, env: &dyn Env) -> Result<AzureIdentity, TokenError> {
    let credential = match settings.method {
        LoginMethod::ManagedIdentity => {
            let managed = ManagedIdentity::new(settings.identity_client_id(), settings.identity_resource_id.clone());
            return Ok(AzureIdentity::ManagedIdentity(managed));
        }
        LoginMethod::ServicePrincipal => match (&settings.certificate, &settings.secret) {
            (None, Some(secret)) => ClientCredential::Secret(secret.clone()),
            (Some(path), _) => ClientCredential::Certificate(ClientCertificate::from_file(path)?),
            (None, None) => {
                return Err(TokenError::MissingSetting {
                    what: "client secret".into(),
                    hint: "set AZURE_CLIENT_SECRET, or pass a certificate with `--client-certificate`",
                });
            }
        },
        _ => match &settings.federated_token_file {
            // Like kubelogin: the ID token of a CI job takes precedence over a token file of its machine.
            path if oauth::ci_id_token_available(env) && !(path.is_some() && settings.file_is_explicit) => {
                ClientCredential::CiIdToken
            }
            Some(path) => ClientCredential::AssertionFile(path.clone()),
            None => {
                return Err(TokenError::MissingSetting {
                    what: "federated token file".into(),
                    hint: "set AZURE_FEDERATED_TOKEN_FILE or `--federated-token-file`; on GitHub the job needs `permissions: {id-token: write}`",
                });
            }
        },
    };
    Ok(AzureIdentity::Client { tenant: settings.tenant()?, client_id: settings.client_id()?, credential })
}
