//! Which of Azure's clouds the node is in, and what that is called there.

use std::path::Path;

use credlet_api::image::AzureConfig;
use credlet_core::World;
use http::StatusCode;
use serde::Deserialize;

use crate::azure::PUBLIC;
use crate::harness::var;
use crate::oauth::{Error, file};
use crate::web::{Ask, Plain, Web};

const WHAT: &str = "the configuration for Azure";

pub(super) fn config(path: &Path) -> Result<AzureConfig, Error> {
    let text = file(path, WHAT)?;
    let wrong = |fault| Error::config(format!("{WHAT} in {}", path.display()), format!("{fault}"));
    AzureConfig::decode(text.as_bytes()).map_err(wrong)
}

/// The addresses of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cloud {
    /// Of Entra ID.
    pub(super) authority: String,
    /// Of registries, in a cloud that is not everybody's.
    pub(super) suffix: Option<String>,
}

impl Cloud {
    /// By its name, by the file that describes it, or by what its resource manager says.
    pub(super) async fn of(config: &AzureConfig, world: &World) -> Result<Self, Error> {
        let authority = match &*config.cloud.to_ascii_uppercase() {
            "AZURECHINACLOUD" => "https://login.chinacloudapi.cn",
            "AZUREUSGOVERNMENT" | "AZUREUSGOVERNMENTCLOUD" => "https://login.microsoftonline.us",
            _ => PUBLIC,
        };
        let mut cloud = Self { authority: authority.to_owned(), suffix: None };
        if !config.resource_manager_endpoint.is_empty() {
            cloud.learn(described(config, world).await?);
        }
        if let Some(path) = var(&*world.env, "AZURE_ENVIRONMENT_FILEPATH") {
            cloud.learn(in_file(Path::new(&path))?);
        }
        if let Some(chosen) = var(&*world.env, "AZURE_AUTHORITY_HOST") {
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

/// A cloud of one's own, as Azure Stack describes it.
fn in_file(path: &Path) -> Result<(String, String), Error> {
    #[derive(Deserialize)]
    struct Described {
        #[serde(default, rename = "activeDirectoryEndpoint")]
        authority: String,
        #[serde(default, rename = "containerRegistryDNSSuffix")]
        suffix: String,
    }
    let what = "the description of the cloud";
    let text = file(path, what)?;
    let described: Result<Described, _> = serde_json::from_str(&text);
    let wrong =
        |_| Error::Content { what: what.to_owned(), path: path.to_owned(), reason: "is not JSON as it should be" };
    described.map(|described| (described.authority, described.suffix)).map_err(wrong)
}

/// What the resource manager says about the cloud of this name; about its own, if the configuration names none.
async fn described(config: &AzureConfig, world: &World) -> Result<(String, String), Error> {
    #[derive(Deserialize)]
    struct Described {
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
    let failed = |source| Error::Web { what: "the addresses of this cloud".to_owned(), source };
    let base = config.resource_manager_endpoint.trim_end_matches('/');
    // A person has written this address down.
    let ask = Ask::get(format!("{base}/metadata/endpoints?api-version=2019-05-01")).plain(Plain::Anywhere);
    let answer = Web::new(world).fetch(ask).await.map_err(failed)?;
    if answer.status != StatusCode::OK {
        return Err(failed(answer.nonsense("that does not describe any cloud")));
    }
    let clouds: Vec<Described> = answer.json().map_err(failed)?;
    let found =
        clouds.into_iter().find(|cloud| config.cloud.is_empty() || cloud.name.eq_ignore_ascii_case(&config.cloud));
    Ok(found.map(|cloud| (cloud.authentication.login_endpoint, cloud.suffixes.acr_login_server)).unwrap_or_default())
}
