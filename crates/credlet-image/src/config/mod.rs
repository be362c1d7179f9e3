//! The configuration of the providers: a file, or a directory of files, read and checked whole.

mod annotation;
mod check;
mod files;
mod mistake;

use std::path::{Path, PathBuf};
use std::time::Duration;

use credlet_api::Secret;
use credlet_api::image::{ApiVersion, CredentialProviderConfig, EnvVar};
use sha2::{Digest as _, Sha256};

pub(crate) use self::mistake::Place;
pub use self::mistake::{ConfigError, FileProblem, Mistake, Reason};
use crate::pattern::Pattern;

/// All providers, in the order in which they are asked.
#[derive(Clone, Debug)]
pub struct Config {
    /// At least one.
    pub providers: Vec<ProviderConfig>,
    /// `sha256:` and the hash of all files, by which the kubelet's metric knows a configuration.
    pub hash: String,
    /// Files of which only the first YAML document counts, and that have more.
    pub with_more_documents: Vec<PathBuf>,
}

/// One provider, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderConfig {
    /// The name of its binary.
    pub name: String,
    /// For which images it is asked.
    pub match_images: Vec<Pattern>,
    /// How long its answers are remembered that do not say so themselves.
    pub default_cache_duration: Duration,
    /// In which version it is asked.
    pub api_version: ApiVersion,
    /// Its arguments.
    pub args: Vec<Secret>,
    /// Its variables, beside the inherited ones.
    pub env: Vec<EnvVar>,
    /// Set if it is told about the pod's service account.
    pub service_account: Option<ServiceAccountMode>,
    /// Where it is configured.
    pub origin: Origin,
}

impl ProviderConfig {
    /// Whether it is the same provider, wherever it is written down.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        *self == Self { origin: self.origin.clone(), ..other.clone() }
    }
}

/// What a provider is told about the pod's service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountMode {
    /// For whom the token is meant.
    pub audience: String,
    /// What answers are remembered by.
    pub cache_type: CacheType,
    /// Whether a pod without a service account is passed over.
    pub required: bool,
    /// Annotations without which the provider is passed over.
    pub required_annotations: Vec<String>,
    /// Annotations that are passed on if they are there.
    pub optional_annotations: Vec<String>,
}

/// What the answers of a provider that knows the service account are remembered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// The account and its annotations.
    ServiceAccount,
    /// These, and the token.
    Token,
}

/// Where a provider is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The line on which the provider begins.
    pub line: usize,
    /// Its place in the file, from 0.
    pub index: usize,
}

impl Config {
    /// Reads a file, or all `.json`, `.yaml` and `.yml` files of a directory in the order of their names.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let mut mistakes = Vec::new();
        let mut hash = Sha256::new();
        let mut providers = Vec::new();
        let mut with_more_documents = Vec::new();
        for file in files::list(path, &mut mistakes) {
            let text = match files::read(&file) {
                Ok(text) => text,
                Err(problem) => {
                    mistakes.push(Mistake::of_file(file, Reason::File(problem)));
                    continue;
                }
            };
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(&text);
            let (config, faults) = CredentialProviderConfig::decode(&text);
            if config.has_more_documents {
                with_more_documents.push(file.clone());
            }
            mistakes.extend(faults.into_iter().map(|fault| Mistake {
                file: file.clone(),
                line: fault.line,
                provider: fault.provider,
                reason: Reason::Form(fault.mistake),
            }));
            providers.extend(
                config.providers.into_iter().enumerate().map(|(index, provider)| (index, file.clone(), provider)),
            );
        }
        let checked = check::providers(providers, &mut mistakes);
        if checked.is_empty() && mistakes.is_empty() {
            mistakes.push(Mistake::of_file(path.to_owned(), Reason::NoProviders));
        }
        if !mistakes.is_empty() {
            return Err(ConfigError { mistakes });
        }
        Ok(Self { providers: checked, hash: format!("sha256:{}", hex(&hash.finalize())), with_more_documents })
    }
}

/// The files that a configuration is in.
pub(crate) fn list(path: &Path) -> Vec<PathBuf> {
    files::list(path, &mut Vec::new())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
