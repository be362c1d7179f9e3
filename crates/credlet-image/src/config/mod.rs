//! Configuration of the providers, from a file or from all files of a directory.

mod annotation;
mod files;
mod problem;
mod validate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::image::{CredentialProviderConfig, ProviderApiVersion, ProviderEnvVar};
use sha2::{Digest as _, Sha256};

pub(crate) use self::problem::ConfigLocation;
pub use self::problem::{ConfigError, ConfigFileError, ProviderConfigFault, ProviderConfigProblem};
use crate::pattern::ImagePattern;

/// Validated configuration of all providers.
#[derive(Clone, Debug)]
pub struct ImageProvidersConfig {
    /// At least one provider, in configuration order.
    pub providers: Vec<ProviderConfig>,
    /// `sha256:` and the hash of all files, as in the kubelet's metric.
    pub hash: String,
    /// Files with more than one YAML document. Only the first one is read.
    pub multi_document_files: Vec<PathBuf>,
}

/// Validated configuration of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderConfig {
    /// Name of the provider and of its binary.
    pub name: String,
    /// Patterns of the images that the provider is run for.
    pub match_images: Vec<ImagePattern>,
    /// Cache duration of responses that state none.
    pub default_cache_duration: Duration,
    /// API version of the request.
    pub api_version: ProviderApiVersion,
    /// Arguments, which may contain secrets.
    pub args: Vec<Secret>,
    /// Environment variables beside the inherited ones.
    pub env: Vec<ProviderEnvVar>,
    /// Set if the provider gets data of the pod's service account.
    pub service_account: Option<ServiceAccountMode>,
    /// Location in the configuration.
    pub origin: ConfigOrigin,
}

impl ProviderConfig {
    /// Compares everything but the location.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        *self == Self { origin: self.origin.clone(), ..other.clone() }
    }
}

/// Use of the pod's service account by a provider (`tokenAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountMode {
    /// Audience of the token.
    pub audience: String,
    /// Cache key of responses.
    pub cache_type: CacheType,
    /// Whether the provider is skipped for pods without a service account.
    pub required: bool,
    /// Annotations without which the provider is skipped.
    pub required_annotations: Vec<String>,
    /// Annotations that are passed if present.
    pub optional_annotations: Vec<String>,
}

/// Cache key of responses for a service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// Account and annotations.
    ServiceAccount,
    /// Account, annotations and token.
    Token,
}

/// Location of a provider in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOrigin {
    /// File that defines the provider.
    pub file: PathBuf,
    /// Line on which the provider begins.
    pub line: usize,
    /// Index in the file, from 0.
    pub index: usize,
}

impl ImageProvidersConfig {
    /// Reads a file, or all `.json`, `.yaml` and `.yml` files of a directory in the order of their names.
    ///
    /// # Errors
    /// All problems of the files.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut hash = Sha256::new();
        let mut providers = Vec::new();
        let mut multi_document_files = Vec::new();
        for file in files::list(path, &mut problems) {
            let text = match files::read(&file) {
                Ok(text) => text,
                Err(problem) => {
                    problems.push(ProviderConfigProblem::for_file(file, ProviderConfigFault::File(problem)));
                    continue;
                }
            };
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(&text);
            let (config, faults) = CredentialProviderConfig::decode(&text);
            if config.has_more_documents {
                multi_document_files.push(file.clone());
            }
            problems.extend(faults.into_iter().map(|fault| ProviderConfigProblem {
                file: file.clone(),
                line: fault.line,
                provider: fault.provider,
                reason: ProviderConfigFault::InvalidDocument(fault.kind),
            }));
            providers.extend(
                config.providers.into_iter().enumerate().map(|(index, provider)| (index, file.clone(), provider)),
            );
        }
        let checked = validate::providers(providers, &mut problems);
        if checked.is_empty() && problems.is_empty() {
            problems.push(ProviderConfigProblem::for_file(path.to_owned(), ProviderConfigFault::NoProviders));
        }
        if !problems.is_empty() {
            return Err(ConfigError { problems });
        }
        Ok(Self {
            providers: checked,
            hash: format!("sha256:{}", credlet_api::hex(hash.finalize())),
            multi_document_files,
        })
    }
}

/// Returns the files of a configuration.
pub(crate) fn list(path: &Path) -> Vec<PathBuf> {
    files::list(path, &mut Vec::new())
}
