use clap::{ArgAction, Parser};

/// A credential for a Google Kubernetes Engine cluster, without gcloud's Python.
///
/// Takes the flags of `gke-gcloud-auth-plugin`, so that a kubeconfig changes one word: its command. Without flags it is the
/// account that gcloud has logged in.
#[derive(Debug, Parser)]
#[command(name = "credlet-gke", version, args_override_self = true)]
pub(super) struct Args {
    /// Use the application default credentials: the file in GOOGLE_APPLICATION_CREDENTIALS, the one of `gcloud auth
    /// application-default login`, or this machine's own account.
    #[arg(long = "use_application_default_credentials", alias = "use-application-default-credentials",
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub(super) application_default: bool,
    /// The account, instead of the active one of gcloud.
    #[arg(long, value_name = "ACCOUNT")]
    pub(super) account: Option<String>,
    /// The service account to act as; several, separated by commas, lead to the last one.
    #[arg(long = "impersonate_service_account", alias = "impersonate-service-account", value_name = "ACCOUNT")]
    pub(super) impersonate: Option<String>,
    /// Keep access tokens that were fetched until they end; `--cache=false` does not.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = ArgAction::Set)]
    pub(super) cache: bool,

    /// Of no use: a token is the account's, and not a project's.
    #[arg(long, hide = true)]
    project: Option<String>,
    #[arg(long = "use_edge_cloud", hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = false)]
    pub(super) edge_cloud: bool,
    #[arg(long, hide = true)]
    location: Option<String>,
    #[arg(long, hide = true)]
    cluster: Option<String>,
    /// Those of its log, which we do not have.
    #[arg(short = 'v', long = "v", hide = true)]
    verbosity: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    logtostderr: Option<Option<String>>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    alsologtostderr: Option<Option<String>>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
    #[arg(long, hide = true)]
    stderrthreshold: Option<String>,
}
