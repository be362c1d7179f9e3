//! Which credentials to use: awscli's order of search, decided from files and variables alone.

use std::path::{Path, PathBuf};

use credlet_api::Secret;
use credlet_core::Env;

use super::profiles::{self, Profile};
use super::settings::Settings;
use super::{AwsError, Credentials, time};
use crate::harness::var;

/// Where credentials come from. Everything but keys needs a program or the network.
#[derive(Debug)]
pub(super) enum Source {
    Keys(Credentials),
    Role {
        role: Role,
        from: Box<Source>,
    },
    WebIdentity {
        role: Role,
        token_file: PathBuf,
    },
    Sso(Sso),
    Process {
        profile: String,
        command: Secret,
    },
    Container(Container),
    /// The metadata service of EC2, for want of anything else. What was looked at before is told if it fails.
    Instance {
        tried: Vec<String>,
    },
}

/// A role to be assumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Role {
    /// `arn:aws:iam::123456789012:role/admin`
    pub arn: String,
    /// What the session is called in the account's log. By default it is `credlet-` and the time.
    pub session_name: Option<String>,
    /// What the role's owner asks of third parties.
    pub external_id: Option<String>,
    /// The device that shows codes.
    pub mfa_serial: Option<String>,
    /// For how long, if not for as long as AWS gives it by default.
    pub duration_seconds: Option<u32>,
}

impl Role {
    /// With nothing but its name.
    pub fn new(arn: impl Into<String>) -> Self {
        Self { arn: arn.into(), ..Self::default() }
    }
}

#[derive(Debug)]
pub(super) struct Sso {
    pub(super) profile: String,
    /// `None`: the old form, without a section of its own.
    pub(super) session: Option<String>,
    pub(super) start_url: String,
    pub(super) region: String,
    pub(super) account_id: String,
    pub(super) role_name: String,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) url: String,
    pub(super) token_file: Option<PathBuf>,
    pub(super) token: Option<Secret>,
}

/// Decides. Nothing is run and nobody is asked.
pub(super) fn choose(settings: &Settings, env: &dyn Env) -> Result<Source, AwsError> {
    let mut tried = Vec::new();
    if settings.profile_is_explicit {
        tried.push("AWS_ACCESS_KEY_ID does not count beside --profile".to_owned());
    } else if let Some(keys) = from_environment(env)? {
        return Ok(Source::Keys(keys));
    } else {
        tried.push("AWS_ACCESS_KEY_ID is not set".to_owned());
    }
    let mut search = Search { settings, env, visited: vec![settings.profile.clone()] };
    match settings.profiles.profile(&settings.profile) {
        Some(profile) => {
            if let Some(source) = search.profile(&profile, true)? {
                return Ok(source);
            }
            tried.push(format!("the profile `{}` has none", profile.name));
        }
        None => {
            let profiles = &settings.profiles;
            let (config, credentials) = (profiles.config_path.display(), profiles.credentials_path.display());
            tried.push(format!("there is no profile `default` in {config} or {credentials}"));
            if let Some(source) = search.web_identity(None, true)? {
                return Ok(source);
            }
        }
    }
    if let Some(container) = container(env) {
        return Ok(Source::Container(container));
    }
    tried.push("no container gives any".to_owned());
    Ok(Source::Instance { tried })
}

struct Search<'a> {
    settings: &'a Settings,
    env: &'a dyn Env,
    /// The profiles on the way, so that a circle is seen.
    visited: Vec<String>,
}

