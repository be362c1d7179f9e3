//! The kubelet's image credential providers (KEP-2133, KEP-4412) as a library.
//!
//! [`ImageCredentials::load`] reads and validates a `CredentialProviderConfig`. [`look_up`](ImageCredentials::look_up) normalises an
//! image name, runs the providers with a matching pattern concurrently, and returns their credentials in the kubelet's order, with
//! a [`LookupTrace`] of every decision. A provider is run once for all concurrent lookups that can share its response, and the
//! response is cached in the scope that it states.
//!
//! The building blocks can be used alone: [`ImageName`], [`ImagePattern`], [`PatternIndex`], [`DockerKeyring`].
//!
//! ```
//! use credlet_image::{ImageName, ImagePattern, MatchTarget};
//!
//! let image: ImageName = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app:v1".parse()?;
//! let pattern = ImagePattern::parse("*.dkr.ecr.*.amazonaws.com")?;
//! assert!(pattern.matches(&MatchTarget::from(&image)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Behaviour follows the kubelet's code where it differs from its documentation. `docs/behaviour.md` lists deliberate differences.

mod config;
mod config_watcher;
mod credentials;
mod docker_config;
mod error;
mod glob;
mod index;
mod keyring;
mod lint;
mod location;
mod metrics;
mod name;
mod pattern;
mod pod_account;
mod provider;
mod service_account;
mod token_cache;
mod trace;

pub use config::{
    CacheType, ConfigError, ConfigFileError, ConfigOrigin, ImageProvidersConfig, ProviderConfig, ProviderConfigFault,
    ProviderConfigProblem, ServiceAccountMode,
};
pub use credentials::{
    CredentialOrigin, ImageCredential, ImageCredentials, LookupRequest, LookupResult, ProviderOptions, ProviderRun,
};
pub use docker_config::{NodeDockerConfig, node_docker_config, pull_secret};
pub use error::ProviderError;
pub use index::PatternIndex;
pub use keyring::{DockerKeyring, IgnoredKey, KeyringMatch, auth_hash, is_default_registry, look_up, normalise};
pub use lint::{LintFinding, LintIssue, lint, lint_response};
pub use location::LocationError;
pub use metrics::ImageProviderMetrics;
pub use name::{ImageName, ImageNameError, ImageNameFault};
pub use pattern::{ImagePattern, MatchTarget, PatternMismatch};
pub use provider::ProviderResponse;
pub use service_account::{
    AccountError, AccountFuture, KeyPartTooLong, PodRef, ServiceAccount, ServiceAccountApi, ServiceAccountRef,
    TokenRequest, account_key, cache_key,
};
pub use trace::{LookupTrace, NearMiss, SkipReason, StepOutcome, TraceLine, TraceStep};
