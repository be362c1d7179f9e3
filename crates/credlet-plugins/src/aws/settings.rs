//! What the command line, the environment and the profile say, in this order.

use std::path::{Path, PathBuf};

use credlet_core::Env;

use super::AwsError;
use super::endpoint::{self, Endpoint, Wishes};
use super::profiles::{Profile, Profiles};
use crate::harness::var;

/// What a person can say on the command line.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The profile. Unlike AWS_PROFILE it goes before keys in the environment, as with awscli.
    pub profile: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// A file with the certificate authorities to believe, in place of AWS_CA_BUNDLE.
    pub ca_bundle: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) profiles: Profiles,
    pub(super) profile: String,
    /// Whether the profile was named on the command line.
    pub(super) profile_is_explicit: bool,
    pub(super) region: Option<String>,
    pub(super) ca_bundle: Option<PathBuf>,
    wishes: Wishes,
    overrides: Overrides,
}

impl Settings {
    pub(super) fn load(options: Options, env: &dyn Env) -> Result<Self, AwsError> {
        let profiles = Profiles::read(env)?;
        let profile_is_explicit = options.profile.is_some();
        let named = options.profile.or_else(|| var(env, "AWS_PROFILE")).or_else(|| var(env, "AWS_DEFAULT_PROFILE"));
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let profile = profiles.profile(&name);
        if profile.is_none() && named.is_some() {
            let (config, credentials) = (profiles.config_path.clone(), profiles.credentials_path.clone());
            return Err(AwsError::NoProfile { name, config, credentials, others: profiles.names() });
        }
        let said = |variable: &str, key: &str| var(env, variable).or_else(|| setting(profile.as_ref(), key));
        let truth =
            |variable: &str, key: &str| said(variable, key).is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let region = options.region.filter(|region| !region.is_empty());
        let region = region.or_else(|| var(env, "AWS_REGION")).or_else(|| said("AWS_DEFAULT_REGION", "region"));
        if let Some(region) = &region
            && !is_label(region)
        {
            return Err(AwsError::Config {
                place: "the AWS region".into(),
                reason: "is not the name of a region".into(),
            });
        }
        let ca_bundle = options.ca_bundle.or_else(|| said("AWS_CA_BUNDLE", "ca_bundle").map(PathBuf::from));
        let wishes = Wishes {
            fips: truth("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
            dual_stack: truth("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint"),
            global_sts: said("AWS_STS_REGIONAL_ENDPOINTS", "sts_regional_endpoints")
                .is_some_and(|text| text.eq_ignore_ascii_case("legacy")),
        };
        let ignored = truth("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls");
        let overrides = if ignored { Overrides::default() } else { Overrides::read(env, &profiles, profile.as_ref()) };
        let ca_bundle = ca_bundle.map(|path| super::profiles::expanded(Path::new(&path), env));
        Ok(Self { profile: name, profile_is_explicit, region, ca_bundle, wishes, overrides, profiles })
    }

    pub(super) fn sts(&self) -> Endpoint {
        chosen(self.overrides.sts.as_ref(), endpoint::sts(self.region.as_deref(), self.wishes))
    }

    pub(super) fn sso(&self, region: &str) -> Endpoint {
        chosen(self.overrides.sso.as_ref(), endpoint::sso(region, self.wishes))
    }

    pub(super) fn sso_oidc(&self, region: &str) -> Endpoint {
        chosen(self.overrides.sso_oidc.as_ref(), endpoint::sso_oidc(region, self.wishes))
    }

    pub(super) fn ecr(&self, region: &str, domain: &str) -> Endpoint {
        chosen(self.overrides.ecr.as_ref(), endpoint::ecr(region, domain, self.wishes))
    }

    pub(super) fn ecr_public(&self) -> Endpoint {
        chosen(self.overrides.ecr_public.as_ref(), endpoint::ecr_public(self.wishes))
    }
}

fn chosen(chosen: Option<&String>, usual: Endpoint) -> Endpoint {
    match chosen {
        Some(url) => Endpoint { url: url.trim_end_matches('/').to_owned(), chosen: true, ..usual },
        None => usual,
    }
}

/// Addresses that a person has written down in place of AWS's.
#[derive(Debug, Default)]
struct Overrides {
    sts: Option<String>,
    sso: Option<String>,
    sso_oidc: Option<String>,
    ecr: Option<String>,
    ecr_public: Option<String>,
}

impl Overrides {
    fn read(env: &dyn Env, profiles: &Profiles, profile: Option<&Profile<'_>>) -> Self {
        let services = profile.and_then(|profile| profiles.named("services", profile.value("services")?));
        let of = |service: &str| {
            var(env, &format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase()))
                .or_else(|| var(env, "AWS_ENDPOINT_URL"))
                .or_else(|| services.as_ref()?.value(&format!("{service}.endpoint_url")).map(str::to_owned))
                .or_else(|| setting(profile, "endpoint_url"))
        };
        Self { sts: of("sts"), sso: of("sso"), sso_oidc: of("sso_oidc"), ecr: of("ecr"), ecr_public: of("ecr_public") }
    }
}

fn setting(profile: Option<&Profile<'_>>, key: &str) -> Option<String> {
    profile?.value(key).map(str::to_owned)
}

/// A region becomes a part of a host's name, so it must not be able to name another host.
fn is_label(region: &str) -> bool {
    region.len() <= 63 && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}
