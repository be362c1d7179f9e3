/// A registry of Amazon ECR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EcrRegistry<'a> {
    /// A private registry of an account in a region.
    Private {
        /// For example `eu-west-3`.
        region: &'a str,
        /// Domain of the ECR API, for example `amazonaws.com`.
        domain: &'static str,
    },
    /// The public registry.
    Public,
}

/// Domains of private registries, and the domain of the ECR API for each.
const DOMAINS: [(&str, &str); 9] = [
    ("amazonaws.com", "amazonaws.com"),
    ("amazonaws.com.cn", "amazonaws.com.cn"),
    ("amazonaws.eu", "amazonaws.eu"),
    // Dual-stack names. Dual-stack endpoints of the API are selected by the AWS settings.
    ("on.aws", "amazonaws.com"),
    ("on.amazonwebservices.com.cn", "amazonaws.com.cn"),
    ("c2s.ic.gov", "c2s.ic.gov"),
    ("sc2s.sgov.gov", "sc2s.sgov.gov"),
    ("cloud.adc-e.uk", "cloud.adc-e.uk"),
    ("csp.hci.ic.gov", "csp.hci.ic.gov"),
];

impl<'a> EcrRegistry<'a> {
    /// Parses the host name of a registry. `None`: not a registry of Amazon. Ports and upper case are not accepted; for a kubelet
    /// such a name is a different registry too.
    pub(super) fn parse(host: &'a str) -> Option<Self> {
        if matches!(host, "public.ecr.aws" | "ecr-public.aws.com") {
            return Some(Self::Public);
        }
        let (account, rest) = host.split_once('.')?;
        let rest = rest.strip_prefix("dkr.ecr").or_else(|| rest.strip_prefix("dkr-ecr"))?;
        let rest = rest.strip_prefix("-fips").unwrap_or(rest).strip_prefix('.')?;
        let (region, end) = rest.split_once('.')?;
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        let (_, domain) = DOMAINS.into_iter().find(|(known, _)| *known == end)?;
        (is_account && is_region(region)).then_some(Self::Private { region, domain })
    }
}

/// Whether the text is one DNS label. It becomes part of the API's host name.
fn is_region(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| is_letter(byte) || byte == b'-')
}
