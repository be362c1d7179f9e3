//! AWS credentials, searched for in the order of awscli and the SDKs.
//!
//! [`CredentialChain::load`] reads the environment and the two configuration files and selects one source, without network
//! access and without running a program. Access keys are available at once
//! ([`static_credentials`](CredentialChain::static_credentials)); [`credentials`](CredentialChain::credentials) fetches those of
//! all other sources. A [`SigningScope`] signs requests with [`AwsCredentials`].
//!
//! The search order is that of awscli:
//!
//! 1. `AWS_ACCESS_KEY_ID`, unless a profile was selected on the command line
//! 2. `role_arn` of the profile: STS `AssumeRole`, with the credentials of `source_profile` or `credential_source`
//! 3. `AWS_WEB_IDENTITY_TOKEN_FILE` or `web_identity_token_file`: STS `AssumeRoleWithWebIdentity`
//! 4. single sign-on (`sso_session`, `sso_start_url`)
//! 5. keys of the profile in the credentials file
//! 6. `credential_process`
//! 7. keys of the profile in the config file
//! 8. the container endpoint of ECS and EKS
//! 9. the EC2 instance metadata service
//!
//! ```
//! use credlet_exec::{FixedEnv, Platform};
//! use credlet_cloud::aws::{AwsOptions, CredentialChain};
//! use std::sync::Arc;
//!
//! let env = FixedEnv::new([("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hunter2"), ("HOME", "/nowhere")]);
//! let chain = CredentialChain::load(AwsOptions::default(), Platform { env: Arc::new(env), ..Platform::system() })?;
//! assert_eq!(chain.static_credentials()?.unwrap().access_key_id.expose(), "AKIDEXAMPLE");
//! # Ok::<(), credlet_cloud::aws::AwsError>(())
//! ```
//!
//! Temporary credentials (roles, SSO) are cached in a private file until five minutes before they expire, so that a user types
//! an MFA code once and not for each command. The source is always consulted first (a `credential_process` is run, a metadata
//! service queried, an SSO login read), and its result is part of the cache key: after a change of identity or a logout, no
//! earlier credentials are returned.

mod cache;
mod chain;
mod credentials;
mod endpoint;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod metadata;
mod process;
mod profiles;
mod request;
mod resolve;
mod settings;
mod sigv4;
mod sso;
mod sts;
mod time;
mod xml;

pub use self::chain::{CredentialChain, MfaPrompt};
pub use self::credentials::AwsCredentials;
pub use self::endpoint::AwsEndpoint;
pub use self::error::AwsError;
pub use self::resolve::AwsRole;
pub use self::settings::AwsOptions;
pub use self::sigv4::{SignableRequest, SigningScope};
