//! The Azure cloud of the node: authority of Entra ID and domain of its registries.

use std::path::Path;

use credlet_api::image::AzureConfig;
use credlet_exec::Platform;
use http::StatusCode;
use serde::Deserialize;

use crate::azure::PUBLIC_AUTHORITY;
use crate::oauth::{FILE_LIMIT, TokenError, read_text_file};
use crate::plugin_runner::env_var;
use credlet_http::fetch::{FetchRequest, HttpFetcher};

const WHAT: &str = "Azure configuration";

pub(super) fn config(path: &Path) -> Result<AzureConfig, TokenError> {
    let text = read_text_file(path, WHAT, FILE_LIMIT)?;
    let wrong = |fault| TokenError::invalid_setting(format!("{WHAT} in {}", path.display()), format!("{fault}"));
    AzureConfig::decode(text.as_bytes()).map_err(wrong)
}

/// The endpoints of an Azure cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AzureCloud {
    /// URL of Entra ID.
    pub(super) authority: String,
    /// Domain of registries, if it is a custom one.
    pub(super) suffix: Option<String>,
}

impl AzureCloud {
    /// Determines the cloud by its name, its resource manager or its description file.
    pub(super) async fn detect(config: &AzureConfig, platform: &Platform) -> Result<Self, TokenError> {
        let authority = match &*config.cloud.to_ascii_uppercase() {
            "AZURECHINACLOUD" => "https://login.chinacloudapi.cn",
            "AZUREUSGOVERNMENT" | "AZUREUSGOVERNMENTCLOUD" => "https://login.microsoftonline.us",
            _ => PUBLIC_AUTHORITY,
        };
        let mut cloud = Self { authority: authority.to_owned(), suffix: None };
        if !config.resource_manager_endpoint.is_empty() {
            cloud.learn(described(config, platform).await?);
        }
        if let Some(path) = env_var(&*platform.env, "AZURE_ENVIRONMENT_FILEPATH") {
            cloud.learn(in_file(Path::new(&path))?);
        }
        if let Some(chosen) = env_var(&*platform.env, "AZURE_AUTHORITY_HOST") {
            cloud.authority = chosen;
        }
        Ok(cloud)
    }

    fn learn(&mut self, (authority, suffix): (String, String)) {
        if !authority.is_empty() {
            self.authority = authority;
        }
        let suffix = suffix.trim_start_matches('.').to_owned();
        self.suffix = Some(suffix).filter(|suffix| suffix.contains('.')).or(self.suffix.take());
    }
}

/// Reads the description of a custom cloud in the format of Azure Stack: authority and registry domain.
fn in_file(path: &Path) -> Result<(String, String), TokenError> {
    #[derive(Deserialize)]
    struct CloudDescription {
        #[serde(default, rename = "activeDirectoryEndpoint")]
        authority: String,
        #[serde(default, rename = "containerRegistryDNSSuffix")]
        suffix: String,
    }
    let what = "cloud description";
    let text = read_text_file(path, what, FILE_LIMIT)?;
    let described: Result<CloudDescription, _> = serde_json::from_str(&text);
    let wrong = |_| TokenError::InvalidFile {
        what: what.to_owned(),
        path: path.to_owned(),
        reason: "not JSON, or a field has the wrong type",
    };
    described.map(|described| (described.authority, described.suffix)).map_err(wrong)
}

/// Fetches authority and registry domain of the configured cloud from its resource manager; without a name, of the first one.
async fn described(config: &AzureConfig, platform: &Platform) -> Result<(String, String), TokenError> {
    #[derive(Deserialize)]
    struct CloudDescription {
        #[serde(default)]
        name: String,
        #[serde(default)]
        authentication: Authentication,
        #[serde(default)]
        suffixes: Suffixes,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Authentication {
        #[serde(default)]
        login_endpoint: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Suffixes {
        #[serde(default)]
        acr_login_server: String,
    }
    let failed = |source| TokenError::Request { what: "endpoints of this cloud".to_owned(), source };
    let base = config.resource_manager_endpoint.trim_end_matches('/');
    let request = FetchRequest::get(format!("{base}/metadata/endpoints?api-version=2019-05-01"));
    let response =
        HttpFetcher::new(platform.clock.clone(), platform.env.clone()).fetch(request).await.map_err(failed)?;
    if response.status != StatusCode::OK {
        return Err(failed(response.invalid_response("it describes no cloud")));
    }
    let clouds: Vec<CloudDescription> = response.json().map_err(failed)?;
    let found =
        clouds.into_iter().find(|cloud| config.cloud.is_empty() || cloud.name.eq_ignore_ascii_case(&config.cloud));
    Ok(found.map(|cloud| (cloud.authentication.login_endpoint, cloud.suffixes.acr_login_server)).unwrap_or_default())
}
