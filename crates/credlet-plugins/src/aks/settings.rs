//! The flags and the variables that go before them, as in kubelogin.

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_core::Env;

use super::args::Args;
use crate::azure::PUBLIC;
use crate::harness::var;
use crate::oauth::Error;

/// The client that Azure has for people who log in to AKS.
const PUBLIC_CLIENT: &str = "80faf920-1908-4b52-b5ef-a8e7bedfc67a";

/// How to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    DeviceCode,
    Interactive,
    ServicePrincipal,
    Managed,
    WorkloadIdentity,
}

/// What a run is to do.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) method: Method,
    /// The application that the cluster is.
    pub(super) server_id: String,
    pub(super) authority: String,
    client_id: Option<String>,
    tenant: Option<String>,
    pub(super) secret: Option<Secret>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) federated_token_file: Option<PathBuf>,
    /// Whether the file was named by a flag, which goes before what a CI job has.
    pub(super) file_is_explicit: bool,
    pub(super) identity_resource_id: Option<String>,
}

impl Settings {
    pub(super) fn new(args: &Args, env: &dyn Env) -> Result<Self, Error> {
        // Variables go before flags, and the later one before the earlier.
        let from_env = |names: &[&str]| {
            let names = names.iter().rev().filter(|_| !args.disable_environment_override);
            names.into_iter().find_map(|name| var(env, name))
        };
        let said = |names: &[&str], flag: Option<&str>| {
            from_env(names).or_else(|| flag.map(str::to_owned)).filter(|text| !text.is_empty())
        };
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let terraform = args.use_azurerm_env_vars;
        let names = |usual: &'static [&'static str], terraforms: &'static [&'static str]| {
            if terraform { terraforms } else { usual }
        };
        let method = said(&["AAD_LOGIN_METHOD"], args.login.as_deref()).unwrap_or_else(|| "devicecode".to_owned());
        let method = by_name(&method)?;
        let client_ids: &[_] = match (terraform, method) {
            (false, _) => &["AAD_SERVICE_PRINCIPAL_CLIENT_ID", "AZURE_CLIENT_ID"],
            // What the cluster has put into the pod of a workload is about the workload.
            (true, Method::WorkloadIdentity) => &["ARM_CLIENT_ID", "AZURE_CLIENT_ID"],
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
            authority: authority(said(&["AZURE_AUTHORITY_HOST"], args.authority_host.as_deref()), &args.environment)?,
            client_id: said(client_ids, args.client_id.as_deref()),
            tenant: said(tenants, args.tenant_id.as_deref()),
            secret: said(secrets, args.client_secret.as_ref().map(Secret::expose)).map(Secret::new),
            certificate: said(certificates, text(&args.client_certificate).as_deref()).map(PathBuf::from),
            federated_token_file: said(&["AZURE_FEDERATED_TOKEN_FILE"], text(&args.federated_token_file).as_deref())
                .map(PathBuf::from),
            file_is_explicit: args.federated_token_file.is_some(),
            identity_resource_id: args.identity_resource_id.clone().filter(|id| !id.is_empty()),
        })
    }

    pub(super) fn tenant(&self) -> Result<String, Error> {
        self.tenant.clone().ok_or_else(|| missing("--tenant-id"))
    }

    pub(super) fn client_id(&self) -> Result<String, Error> {
        self.client_id.clone().ok_or_else(|| missing("--client-id"))
    }

    /// Of a managed identity: none is the machine's own.
    pub(super) fn identity_client_id(&self) -> Option<String> {
        self.client_id.clone()
    }

    /// Of a person: none is Azure's own for AKS.
    pub(super) fn public_client_id(&self) -> String {
        self.client_id.clone().unwrap_or_else(|| PUBLIC_CLIENT.to_owned())
    }
}

fn missing(flag: &str) -> Error {
    Error::Missing {
        what: format!("`{flag}`"),
        hint: "`az aks get-credentials` followed by `kubelogin convert-kubeconfig` writes all flags into the kubeconfig",
    }
}

fn by_name(name: &str) -> Result<Method, Error> {
    let other = |advice| {
        let name = credlet_api::visible(name);
        Err(Error::config("--login", format!("is `{name}`, which is not known here")).advise(advice))
    };
    match name {
        "devicecode" => Ok(Method::DeviceCode),
        "interactive" => Ok(Method::Interactive),
        "spn" => Ok(Method::ServicePrincipal),
        "msi" => Ok(Method::Managed),
        "workloadidentity" => Ok(Method::WorkloadIdentity),
        "azurecli" | "azd" | "azurepipelines" => {
            other("leave the command `kubelogin` for it, and let `credlet cache wrap` remember the answer")
        }
        "ropc" => other("a password in a configuration is no longer taken by most tenants: use spn or interactive"),
        _ => other("devicecode, interactive, spn, msi and workloadidentity are"),
    }
}

fn authority(named: Option<String>, environment: &str) -> Result<String, Error> {
    if let Some(named) = named {
        return Ok(named);
    }
    Ok(match environment.to_ascii_lowercase().as_str() {
        "" | "azurepubliccloud" | "azurecloud" => PUBLIC,
        "azureusgovernmentcloud" | "azureusgovernment" => "https://login.microsoftonline.us",
        // The name by which it calls itself, which a login of a person is checked for; kubelogin has the older one.
        "azurechinacloud" => "https://login.partner.microsoftonline.cn",
        _ => {
            let environment = credlet_api::visible(environment);
            return Err(Error::config("--environment", format!("is `{environment}`, which is not known here"))
                .advise("name the address of Entra ID with `--authority-host`"));
        }
    }
    .to_owned())
}
