//! Settings from the command line, the environment and the profile, in this order of precedence.

use std::path::PathBuf;

use credlet_exec::Env;

use super::AwsError;
use super::endpoint::{self, AwsEndpoint, EndpointVariant};
use super::profiles::{AwsProfile, ProfileFiles};
use crate::plugin_runner::env_var;
use credlet_http::fetch::EndpointPolicy;

/// Settings from the command line.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AwsOptions {
    /// Profile to use. Unlike `AWS_PROFILE`, it takes precedence over keys in the environment, as in awscli.
    pub profile: Option<String>,
    /// Region to use, instead of `AWS_REGION`.
    pub region: Option<String>,
    /// PEM file of trusted certificate authorities, instead of `AWS_CA_BUNDLE`.
    pub ca_bundle: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct AwsSettings {
    pub(super) profiles: ProfileFiles,
    pub(super) profile: String,
    /// Whether the profile was selected on the command line.
    pub(super) profile_is_explicit: bool,
    pub(super) region: Option<String>,
    pub(super) ca_bundle: Option<PathBuf>,
    variant: EndpointVariant,
    overrides: EndpointOverrides,
}

impl AwsSettings {
    pub(super) fn load(options: AwsOptions, env: &dyn Env) -> Result<Self, AwsError> {
        let profiles = ProfileFiles::read(env)?;
        let profile_is_explicit = options.profile.is_some();
        let named =
            options.profile.or_else(|| env_var(env, "AWS_PROFILE")).or_else(|| env_var(env, "AWS_DEFAULT_PROFILE"));
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let profile = profiles.profile(&name);
        if profile.is_none() && named.is_some() {
            let (config, credentials) = profiles.display_paths();
            return Err(AwsError::ProfileNotFound { name, config, credentials, others: profiles.names() });
        }
        let setting_of = |variable: &str, key: &str| env_var(env, variable).or_else(|| setting(profile.as_ref(), key));
        let truth =
            |variable: &str, key: &str| setting_of(variable, key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let region = options.region.filter(|region| !region.is_empty());
        let region =
            region.or_else(|| env_var(env, "AWS_REGION")).or_else(|| setting_of("AWS_DEFAULT_REGION", "region"));
        if let Some(region) = &region
            && !is_label(region)
        {
            return Err(AwsError::InvalidConfig {
                setting: "the region".into(),
                reason: "is not a valid region name".into(),
            });
        }
        let ca_bundle = options.ca_bundle.or_else(|| setting_of("AWS_CA_BUNDLE", "ca_bundle").map(PathBuf::from));
        let variant = EndpointVariant {
            fips: truth("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
            dual_stack: truth("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"),
            global_sts: setting_of("AWS_STS_REGIONAL_ENDPOINTS", "sts_regional_endpoints")
                .is_some_and(|text| text.eq_ignore_ascii_case("legacy")),
        };
        let ignored = truth("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls");
        let overrides = if ignored {
            EndpointOverrides::default()
        } else {
            EndpointOverrides::read(env, &profiles, profile.as_ref())
        };
        let ca_bundle =
            ca_bundle.map(|path| super::profiles::expand_path("AWS_CA_BUNDLE (ca_bundle)", &path, env)).transpose()?;
        Ok(Self { profile: name, profile_is_explicit, region, ca_bundle, variant, overrides, profiles })
    }

    pub(super) fn sts(&self) -> AwsEndpoint {
        with_override(self.overrides.sts.as_ref(), endpoint::sts(self.region.as_deref(), self.variant))
    }

    /// The SSO portal endpoint and the policy for sending it an SSO access token.
    pub(super) fn sso(&self, region: &str) -> (AwsEndpoint, EndpointPolicy) {
        for_login(self.overrides.sso.as_ref(), endpoint::sso(region, self.variant))
    }

    /// The SSO OIDC endpoint and the policy for sending it a refresh token.
    pub(super) fn sso_oidc(&self, region: &str) -> (AwsEndpoint, EndpointPolicy) {
        for_login(self.overrides.sso_oidc.as_ref(), endpoint::sso_oidc(region, self.variant))
    }

    pub(super) fn ecr(&self, region: &str, domain: &str) -> AwsEndpoint {
        with_override(self.overrides.ecr.as_ref(), endpoint::ecr(region, domain, self.variant))
    }

    pub(super) fn ecr_public(&self) -> AwsEndpoint {
        with_override(self.overrides.ecr_public.as_ref(), endpoint::ecr_public(self.variant))
    }
}

fn with_override(configured: Option<&String>, usual: AwsEndpoint) -> AwsEndpoint {
    match configured {
        Some(url) => AwsEndpoint { url: url.trim_end_matches('/').to_owned(), is_override: true, ..usual },
        None => usual,
    }
}

/// An endpoint for the tokens of an SSO login. A recipient could act as the user, so a configured endpoint must be a host of
/// AWS or on loopback.
fn for_login(configured: Option<&String>, usual: AwsEndpoint) -> (AwsEndpoint, EndpointPolicy) {
    let own = usual.host().to_owned();
    let endpoint = with_override(configured, usual);
    let policy = endpoint.policy().only([own]);
    (endpoint, policy)
}

/// Configured service URLs (`AWS_ENDPOINT_URL…`, `endpoint_url`).
#[derive(Debug, Default)]
struct EndpointOverrides {
    sts: Option<String>,
    sso: Option<String>,
    sso_oidc: Option<String>,
    ecr: Option<String>,
    ecr_public: Option<String>,
}

impl EndpointOverrides {
    fn read(env: &dyn Env, profiles: &ProfileFiles, profile: Option<&AwsProfile<'_>>) -> Self {
        let services = profile.and_then(|profile| profiles.named("services", profile.value("services")?));
        let of = |service: &str| {
            env_var(env, &format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase()))
                .or_else(|| env_var(env, "AWS_ENDPOINT_URL"))
                .or_else(|| services.as_ref()?.value(&format!("{service}.endpoint_url")).map(str::to_owned))
                .or_else(|| setting(profile, "endpoint_url"))
        };
        Self { sts: of("sts"), sso: of("sso"), sso_oidc: of("sso_oidc"), ecr: of("ecr"), ecr_public: of("ecr_public") }
    }
}

fn setting(profile: Option<&AwsProfile<'_>>, key: &str) -> Option<String> {
    profile?.value(key).map(str::to_owned)
}

/// Whether `region` is one DNS label. It becomes part of a host name, so it must not be able to name another host.
pub(super) fn is_label(region: &str) -> bool {
    !region.is_empty() && region.len() <= 63 && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