impl Search<'_> {
    /// `first`: not the source of another profile. Only then do variables count, and only then do a role and the keys to
    /// assume it with stand in one profile.
    fn profile(&mut self, profile: &Profile<'_>, first: bool) -> Result<Option<Source>, AwsError> {
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
            return Ok(Some(Source::Sso(sso)));
        }
        if let Some(keys) = keys(profile, &|key| profile.in_credentials(key))? {
            return Ok(Some(Source::Keys(keys)));
        }
        if profile.value("login_session").is_some() {
            return Err(AwsError::AwscliOnly { profile: profile.name.clone() });
        }
        if let Some(command) = profile.value("credential_process") {
            return Ok(Some(Source::Process { profile: profile.name.clone(), command: command.into() }));
        }
        Ok(keys(profile, &|key| profile.in_config(key))?.map(Source::Keys))
    }

    fn role(&mut self, profile: &Profile<'_>, arn: &str) -> Result<Source, AwsError> {
        let text = |key: &str| profile.value(key).map(str::to_owned);
        let role = Role {
            arn: arn.to_owned(),
            session_name: text("role_session_name"),
            external_id: text("external_id"),
            mfa_serial: text("mfa_serial"),
            duration_seconds: profile.value("duration_seconds").and_then(|seconds| seconds.parse().ok()),
        };
        let from = match (profile.value("source_profile"), profile.value("credential_source")) {
            (Some(_), Some(_)) => return Err(wrong(profile, "has both source_profile and credential_source")),
            (None, None) => {
                return Err(wrong(profile, "has a role_arn, but neither source_profile nor credential_source"));
            }
            (Some(name), None) => self.source_profile(profile, name)?,
            (None, Some(source)) => self.credential_source(profile, source)?,
        };
        Ok(Source::Role { role, from: Box::new(from) })
    }

    fn source_profile(&mut self, profile: &Profile<'_>, name: &str) -> Result<Source, AwsError> {
        let Some(source) = self.settings.profiles.profile(name) else {
            return Err(wrong(profile, &format!("has the source_profile `{name}`, which does not exist")));
        };
        let itself = name == profile.name;
        let has_keys = source.value("aws_access_key_id").is_some();
        if self.visited.iter().any(|visited| visited == name) && !(itself && has_keys) {
            return Err(wrong(profile, &format!("has the source_profile `{name}`, which leads back to itself")));
        }
        self.visited.push(name.to_owned());
        let found = self.profile(&source, false)?;
        found.ok_or_else(|| wrong(profile, &format!("has the source_profile `{name}`, which has no credentials")))
    }

    fn credential_source(&self, profile: &Profile<'_>, name: &str) -> Result<Source, AwsError> {
        let found = match name {
            "Environment" => from_environment(self.env)?.map(Source::Keys),
            "EcsContainer" => container(self.env).map(Source::Container),
            "Ec2InstanceMetadata" => Some(Source::Instance { tried: Vec::new() }),
            _ => {
                return Err(wrong(
                    profile,
                    "has a credential_source other than Environment, EcsContainer and Ec2InstanceMetadata",
                ));
            }
        };
        found
            .ok_or_else(|| wrong(profile, &format!("has the credential_source {name}, where there are no credentials")))
    }

    /// Each of the three settings stands in a variable, or else in the profile.
    fn web_identity(&self, profile: Option<&Profile<'_>>, first: bool) -> Result<Option<Source>, AwsError> {
        let allowed = first && !self.settings.profile_is_explicit;
        let said = |variable: &str, key: &str| {
            let variable = if allowed { var(self.env, variable) } else { None };
            variable.or_else(|| profile?.value(key).map(str::to_owned))
        };
        let Some(token_file) = said("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file") else { return Ok(None) };
        let Some(arn) = said("AWS_ROLE_ARN", "role_arn") else {
            let place = "AWS_WEB_IDENTITY_TOKEN_FILE (web_identity_token_file)".to_owned();
            return Err(AwsError::Config { place, reason: "is set without AWS_ROLE_ARN (role_arn)".into() });
        };
        let session_name = said("AWS_ROLE_SESSION_NAME", "role_session_name");
        let token_file = profiles::expanded(Path::new(&token_file), self.env);
        Ok(Some(Source::WebIdentity { role: Role { session_name, ..Role::new(arn) }, token_file }))
    }

    fn sso(&self, profile: &Profile<'_>) -> Result<Option<Sso>, AwsError> {
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
                    .ok_or_else(|| wrong(profile, &format!("has the sso_session `{name}`, which does not exist")))?,
            ),
        };
        let said = |key: &str| {
            let value = section.as_ref().and_then(|section| section.value(key)).or_else(|| profile.value(key));
            value.map(str::to_owned).ok_or_else(|| wrong(profile, &format!("uses SSO without {key}")))
        };
        Ok(Some(Sso {
            profile: profile.name.clone(),
            session: session.map(str::to_owned),
            start_url: said("sso_start_url")?,
            region: said("sso_region")?,
            account_id: said("sso_account_id")?,
            role_name: said("sso_role_name")?,
        }))
    }
}

fn keys<'a>(profile: &Profile<'_>, value: &dyn Fn(&str) -> Option<&'a str>) -> Result<Option<Credentials>, AwsError> {
    let Some(id) = value("aws_access_key_id") else { return Ok(None) };
    let Some(secret) = value("aws_secret_access_key") else {
        return Err(wrong(profile, "has an aws_access_key_id without an aws_secret_access_key"));
    };
    // The first is the name that was used before all SDKs agreed on the second.
    let token = value("aws_security_token").or_else(|| value("aws_session_token"));
    Ok(Some(Credentials::new(id, secret, token.map(Secret::from))))
}

fn from_environment(env: &dyn Env) -> Result<Option<Credentials>, AwsError> {
    let Some(id) = var(env, "AWS_ACCESS_KEY_ID") else { return Ok(None) };
    let Some(secret) = var(env, "AWS_SECRET_ACCESS_KEY") else {
        let place = "AWS_ACCESS_KEY_ID".to_owned();
        return Err(AwsError::Config { place, reason: "is set without AWS_SECRET_ACCESS_KEY".into() });
    };
    let token = var(env, "AWS_SECURITY_TOKEN").or_else(|| var(env, "AWS_SESSION_TOKEN"));
    let expires = match var(env, "AWS_CREDENTIAL_EXPIRATION") {
        Some(text) => Some(time::parse(&text).ok_or_else(|| AwsError::Config {
            place: "AWS_CREDENTIAL_EXPIRATION".into(),
            reason: "is not a time".into(),
        })?),
        None => None,
    };
    Ok(Some(Credentials::new(id, secret, token.map(Secret::from)).expiring(expires)))
}

fn container(env: &dyn Env) -> Option<Container> {
    const ECS: &str = "http://169.254.170.2";
    let relative = var(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| format!("{ECS}{path}"));
    let url = relative.or_else(|| var(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI"))?;
    let token_file = var(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from);
    let token = var(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::from);
    Some(Container { url, token_file, token })
}

fn wrong(profile: &Profile<'_>, reason: &str) -> AwsError {
    AwsError::Config { place: format!("the AWS profile `{}`", profile.name), reason: reason.to_owned() }
}
