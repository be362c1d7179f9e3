//! Selects the credential source from files and environment variables, in awscli's search order.

use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_exec::Env;

use super::profiles::{self, AwsProfile};
use super::settings::{AwsSettings, is_label};
use super::{AwsCredentials, AwsError, time};
use crate::plugin_runner::env_var;

/// A credential source. All but [`StaticKeys`](Self::StaticKeys) need a program or the network.
#[derive(Debug)]
pub(super) enum AwsCredentialSource {
    StaticKeys(AwsCredentials),
    AssumeRole {
        role: AwsRole,
        from: Box<AwsCredentialSource>,
    },
    WebIdentity {
        role: AwsRole,
        token_file: PathBuf,
    },
    Sso(SsoProfile),
    Process {
        profile: String,
        command: Secret,
    },
    Container(ContainerEndpoint),
    /// The EC2 instance metadata service, the last source of the chain.
    Instance {
        /// The sources without credentials, for the error message.
        tried: Vec<String>,
    },
}

/// A role for STS `AssumeRole`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsRole {
    /// `arn:aws:iam::123456789012:role/admin`
    pub arn: String,
    /// Session name, shown in CloudTrail. Default: `credlet-` and the Unix time.
    pub session_name: Option<String>,
    /// External id that the trust policy requires of third parties.
    pub external_id: Option<String>,
    /// Serial number or ARN of the MFA device.
    pub mfa_serial: Option<String>,
    /// Lifetime of the session. Default: that of AWS.
    pub duration_seconds: Option<u32>,
}

impl AwsRole {
    /// Creates a role with default settings.
    pub fn new(arn: impl Into<String>) -> Self {
        Self { arn: arn.into(), ..Self::default() }
    }
}

#[derive(Debug)]
pub(super) struct SsoProfile {
    pub(super) profile: String,
    /// Name of the `[sso-session]` section. `None`: the legacy form, with all settings in the profile.
    pub(super) session: Option<String>,
    pub(super) start_url: String,
    pub(super) region: String,
    pub(super) account_id: String,
    pub(super) role_name: String,
}

#[derive(Debug)]
pub(super) struct ContainerEndpoint {
    pub(super) url: String,
    pub(super) token_file: Option<PathBuf>,
    pub(super) token: Option<Secret>,
}

/// Selects the source. Runs no program and sends no request.
pub(super) fn resolve(settings: &AwsSettings, env: &dyn Env) -> Result<AwsCredentialSource, AwsError> {
    let mut tried = Vec::new();
    if settings.profile_is_explicit {
        tried.push("AWS_ACCESS_KEY_ID is ignored with --profile".to_owned());
    } else if let Some(keys) = from_environment(env)? {
        return Ok(AwsCredentialSource::StaticKeys(keys));
    } else {
        tried.push("AWS_ACCESS_KEY_ID is not set".to_owned());
    }
    let mut search = SourceResolver { settings, env, visited: vec![settings.profile.clone()] };
    match settings.profiles.profile(&settings.profile) {
        Some(profile) => {
            if let Some(source) = search.profile(&profile, true)? {
                return Ok(source);
            }
            tried.push(format!("the profile `{}` has no credentials", profile.name));
        }
        None => {
            let (config, credentials) = settings.profiles.display_paths();
            tried.push(format!("profile `default` not found in {} or {}", config.display(), credentials.display()));
            if let Some(source) = search.web_identity(None, true)? {
                return Ok(source);
            }
        }
    }
    if let Some(container) = container(env) {
        return Ok(AwsCredentialSource::Container(container));
    }
    tried.push("no container credentials endpoint is configured".to_owned());
    Ok(AwsCredentialSource::Instance { tried })
}

struct SourceResolver<'a> {
    settings: &'a AwsSettings,
    env: &'a dyn Env,
    /// Profiles followed so far, to detect a cycle of `source_profile`.
    visited: Vec<String>,
}

