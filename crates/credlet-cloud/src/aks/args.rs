use std::path::PathBuf;

use clap::ArgAction::Set;
use clap::Parser;
use credlet_api::Secret;

/// Print a credential for an Azure Kubernetes Service cluster, or any other cluster that trusts Entra ID.
///
/// Accepts the flags of `kubelogin get-token` (Azure), so that only the command of a kubeconfig has to change.
#[derive(Debug, Parser)]
#[command(
    name = "credlet-aks",
    version,
    args_override_self = true,
    override_usage = "credlet-aks get-token --login METHOD --server-id ID [OPTIONS]"
)]
pub(super) struct AksArgs {
    /// `get-token`, accepted for compatibility with kubelogin.
    #[arg(value_name = "COMMAND", hide = true)]
    pub(super) command: Vec<String>,
    /// Login method: devicecode, interactive, spn, msi or workloadidentity [env: AAD_LOGIN_METHOD] [default: devicecode]
    #[arg(short = 'l', long, value_name = "METHOD")]
    pub(super) login: Option<String>,
    /// Application id of the API server: 6dae42f8-4368-4678-94ff-3960e28e3630 for AKS
    #[arg(long, value_name = "ID")]
    pub(super) server_id: Option<String>,
    /// Application id of the client [env: AAD_SERVICE_PRINCIPAL_CLIENT_ID, AZURE_CLIENT_ID]
    #[arg(long, value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// Tenant id or domain [env: AZURE_TENANT_ID]
    #[arg(short = 't', long, value_name = "ID")]
    pub(super) tenant_id: Option<String>,
    /// spn: client secret. All users of this machine can see arguments; prefer the environment variable AZURE_CLIENT_SECRET
    /// (`exec.env` in a kubeconfig) [env: AAD_SERVICE_PRINCIPAL_CLIENT_SECRET, AZURE_CLIENT_SECRET]
    #[arg(long, value_name = "SECRET")]
    pub(super) client_secret: Option<Secret>,
    /// spn: PEM file with certificate and key [env: AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE, AZURE_CLIENT_CERTIFICATE_PATH]
    #[arg(long, value_name = "FILE")]
    pub(super) client_certificate: Option<PathBuf>,
    /// workloadidentity: file with the federated token [env: AZURE_FEDERATED_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub(super) federated_token_file: Option<PathBuf>,
    /// msi: resource id of a user-assigned identity
    #[arg(long, value_name = "ID")]
    pub(super) identity_resource_id: Option<String>,
    /// Azure cloud: AzurePublicCloud, AzureUSGovernmentCloud or AzureChinaCloud
    #[arg(short = 'e', long, value_name = "NAME", default_value = "AzurePublicCloud")]
    pub(super) environment: String,
    /// URL of Entra ID, instead of that of the environment [env: AZURE_AUTHORITY_HOST]
    #[arg(long, value_name = "URL")]
    pub(super) authority_host: Option<String>,
    /// interactive: redirect URL of the client
    #[arg(long, value_name = "URL")]
    pub(super) redirect_url: Option<String>,
    /// interactive, devicecode: user to log in; logins are stored per user
    #[arg(long, value_name = "USER")]
    pub(super) login_hint: Option<String>,
    #[cfg_attr(not(target_os = "macos"), doc = "Directory for stored logins [default: ~/.cache/credlet/oidc]")]
    #[cfg_attr(target_os = "macos", doc = "Directory for stored logins [default: ~/Library/Caches/credlet/oidc]")]
    #[arg(long, visible_alias = "token-cache-dir", value_name = "DIR")]
    pub(super) cache_dir: Option<PathBuf>,
    /// Do not override flags by environment variables.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub(super) disable_environment_override: bool,
    /// Use the environment variables of Terraform: ARM_CLIENT_ID and so on.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub(super) use_azurerm_env_vars: bool,

    #[arg(long, hide = true)]
    client_certificate_password: Option<Secret>,
    #[arg(long, hide = true)]
    username: Option<String>,
    #[arg(long, hide = true)]
    password: Option<Secret>,
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub(super) legacy: bool,
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub(super) pop_enabled: bool,
    #[arg(long, hide = true)]
    pop_claims: Option<String>,
    #[arg(long, hide = true, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    disable_instance_discovery: bool,
    #[arg(long, hide = true)]
    timeout: Option<String>,
    #[arg(short = 'v', long = "v", hide = true)]
    verbosity: Option<String>,
}

impl AksArgs {
    /// The first positional argument if it belongs to another command.
    pub(super) fn unexpected_command(&self) -> Option<&str> {
        let command: Vec<_> = self.command.iter().map(String::as_str).collect();
        match *command {
            [] | ["get-token"] => None,
            [first, ..] => Some(first),
        }
    }
}
