//! Exec plugin for Google Kubernetes Engine, a replacement of `gke-gcloud-auth-plugin`.
//!
//! [`run`] parses the flags of Google's plugin and prints an access token of a gcloud login ([`GcloudLogin`]) or of the application
//! default credentials. It prints the API version that the client requests; Google's plugin always prints v1beta1.

mod args;

use std::ffi::OsString;
use std::process::ExitCode;

use credlet_api::exec::ExecCredentialStatus;
use credlet_exec::Platform;
use credlet_plugin::{self as plugin, Failure};

use self::args::GkeArgs;
use crate::gcp::gcloud::GcloudLogin;
use crate::gcp::{AccessToken, CLOUD_PLATFORM, GoogleClient, GoogleCredentialSource, USERINFO_EMAIL};
use crate::oauth::{self, TokenError};
use crate::plugin_runner::{self, env_var};

/// Scopes of the token: authorization, and the e-mail address that identifies the user.
const SCOPES: [&str; 2] = [CLOUD_PLATFORM, USERINFO_EMAIL];

/// Runs the plugin. `args` begin with the program name.
///
/// Without `KUBERNETES_EXEC_INFO` it prints v1beta1, like Google's plugin.
pub fn run(args: Vec<OsString>, platform: &Platform, io: plugin::PluginIo<'_>) -> ExitCode {
    plugin_runner::run_exec(args, platform, io, |args, _| fetch_credential(&args, platform))
}

fn fetch_credential(args: &GkeArgs, platform: &Platform) -> Result<ExecCredentialStatus, Failure> {
    if args.edge_cloud {
        return Err(Failure::new("Distributed Cloud Edge clusters (--use_edge_cloud) are not supported").hint(
            "keep the command `gke-gcloud-auth-plugin` in this kubeconfig user, and wrap it with `credlet cache wrap`",
        ));
    }
    let given = || env_var(&*platform.env, "CLOUDSDK_AUTH_ACCESS_TOKEN");
    if !args.application_default
        && let Some(token) = given()
    {
        return Ok(AccessToken::new(token, None).into_status());
    }
    let token = plugin_runner::block_on(token(args, platform))?.map_err(oauth::into_failure)?;
    Ok(token.into_status())
}

async fn token(args: &GkeArgs, platform: &Platform) -> Result<AccessToken, TokenError> {
    let mut google = GoogleClient::new(platform);
    if !args.cache {
        google = google.without_cache();
    }
    let setting = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if args.application_default {
        let source = GoogleCredentialSource::application_default(&*platform.env)?;
        let source = google.with_impersonation(source, args.impersonate.as_deref());
        return google.token(&source, &SCOPES).await.map_err(no_file);
    }
    let mut login = GcloudLogin::default();
    (login.account, login.impersonate) = (setting(&args.account), setting(&args.impersonate));
    login.token(&google, &SCOPES).await
}

/// Adds to the error of the metadata server that the credentials file is missing.
fn no_file(error: TokenError) -> TokenError {
    match error {
        TokenError::NoCredentials { cloud, tried, .. } => {
            let reason =
                "GOOGLE_APPLICATION_CREDENTIALS is not set, and there is no `gcloud auth application-default login`";
            let hint = "log in with `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file";
            TokenError::NoCredentials { cloud, tried: [vec![reason.to_owned()], tried].concat(), hint }
        }
        error => error,
    }
}