impl SourceResolver<'_> {
    /// Returns the source of a profile, or `None` if it has no credentials. `first`: this profile is not the `source_profile` of
    /// another one. Only then are environment variables read, and may a role and the keys to assume it with be in one profile.
    fn profile(&mut self, profile: &AwsProfile<'_>, first: bool) -> Result<Option<AwsCredentialSource>, AwsError> {
        let has_keys = profile.value("aws_access_key_id").is_some() || profile.value("aws_secret_access_key").is_some();
        if let Some(arn) = profile.value("role_arn")
            && profile.value("web_identity_token_file").is_none()
            && (first || !has_keys)
        {
            return self.role(profile, arn).map(Some);
        }
        if let Some(source) = self.web_identity(Some(profile), first)? {
            return Ok(Some(source));
        }
        if let Some(sso) = self.sso(profile)? {
            return Ok(Some(AwsCredentialSource::Sso(sso)));
        }
        if let Some(keys) = keys(profile, &|key| profile.in_credentials(key))? {
            return Ok(Some(AwsCredentialSource::StaticKeys(keys)));
        }
        if profile.value("login_session").is_some() {
            return Err(AwsError::UnsupportedLogin { profile: profile.name.clone() });
        }
        if let Some(command) = profile.value("credential_process") {
            return Ok(Some(AwsCredentialSource::Process { profile: profile.name.clone(), command: command.into() }));
        }
        Ok(keys(profile, &|key| profile.in_config(key))?.map(AwsCredentialSource::StaticKeys))
    }

    fn role(&mut self, profile: &AwsProfile<'_>, arn: &str) -> Result<AwsCredentialSource, AwsError> {
        let text = |key: &str| profile.value(key).map(str::to_owned);
        let role = AwsRole {
            arn: arn.to_owned(),
            session_name: text("role_session_name"),
            external_id: text("external_id"),
            mfa_serial: text("mfa_serial"),
            duration_seconds: profile.value("duration_seconds").and_then(|seconds| seconds.parse().ok()),
        };
        let from = match (profile.value("source_profile"), profile.value("credential_source")) {
            (Some(_), Some(_)) => {
                return Err(invalid_profile(profile, "has both source_profile and credential_source"));
            }
            (None, None) => {
                return Err(invalid_profile(
                    profile,
                    "has role_arn but is missing source_profile or credential_source",
                ));
            }
            (Some(name), None) => self.source_profile(profile, name)?,
            (None, Some(source)) => self.credential_source(profile, source)?,
        };
        Ok(AwsCredentialSource::AssumeRole { role, from: Box::new(from) })
    }

    fn source_profile(&mut self, profile: &AwsProfile<'_>, name: &str) -> Result<AwsCredentialSource, AwsError> {
        let Some(source) = self.settings.profiles.profile(name) else {
            return Err(invalid_profile(profile, &format!("refers to unknown source_profile `{name}`")));
        };
        let itself = name == profile.name;
        let has_keys = source.value("aws_access_key_id").is_some();
        if self.visited.iter().any(|visited| visited == name) && !(itself && has_keys) {
            return Err(invalid_profile(profile, &format!("has the source_profile `{name}`, which forms a cycle")));
        }
        self.visited.push(name.to_owned());
        let found = self.profile(&source, false)?;
        found.ok_or_else(|| {
            invalid_profile(profile, &format!("has the source_profile `{name}`, which has no credentials"))
        })
    }

    fn credential_source(&self, profile: &AwsProfile<'_>, name: &str) -> Result<AwsCredentialSource, AwsError> {
        let found = match name {
            "Environment" => from_environment(self.env)?.map(AwsCredentialSource::StaticKeys),
            "EcsContainer" => container(self.env).map(AwsCredentialSource::Container),
            "Ec2InstanceMetadata" => Some(AwsCredentialSource::Instance { tried: Vec::new() }),
            _ => {
                return Err(invalid_profile(
                    profile,
                    "has an unsupported credential_source: must be Environment, EcsContainer or Ec2InstanceMetadata",
                ));
            }
        };
        found.ok_or_else(|| {
            invalid_profile(profile, &format!("has the credential_source {name}, which has no credentials"))
        })
    }

    /// Reads each of the three settings from its environment variable, else from the profile.
    fn web_identity(
        &self,
        profile: Option<&AwsProfile<'_>>,
        first: bool,
    ) -> Result<Option<AwsCredentialSource>, AwsError> {
        let allowed = first && !self.settings.profile_is_explicit;
        let setting_of = |variable: &str, key: &str| {
            let variable = if allowed { env_var(self.env, variable) } else { None };
            variable.or_else(|| profile?.value(key).map(str::to_owned))
        };
        let Some(token_file) = setting_of("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file") else {
            return Ok(None);
        };
        let Some(arn) = setting_of("AWS_ROLE_ARN", "role_arn") else {
            let setting = "AWS_WEB_IDENTITY_TOKEN_FILE (web_identity_token_file)".to_owned();
            return Err(AwsError::InvalidConfig { setting, reason: "is set without AWS_ROLE_ARN (role_arn)".into() });
        };
        let session_name = setting_of("AWS_ROLE_SESSION_NAME", "role_session_name");
        let setting = "AWS_WEB_IDENTITY_TOKEN_FILE (web_identity_token_file)";
        let token_file = profiles::expand_path(setting, Path::new(&token_file), self.env)?;
        Ok(Some(AwsCredentialSource::WebIdentity { role: AwsRole { session_name, ..AwsRole::new(arn) }, token_file }))
    }

    fn sso(&self, profile: &AwsProfile<'_>) -> Result<Option<SsoProfile>, AwsError> {
        if profile.value("sso_role_name").is_none() && profile.value("sso_account_id").is_none() {
            return Ok(None);
        }
        let session = profile.value("sso_session");
        let section = match session {
            None => None,
            Some(name) => Some(
                self.settings
                    .profiles
                    .named("sso-session", name)
                    .ok_or_else(|| invalid_profile(profile, &format!("refers to unknown sso_session `{name}`")))?,
            ),
        };
        let setting_of = |key: &str| {
            let value = section.as_ref().and_then(|section| section.value(key)).or_else(|| profile.value(key));
            value.map(str::to_owned).ok_or_else(|| invalid_profile(profile, &format!("uses SSO but is missing {key}")))
        };
        let (start_url, region) = (setting_of("sso_start_url")?, setting_of("sso_region")?);
        if !is_label(&region) {
            return Err(invalid_profile(profile, "has an invalid sso_region"));
        }
        Ok(Some(SsoProfile {
            profile: profile.name.clone(),
            session: session.map(str::to_owned),
            start_url,
            region,
            account_id: setting_of("sso_account_id")?,
            role_name: setting_of("sso_role_name")?,
        }))
    }
}

