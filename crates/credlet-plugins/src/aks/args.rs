use std::path::PathBuf;

use clap::ArgAction::Set;
use clap::Parser;
use credlet_api::Secret;

/// A credential for an Azure Kubernetes Service cluster, or any other that trusts Entra ID.
///
/// Takes the flags of `kubelogin get-token` (Azure), so that a kubeconfig changes one word: its command.
#[derive(Debug, Parser)]
#[command(
    name = "credlet-aks",
    version,
    args_override_self = true,
    override_usage = "credlet-aks get-token --login METHOD --server-id ID [OPTIONS]"
)]
pub(super) struct Args {
    /// `get-token`, as in the kubeconfig that was: it makes no difference.
    #[arg(value_name = "WORDS", hide = true)]
    pub(super) words: Vec<String>,
    /// devicecode, interactive, spn, msi or workloadidentity [env: AAD_LOGIN_METHOD] [default: devicecode]
    #[arg(short = 'l', long, value_name = "METHOD")]
    pub(super) login: Option<String>,
    /// The application that the cluster is: 6dae42f8-4368-4678-94ff-3960e28e3630 for AKS
    #[arg(long, value_name = "ID")]
    pub(super) server_id: Option<String>,
    /// The application that logs in [env: AAD_SERVICE_PRINCIPAL_CLIENT_ID, AZURE_CLIENT_ID]
    #[arg(long, value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// The tenant [env: AZURE_TENANT_ID]
    #[arg(short = 't', long, value_name = "ID")]
    pub(super) tenant_id: Option<String>,
    /// spn: the secret. Arguments can be seen by all users of this machine; AZURE_CLIENT_SECRET in the environment (`exec.env`
    /// in a kubeconfig) cannot [env: AAD_SERVICE_PRINCIPAL_CLIENT_SECRET, AZURE_CLIENT_SECRET]
    #[arg(long, value_name = "SECRET")]
    pub(super) client_secret: Option<Secret>,
    /// spn: a PEM file with certificate and key [env: AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE, AZURE_CLIENT_CERTIFICATE_PATH]
    #[arg(long, value_name = "FILE")]
    pub(super) client_certificate: Option<PathBuf>,
    /// workloadidentity: the file with the other issuer's token [env: AZURE_FEDERATED_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub(super) federated_token_file: Option<PathBuf>,
    /// msi: the identity, by the id of its Azure resource
    #[arg(long, value_name = "ID")]
    pub(super) identity_resource_id: Option<String>,
    /// AzurePublicCloud, AzureUSGovernmentCloud or AzureChinaCloud
    #[arg(short = 'e', long, value_name = "NAME", default_value = "AzurePublicCloud")]
    pub(super) environment: String,
    /// The address of Entra ID, if it is not that of the environment [env: AZURE_AUTHORITY_HOST]
    #[arg(long, value_name = "URL")]
    pub(super) authority_host: Option<String>,
    /// interactive: where the browser comes back to
    #[arg(long, value_name = "URL")]
    pub(super) redirect_url: Option<String>,
    /// interactive, devicecode: who logs in; each has a login of their own
    #[arg(long, value_name = "USER")]
    pub(super) login_hint: Option<String>,
    /// Where logins are kept [default: ~/.cache/credlet/oidc]
    #[arg(long, visible_alias = "token-cache-dir", value_name = "DIR")]
    pub(super) cache_dir: Option<PathBuf>,
    /// Do not let variables override flags.
    #[arg(long, action = Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false)]
    pub(super) disable_environment_override: bool,
    /// Use Terraform's variables: ARM_CLIENT_ID and so on.
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

impl Args {
    /// A word that belongs to another command.
    pub(super) fn stray(&self) -> Option<&str> {
        let words: Vec<_> = self.words.iter().map(String::as_str).collect();
        match *words {
            [] | ["get-token"] => None,
            [first, ..] => Some(first),
        }
    }
}
