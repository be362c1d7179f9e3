//! Flags and environment variables of kubelogin; variables take precedence.

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_exec::Env;

use super::args::AksArgs;
use crate::azure::PUBLIC_AUTHORITY;
use crate::oauth::TokenError;
use crate::plugin_runner::env_var;

/// Client id of Azure for user logins to AKS.
const PUBLIC_CLIENT: &str = "80faf920-1908-4b52-b5ef-a8e7bedfc67a";

/// A login method of kubelogin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginMethod {
    DeviceCode,
    Interactive,
    ServicePrincipal,
    ManagedIdentity,
    WorkloadIdentity,
}

/// The effective settings of a run.
#[derive(Debug)]
pub(super) struct AksSettings {
    pub(super) method: LoginMethod,
    /// Application id of the cluster's API server.
    pub(super) server_id: String,
    pub(super) authority: String,
    client_id: Option<String>,
    tenant: Option<String>,
    pub(super) secret: Option<Secret>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) federated_token_file: Option<PathBuf>,
    /// Whether the token file was passed as a flag, which takes precedence over the ID token of a CI job.
    pub(super) file_is_explicit: bool,
    pub(super) identity_resource_id: Option<String>,
}

impl AksSettings {
    pub(super) fn new(args: &AksArgs, env: &dyn Env) -> Result<Self, TokenError> {
        // Environment variables take precedence over flags, and later names over earlier ones.
        let from_env = |names: &[&str]| {
            let names = names.iter().rev().filter(|_| !args.disable_environment_override);
            names.into_iter().find_map(|name| env_var(env, name))
        };
        let setting = |names: &[&str], flag: Option<&str>| {
            from_env(names).or_else(|| flag.map(str::to_owned)).filter(|text| !text.is_empty())
        };
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let terraform = args.use_azurerm_env_vars;
        let names = |usual: &'static [&'static str], terraforms: &'static [&'static str]| {
            if terraform { terraforms } else { usual }
        };
        let method = setting(&["AAD_LOGIN_METHOD"], args.login.as_deref()).unwrap_or_else(|| "devicecode".to_owned());
        let method = parse_login_method(&method)?;
        let client_ids: &[_] = match (terraform, method) {
            (false, _) => &["AAD_SERVICE_PRINCIPAL_CLIENT_ID", "AZURE_CLIENT_ID"],
            // AZURE_CLIENT_ID, injected into a workload's pod, identifies the workload.
            (true, LoginMethod::WorkloadIdentity) => &["ARM_CLIENT_ID", "AZURE_CLIENT_ID"],
            (true, _) => &["ARM_CLIENT_ID"],
        };
        let secrets = names(&["AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "AZURE_CLIENT_SECRET"], &["ARM_CLIENT_SECRET"]);
        let certificates = names(
            &["AAD_SERVICE_PRINCIPAL_CLIENT_CERTIFICATE", "AZURE_CLIENT_CERTIFICATE_PATH"],
            &["ARM_CLIENT_CERTIFICATE_PATH"],
        );
        let tenants = names(&["AZURE_TENANT_ID"], &["ARM_TENANT_ID"]);
        let server_id = args.server_id.clone().filter(|id| !id.is_empty());
        Ok(Self {
            method,
            server_id: server_id.ok_or_else(|| missing("--server-id"))?,
            authority: authority(
                setting(&["AZURE_AUTHORITY_HOST"], args.authority_host.as_deref()),
                &args.environment,
            )?,
            client_id: setting(client_ids, args.client_id.as_deref()),
            tenant: setting(tenants, args.tenant_id.as_deref()),
            secret: setting(secrets, args.client_secret.as_ref().map(Secret::expose)).map(Secret::new),
            certificate: setting(certificates, text(&args.client_certificate).as_deref()).map(PathBuf::from),
            federated_token_file: setting(&["AZURE_FEDERATED_TOKEN_FILE"], text(&args.federated_token_file).as_deref())
                .map(PathBuf::from),
            file_is_explicit: args.federated_token_file.is_some(),
            identity_resource_id: args.identity_resource_id.clone().filter(|id| !id.is_empty()),
        })
    }

    pub(super) fn tenant(&self) -> Result<String, TokenError> {
        self.tenant.clone().ok_or_else(|| missing("--tenant-id"))
    }

    pub(super) fn client_id(&self) -> Result<String, TokenError> {
        self.client_id.clone().ok_or_else(|| missing("--client-id"))
    }

    /// The client id of a managed identity. `None`: the system-assigned one.
    pub(super) fn identity_client_id(&self) -> Option<String> {
        self.client_id.clone()
    }

    /// The client id for user logins. Default: that of Azure for AKS.
    pub(super) fn public_client_id(&self) -> String {
        self.client_id.clone().unwrap_or_else(|| PUBLIC_CLIENT.to_owned())
    }
}

fn missing(flag: &str) -> TokenError {
    TokenError::MissingSetting {
        what: format!("`{flag}`"),
        hint: "`az aks get-credentials` followed by `kubelogin convert-kubeconfig` writes all flags into the kubeconfig",
    }
}

fn parse_login_method(name: &str) -> Result<LoginMethod, TokenError> {
    let other = |advice| {
        let name = credlet_api::escape_control_chars(name);
        Err(TokenError::invalid_setting("--login", format!("unsupported method `{name}`")).with_hint(advice))
    };
    match name {
        "devicecode" => Ok(LoginMethod::DeviceCode),
        "interactive" => Ok(LoginMethod::Interactive),
        "spn" => Ok(LoginMethod::ServicePrincipal),
        "msi" => Ok(LoginMethod::ManagedIdentity),
        "workloadidentity" => Ok(LoginMethod::WorkloadIdentity),
        "azurecli" | "azd" | "azurepipelines" => {
            other("keep the command `kubelogin` for this method, and wrap it with `credlet cache wrap`")
        }
        "ropc" => other("most tenants reject password logins: use spn or interactive"),
        _ => other("use devicecode, interactive, spn, msi or workloadidentity"),
    }
}

fn authority(named: Option<String>, environment: &str) -> Result<String, TokenError> {
    if let Some(named) = named {
        return Ok(named);
    }
    Ok(match environment.to_ascii_lowercase().as_str() {
        "" | "azurepubliccloud" | "azurecloud" => PUBLIC_AUTHORITY,
        "azureusgovernmentcloud" | "azureusgovernment" => "https://login.microsoftonline.us",
        // The name in its tokens, which user logins are verified against; kubelogin has the older name.
        "azurechinacloud" => "https://login.partner.microsoftonline.cn",
        _ => {
            let environment = credlet_api::escape_control_chars(environment);
            return Err(TokenError::invalid_setting("--environment", format!("unknown environment `{environment}`"))
                .with_hint("pass the URL of Entra ID with `--authority-host`"));
        }
    }
    .to_owned())
}