fn keys<'a>(
    profile: &AwsProfile<'_>,
    value: &dyn Fn(&str) -> Option<&'a str>,
) -> Result<Option<AwsCredentials>, AwsError> {
    let Some(id) = value("aws_access_key_id") else { return Ok(None) };
    let Some(secret) = value("aws_secret_access_key") else {
        return Err(invalid_profile(profile, "has aws_access_key_id but is missing aws_secret_access_key"));
    };
    // `aws_security_token` is the older name, which awscli prefers.
    let token = value("aws_security_token").or_else(|| value("aws_session_token"));
    Ok(Some(AwsCredentials::new(id, secret, token.map(Secret::from))))
}

fn from_environment(env: &dyn Env) -> Result<Option<AwsCredentials>, AwsError> {
    let Some(id) = env_var(env, "AWS_ACCESS_KEY_ID") else { return Ok(None) };
    let Some(secret) = env_var(env, "AWS_SECRET_ACCESS_KEY") else {
        let setting = "AWS_ACCESS_KEY_ID".to_owned();
        return Err(AwsError::InvalidConfig { setting, reason: "is set without AWS_SECRET_ACCESS_KEY".into() });
    };
    let token = env_var(env, "AWS_SECURITY_TOKEN").or_else(|| env_var(env, "AWS_SESSION_TOKEN"));
    let expires = match env_var(env, "AWS_CREDENTIAL_EXPIRATION") {
        Some(text) => Some(time::parse(&text).ok_or_else(|| AwsError::InvalidConfig {
            setting: "AWS_CREDENTIAL_EXPIRATION".into(),
            reason: "is not a valid time".into(),
        })?),
        None => None,
    };
    Ok(Some(AwsCredentials::new(id, secret, token.map(Secret::from)).expiring(expires)))
}

fn container(env: &dyn Env) -> Option<ContainerEndpoint> {
    const ECS: &str = "http://169.254.170.2";
    let relative = env_var(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{ECS}{path}"));
    let url = relative.or_else(|| env_var(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI"))?;
    let token_file = env_var(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from);
    let token = env_var(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::from);
    Some(ContainerEndpoint { url, token_file, token })
}

fn invalid_profile(profile: &AwsProfile<'_>, reason: &str) -> AwsError {
    AwsError::InvalidConfig { setting: format!("profile `{}`", profile.name), reason: reason.to_owned() }
}
