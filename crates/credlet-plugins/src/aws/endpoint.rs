//! Where AWS's services are.

use crate::web::Plain;

/// The address of a service, and the region to sign for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host and, in an override, perhaps a port and a path; without a slash at the end.
    pub url: String,
    /// The region in the signature.
    pub region: String,
    /// Whether a person has written the address down: then it may be one without TLS.
    pub chosen: bool,
}

impl Endpoint {
    /// Whether it may be asked without TLS.
    pub(super) fn plain(&self) -> Plain {
        if self.chosen { Plain::Anywhere } else { Plain::Never }
    }

    /// Host and port, as the header `Host` has them.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// Which kind of address a person wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    pub(super) fips: bool,
    pub(super) dual_stack: bool,
    /// The one address for all of the old regions, which was the default for many years.
    pub(super) global_sts: bool,
}

/// The regions that had the global endpoint before there were regional ones.
const GLOBAL_ONCE: [&str; 16] = [
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "aws-global",
];

/// The Security Token Service. Without a region it is the global one, as awscli has it.
pub(super) fn sts(region: Option<&str>, wishes: Wishes) -> Endpoint {
    let global = || Endpoint { url: "https://sts.amazonaws.com".into(), region: "us-east-1".into(), chosen: false };
    let Some(region) = region else { return global() };
    let plain = !wishes.fips && !wishes.dual_stack;
    if plain && (region == "aws-global" || wishes.global_sts && GLOBAL_ONCE.contains(&region)) {
        return global();
    }
    service("sts", "sts-fips", region, wishes)
}

/// The portal that gives out the credentials of single sign-on.
pub(super) fn sso(region: &str, wishes: Wishes) -> Endpoint {
    service("portal.sso", "portal.sso-fips", region, wishes)
}

/// The service that renews the login of single sign-on.
pub(super) fn sso_oidc(region: &str, wishes: Wishes) -> Endpoint {
    service("oidc", "oidc-fips", region, wishes)
}

/// The API of private registries. It is that of the very domain which the registry is in: whatever the region is called,
/// no part of AWS is asked for the passwords of another.
pub(super) fn ecr(region: &str, domain: &str, wishes: Wishes) -> Endpoint {
    let partition = Partition::ALL.iter().find(|partition| partition.domain == domain).unwrap_or(Partition::usual());
    let host = match (wishes.fips, wishes.dual_stack) {
        (false, false) => format!("api.ecr.{region}.{}", partition.domain),
        (true, false) => format!("api.ecr-fips.{region}.{}", partition.domain),
        (false, true) => format!("ecr.{region}.{}", partition.dual_stack),
        (true, true) => format!("ecr-fips.{region}.{}", partition.dual_stack),
    };
    Endpoint { url: format!("https://{host}"), region: region.to_owned(), chosen: false }
}

/// The API of the public registry, which is in one region only.
pub(super) fn ecr_public(wishes: Wishes) -> Endpoint {
    service("api.ecr-public", "api.ecr-public-fips", "us-east-1", wishes)
}

fn service(name: &str, fips_name: &str, region: &str, wishes: Wishes) -> Endpoint {
    let partition = Partition::of(region);
    // GovCloud's usual addresses are FIPS ones.
    let usual = !wishes.fips || (partition.name == "aws-us-gov" && !wishes.dual_stack);
    let name = if usual { name } else { fips_name };
    let suffix = if wishes.dual_stack { partition.dual_stack } else { partition.domain };
    Endpoint { url: format!("https://{name}.{region}.{suffix}"), region: region.to_owned(), chosen: false }
}

/// A part of AWS with accounts and domains of its own.
struct Partition {
    name: &'static str,
    /// How its regions begin.
    prefix: &'static str,
    domain: &'static str,
    dual_stack: &'static str,
}

