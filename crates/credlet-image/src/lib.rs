//! The kubelet's image credential providers, usable anywhere: matching, caching, merging, docker keyring.
//!
//! **The path:** [`ImageCredentials::load`] reads a `CredentialProviderConfig` → [`look_up`](ImageCredentials::look_up)
//! completes an image's name and asks, side by side, the providers whose patterns match → each gives what it remembers
//! or is run once for all who wait → what is tried comes in the kubelet's order, with a [`Trace`] of how it came to that.
//!
//! **Three names to know:** [`ImageCredentials`], [`ImageName`], [`Trace`].
//!
//! ```
//! use credlet_image::{ImageName, Pattern, Target};
//!
//! let image: ImageName = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app:v1".parse()?;
//! let pattern = Pattern::parse("*.dkr.ecr.*.amazonaws.com")?;
//! assert!(pattern.matches(&Target::from(&image)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where the kubelet and the texts about it differ, this follows the kubelet; where it does better than the kubelet,
//! `docs/behaviour.md` says so.

mod account;
mod config;
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
mod provider;
mod service_account;
mod tokens;
mod trace;
mod watch;

pub use config::{
    CacheType, Config, ConfigError, FileProblem, Mistake, Origin as ConfigOrigin, ProviderConfig, Reason,
    ServiceAccountMode,
};
pub use credentials::{Asking, Found, ImageCredentials, LookUp, Options, Origin, SingleRun};
pub use docker_config::{NodeDockerConfig, node_docker_config, pull_secret};
pub use error::ProviderError;
pub use index::PatternIndex;
pub use keyring::{IgnoredKey, Keyring, Match, auth_hash, is_default_registry, look_up, normalise};
pub use lint::{Finding, Suspicion, lint, lint_answer};
pub use location::LocationError;
pub use metrics::Metrics;
pub use name::{ImageName, NameError, NameFault};
pub use pattern::{Mismatch, Pattern, Target};
pub use provider::Answer;
pub use service_account::{
    AccountError, Answered, Coordinates, Pod, ServiceAccount, ServiceAccounts, TokenRequest, TooLong, account_key,
    cache_key,
};
pub use trace::{Line, NearMiss, Outcome, Skipped, Step, Trace};
