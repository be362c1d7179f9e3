//! Endpoints of AWS services by region, partition and variant (FIPS, dual stack).

use credlet_http::fetch::EndpointPolicy;

/// The URL of a service, and the region to sign requests for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsEndpoint {
    /// Scheme and host, without a trailing slash. An override may have a port and a path.
    pub url: String,
    /// Region in the signature.
    pub region: String,
    /// Whether the URL is configured (`AWS_ENDPOINT_URL…`, `endpoint_url`) rather than derived from the region.
    pub is_override: bool,
}

impl AwsEndpoint {
    /// The policy for requests: https, and for a configured endpoint also http on loopback.
    pub(super) fn policy(&self) -> EndpointPolicy {
        if self.is_override { EndpointPolicy::default() } else { EndpointPolicy::https() }
    }

    /// Returns the value of the `Host` header: host, and port if the URL has one.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// The configured kind of endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndpointVariant {
    pub(super) fips: bool,
    pub(super) dual_stack: bool,
    /// `sts_regional_endpoints = legacy`: the global STS endpoint for the regions that existed before regional ones.
    pub(super) global_sts: bool,
}

/// Regions that use the global STS endpoint with `sts_regional_endpoints = legacy`.
const LEGACY_GLOBAL_REGIONS: [&str; 16] = [
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

/// The STS endpoint. Without a region it is the global one, as in awscli.
pub(super) fn sts(region: Option<&str>, variant: EndpointVariant) -> AwsEndpoint {
    let global =
        || AwsEndpoint { url: "https://sts.amazonaws.com".into(), region: "us-east-1".into(), is_override: false };
    let Some(region) = region else { return global() };
    let plain = !variant.fips && !variant.dual_stack;
    if plain && (region == "aws-global" || variant.global_sts && LEGACY_GLOBAL_REGIONS.contains(&region)) {
        return global();
    }
    service("sts", "sts-fips", region, variant)
}

/// The SSO portal, which issues role credentials.
pub(super) fn sso(region: &str, variant: EndpointVariant) -> AwsEndpoint {
    service("portal.sso", "portal.sso-fips", region, variant)
}

/// The SSO OIDC service, which refreshes SSO tokens.
pub(super) fn sso_oidc(region: &str, variant: EndpointVariant) -> AwsEndpoint {
    service("oidc", "oidc-fips", region, variant)
}

/// Returns the ECR API of the registry's own domain, regardless of the region's name, so that no partition is asked for the
/// passwords of another one.
pub(super) fn ecr(region: &str, domain: &str, variant: EndpointVariant) -> AwsEndpoint {
    let partition =
        AwsPartition::ALL.iter().find(|partition| partition.domain == domain).unwrap_or(AwsPartition::commercial());
    let host = match (variant.fips, variant.dual_stack) {
        (false, false) => format!("api.ecr.{region}.{}", partition.domain),
        (true, false) => format!("api.ecr-fips.{region}.{}", partition.domain),
        (false, true) => format!("ecr.{region}.{}", partition.dual_stack),
        (true, true) => format!("ecr-fips.{region}.{}", partition.dual_stack),
    };
    AwsEndpoint { url: format!("https://{host}"), region: region.to_owned(), is_override: false }
}

/// The API of the public registry, which exists in one region only.
pub(super) fn ecr_public(variant: EndpointVariant) -> AwsEndpoint {
    service("api.ecr-public", "api.ecr-public-fips", "us-east-1", variant)
}

fn service(name: &str, fips_name: &str, region: &str, variant: EndpointVariant) -> AwsEndpoint {
    let partition = AwsPartition::of(region);
    // The standard endpoints of GovCloud are FIPS endpoints.
    let usual = !variant.fips || (partition.name == "aws-us-gov" && !variant.dual_stack);
    let name = if usual { name } else { fips_name };
    let suffix = if variant.dual_stack { partition.dual_stack } else { partition.domain };
    AwsEndpoint { url: format!("https://{name}.{region}.{suffix}"), region: region.to_owned(), is_override: false }
}

/// An AWS partition: separate accounts and domains.
struct AwsPartition {
    name: &'static str,
    /// Prefix of the partition's region names.
    prefix: &'static str,
    domain: &'static str,
    dual_stack: &'static str,
}

impl AwsPartition {
    const ALL: [Self; 8] = [
        Self::new("aws-cn", "cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        Self::new("aws-us-gov", "us-gov-", "amazonaws.com", "api.aws"),
        Self::new("aws-iso", "us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
        Self::new("aws-iso-b", "us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
        Self::new("aws-iso-e", "eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
        Self::new("aws-iso-f", "us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
        Self::new("aws-eusc", "eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
        // The default for unknown regions.
        Self::new("aws", "", "amazonaws.com", "api.aws"),
    ];

    const fn new(name: &'static str, prefix: &'static str, domain: &'static str, dual_stack: &'static str) -> Self {
        Self { name, prefix, domain, dual_stack }
    }

    fn of(region: &str) -> &'static Self {
        let found = Self::ALL.iter().find(|partition| region.starts_with(partition.prefix));
        found.unwrap_or(Self::commercial())
    }

    /// The commercial partition.
    const fn commercial() -> &'static Self {
        &Self::ALL[Self::ALL.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(region: &str, fips: bool, dual_stack: bool) -> String {
        sts(Some(region), EndpointVariant { fips, dual_stack, global_sts: false }).url
    }

    #[test]
    fn sts_endpoint_of_each_partition() {
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
    fn fips_and_dual_stack_endpoints() {
        assert_eq!(url("us-east-1", true, false), "https://sts-fips.us-east-1.amazonaws.com");
        assert_eq!(url("us-gov-east-1", true, false), "https://sts.us-gov-east-1.amazonaws.com");
        assert_eq!(url("us-gov-east-1", true, true), "https://sts-fips.us-gov-east-1.api.aws");
        assert_eq!(url("cn-north-1", false, true), "https://sts.cn-north-1.api.amazonwebservices.com.cn");
        assert_eq!(url("us-east-1", true, true), "https://sts-fips.us-east-1.api.aws");
    }

    #[test]
    fn global_sts_without_region_or_legacy() {
        let global =
            AwsEndpoint { url: "https://sts.amazonaws.com".into(), region: "us-east-1".into(), is_override: false };
        assert_eq!(sts(None, EndpointVariant::default()), global);
        assert_eq!(sts(Some("aws-global"), EndpointVariant::default()), global);
        let old = EndpointVariant { global_sts: true, ..EndpointVariant::default() };
        assert_eq!(sts(Some("eu-west-1"), old), global);
        assert_eq!(sts(Some("me-south-1"), old).url, "https://sts.me-south-1.amazonaws.com");
        assert_eq!(sts(Some("cn-north-1"), old).url, "https://sts.cn-north-1.amazonaws.com.cn");
        assert_eq!(sts(Some("eu-west-1"), EndpointVariant::default()).region, "eu-west-1");
    }

    #[test]
    fn ecr_api_uses_registry_domain() {
        let url = |region: &str, domain: &str, fips, dual_stack| {
            ecr(region, domain, EndpointVariant { fips, dual_stack, global_sts: false }).url
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
                // The domain decides, not the region.
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
        assert_eq!(ecr_public(EndpointVariant::default()).url, "https://api.ecr-public.us-east-1.amazonaws.com");
    }

    #[test]
    fn sso_portal_of_each_region() {
        assert_eq!(sso("eu-west-1", EndpointVariant::default()).url, "https://portal.sso.eu-west-1.amazonaws.com");
        assert_eq!(sso_oidc("cn-north-1", EndpointVariant::default()).url, "https://oidc.cn-north-1.amazonaws.com.cn");
    }
}