impl Partition {
    const ALL: [Self; 8] = [
        Self::new("aws-cn", "cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        Self::new("aws-us-gov", "us-gov-", "amazonaws.com", "api.aws"),
        Self::new("aws-iso", "us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
        Self::new("aws-iso-b", "us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
        Self::new("aws-iso-e", "eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
        Self::new("aws-iso-f", "us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
        Self::new("aws-eusc", "eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
        // A region that nobody knows yet is one of these.
        Self::new("aws", "", "amazonaws.com", "api.aws"),
    ];

    const fn new(name: &'static str, prefix: &'static str, domain: &'static str, dual_stack: &'static str) -> Self {
        Self { name, prefix, domain, dual_stack }
    }

    fn of(region: &str) -> &'static Self {
        let found = Self::ALL.iter().find(|partition| region.starts_with(partition.prefix));
        found.unwrap_or(Self::usual())
    }

    /// The one that nearly everybody means.
    const fn usual() -> &'static Self {
        &Self::ALL[Self::ALL.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(region: &str, fips: bool, dual_stack: bool) -> String {
        sts(Some(region), Wishes { fips, dual_stack, global_sts: false }).url
    }

    #[test]
    fn every_partition_has_its_own_domain() {
        for (region, expected) in [
            ("eu-west-3", "https://sts.eu-west-3.amazonaws.com"),
            ("xx-moon-1", "https://sts.xx-moon-1.amazonaws.com"),
            ("cn-north-1", "https://sts.cn-north-1.amazonaws.com.cn"),
            ("us-gov-west-1", "https://sts.us-gov-west-1.amazonaws.com"),
            ("us-iso-east-1", "https://sts.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "https://sts.us-isob-east-1.sc2s.sgov.gov"),
            ("eu-isoe-west-1", "https://sts.eu-isoe-west-1.cloud.adc-e.uk"),
            ("us-isof-south-1", "https://sts.us-isof-south-1.csp.hci.ic.gov"),
            ("eusc-de-east-1", "https://sts.eusc-de-east-1.amazonaws.eu"),
        ] {
            assert_eq!(url(region, false, false), expected);
        }
    }

    #[test]
    fn fips_and_dual_stack_have_their_own_names() {
        assert_eq!(url("us-east-1", true, false), "https://sts-fips.us-east-1.amazonaws.com");
        assert_eq!(url("us-gov-east-1", true, false), "https://sts.us-gov-east-1.amazonaws.com");
        assert_eq!(url("us-gov-east-1", true, true), "https://sts-fips.us-gov-east-1.api.aws");
        assert_eq!(url("cn-north-1", false, true), "https://sts.cn-north-1.api.amazonwebservices.com.cn");
        assert_eq!(url("us-east-1", true, true), "https://sts-fips.us-east-1.api.aws");
    }

    #[test]
    fn the_global_endpoint_is_for_no_region_and_for_those_who_ask_for_the_old_way() {
        let global = Endpoint { url: "https://sts.amazonaws.com".into(), region: "us-east-1".into(), chosen: false };
        assert_eq!(sts(None, Wishes::default()), global);
        assert_eq!(sts(Some("aws-global"), Wishes::default()), global);
        let old = Wishes { global_sts: true, ..Wishes::default() };
        assert_eq!(sts(Some("eu-west-1"), old), global);
        assert_eq!(sts(Some("me-south-1"), old).url, "https://sts.me-south-1.amazonaws.com");
        assert_eq!(sts(Some("cn-north-1"), old).url, "https://sts.cn-north-1.amazonaws.com.cn");
        assert_eq!(sts(Some("eu-west-1"), Wishes::default()).region, "eu-west-1");
    }

    #[test]
    fn the_registry_api_is_in_the_domain_of_the_registry() {
        let url = |region: &str, domain: &str, fips, dual_stack| {
            ecr(region, domain, Wishes { fips, dual_stack, global_sts: false }).url
        };
        for (region, domain, plain, fips, dual_stack, both) in [
            (
                "eu-west-3",
                "amazonaws.com",
                "api.ecr.eu-west-3.amazonaws.com",
                "api.ecr-fips.eu-west-3.amazonaws.com",
                "ecr.eu-west-3.api.aws",
                "ecr-fips.eu-west-3.api.aws",
            ),
            (
                "us-gov-west-1",
                "amazonaws.com",
                "api.ecr.us-gov-west-1.amazonaws.com",
                "api.ecr-fips.us-gov-west-1.amazonaws.com",
                "ecr.us-gov-west-1.api.aws",
                "ecr-fips.us-gov-west-1.api.aws",
            ),
            (
                "cn-north-1",
                "amazonaws.com.cn",
                "api.ecr.cn-north-1.amazonaws.com.cn",
                "api.ecr-fips.cn-north-1.amazonaws.com.cn",
                "ecr.cn-north-1.api.amazonwebservices.com.cn",
                "ecr-fips.cn-north-1.api.amazonwebservices.com.cn",
            ),
            (
                // Not what it says it is, and still asked where it is.
                "us-east-1",
                "c2s.ic.gov",
                "api.ecr.us-east-1.c2s.ic.gov",
                "api.ecr-fips.us-east-1.c2s.ic.gov",
                "ecr.us-east-1.api.aws.ic.gov",
                "ecr-fips.us-east-1.api.aws.ic.gov",
            ),
        ] {
            assert_eq!(url(region, domain, false, false), format!("https://{plain}"));
            assert_eq!(url(region, domain, true, false), format!("https://{fips}"));
            assert_eq!(url(region, domain, false, true), format!("https://{dual_stack}"));
            assert_eq!(url(region, domain, true, true), format!("https://{both}"));
        }
        assert_eq!(ecr_public(Wishes::default()).url, "https://api.ecr-public.us-east-1.amazonaws.com");
    }

    #[test]
    fn single_sign_on_has_a_portal_in_each_region() {
        assert_eq!(sso("eu-west-1", Wishes::default()).url, "https://portal.sso.eu-west-1.amazonaws.com");
        assert_eq!(sso_oidc("cn-north-1", Wishes::default()).url, "https://oidc.cn-north-1.amazonaws.com.cn");
    }
}
