use clap::{ArgAction, Parser};

/// Print a credential for a Google Kubernetes Engine cluster, without running gcloud.
///
/// Accepts the flags of `gke-gcloud-auth-plugin`, so that only the command of a kubeconfig has to change. Default: the active account
/// of gcloud.
#[derive(Debug, Parser)]
#[command(name = "credlet-gke", version, args_override_self = true)]
pub(super) struct GkeArgs {
    /// Use the application default credentials: the file in GOOGLE_APPLICATION_CREDENTIALS, that of `gcloud auth
    /// application-default login`, or the service account of the instance.
    #[arg(long = "use_application_default_credentials", alias = "use-application-default-credentials",
          action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false)]
    pub(super) application_default: bool,
    /// Account to use instead of the active one of gcloud.
    #[arg(long, value_name = "ACCOUNT")]
    pub(super) account: Option<String>,
    /// Service account to impersonate, preceded by its delegates, separated by commas.
    #[arg(long = "impersonate_service_account", alias = "impersonate-service-account", value_name = "ACCOUNT")]
    pub(super) impersonate: Option<String>,
    /// Cache access tokens until they expire; disable with `--cache=false`.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = ArgAction::Set)]
    pub(super) cache: bool,

    /// Ignored: a token belongs to an account, not to a project.
    #[arg(long, hide = true)]
    project: Option<String>,
    #[arg(long = "use_edge_cloud", hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = false)]
    pub(super) edge_cloud: bool,
    #[arg(long, hide = true)]
    location: Option<String>,
    #[arg(long, hide = true)]
    cluster: Option<String>,
    /// Log flags, ignored.
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
